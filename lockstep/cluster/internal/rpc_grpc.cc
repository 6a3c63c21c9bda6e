#include "lockstep/cluster/internal/rpc_grpc.h"

#include <vector>

namespace lockstep::cluster::internal {
namespace {

// gRPC refuses longer ones; ours are short, this is for safety.
constexpr size_t kMaxTrailerBytes = 1024;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(const SecurityOptions& options) {
  if (!options.tls()) {
    return grpc::InsecureServerCredentials();
  }
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = options.ca_certificates;
  tls.pem_key_cert_pairs.push_back({options.private_key, options.certificate});
  return grpc::SslServerCredentials(tls);
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const SecurityOptions& options) {
  if (!options.tls()) {
    return grpc::InsecureChannelCredentials();
  }
  return grpc::SslCredentials({options.ca_certificates, options.private_key, options.certificate});
}

std::chrono::system_clock::time_point ToSystemTime(const Deadline& deadline) {
  if (deadline.infinite()) {
    return std::chrono::system_clock::time_point::max();
  }
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(deadline.remaining());
}

Deadline FromSystemTime(std::chrono::system_clock::time_point when) {
  constexpr auto kFar = std::chrono::hours(24 * 365);
  const auto now = std::chrono::system_clock::now();
  if (when - now > kFar) {
    return Deadline::Infinite();
  }
  return Deadline::At(Deadline::Clock::now() +
                      std::chrono::duration_cast<Deadline::Clock::duration>(when - now));
}

grpc::ByteBuffer MakeMessage(const std::string& header, std::string_view payload,
                             std::shared_ptr<const std::string> owner) {
  // Small pieces go into one slice: cheaper than counting references.
  constexpr size_t kCopyBelow = 4096;
  if (payload.size() < kCopyBelow) {
    const grpc::Slice slice(header + std::string(payload));
    return grpc::ByteBuffer(&slice, 1);
  }
  // The slice's destructor drops the reference on the owner.
  auto held = std::make_unique<std::shared_ptr<const std::string>>(std::move(owner));
  const grpc::Slice slices[] = {
      grpc::Slice(header),
      grpc::Slice(
          const_cast<char*>(payload.data()), payload.size(),
          [](void* owner_pointer) {
            std::unique_ptr<std::shared_ptr<const std::string>> release(
                static_cast<std::shared_ptr<const std::string>*>(owner_pointer));
          },
          held.release())};
  return grpc::ByteBuffer(slices, 2);
}

bool ReadMessage(const grpc::ByteBuffer& buffer, std::string& bytes) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) {
    return false;
  }
  bytes.clear();
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return true;
}

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  return {static_cast<grpc::StatusCode>(status.code()),
          status.message().substr(0, kMaxTrailerBytes)};
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) {
    return OkStatus();
  }
  const int code = status.error_code();
  const bool known = code > 0 && code <= static_cast<int>(StatusCode::kUnauthenticated);
  return {known ? static_cast<StatusCode>(code) : StatusCode::kUnknown, status.error_message()};
}

}  // namespace lockstep::cluster::internal
