#include "lockstep/cluster/security/handshake.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/file.h"
#include "lockstep/cluster/internal/openssl.h"

namespace lockstep::cluster {
namespace {

using internal::Bio;
using internal::Certificate;
using internal::Key;
using internal::OpenSslDeleter;
using internal::OpenSslError;
using lockstep::internal::Descriptor;

using TlsContext = std::unique_ptr<SSL_CTX, OpenSslDeleter<SSL_CTX_free>>;
using Tls = std::unique_ptr<SSL, OpenSslDeleter<SSL_free>>;
using FoundAddresses = std::unique_ptr<addrinfo, OpenSslDeleter<freeaddrinfo>>;

// What a record of TLS begins with (RFC 8446, 5.1).
constexpr unsigned char kAlert = 21;
constexpr unsigned char kHandshake = 22;

Status Silent() {
  return Unavailable("there is no answer");
}

Status WaitFor(int fd, int16_t event, const Deadline& deadline) {
  pollfd watched = {fd, event, 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
    const int wait = static_cast<int>(std::min<int64_t>(left, std::numeric_limits<int>::max()));
    const int ready = poll(&watched, 1, deadline.infinite() ? -1 : wait);
    if (ready > 0) {
      return OkStatus();
    }
    if (ready == 0) {
      return Silent();
    }
    if (errno != EINTR) {
      return ErrnoStatus(errno, "a connection", "wait for");
    }
  }
}

Result<Descriptor> ConnectTo(const net::Address& address, const Deadline& deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host().c_str(), std::to_string(address.port()).c_str(), &hints, &found) !=
      0) {
    return Unavailable("the host cannot be resolved");
  }
  const FoundAddresses list(found);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Descriptor fd(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd.get() < 0) {
      continue;
    }
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) != 0) {
      int error = 0;
      socklen_t size = sizeof(error);
      if (errno != EINPROGRESS || !WaitFor(fd.get(), POLLOUT, deadline).ok() ||
          getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        continue;
      }
    }
    return fd;
  }
  return Unavailable("nobody listens there");
}

// A client's end of TLS whose bytes go through memory, so that a socket that breaks raises no
// signal.
class TlsClient {
 public:
  // Without certificates nobody is verified: what is asked is only whether TLS is spoken.
  static Result<TlsClient> Create(const net::Address& address, const SecurityOptions& security);

  Status Run(int socket, const Deadline& deadline);

 private:
  TlsClient(TlsContext context, Tls tls, bool certified)
      : context_(std::move(context)), tls_(std::move(tls)), certified_(certified) {}

  Status Send(int socket, const Deadline& deadline);
  // OK with nothing in `incoming_` at the end of the stream.
  Status Receive(int socket, const Deadline& deadline);
  // Where a step of OpenSSL failed for another reason than that bytes are missing.
  Status Refused() const;
  Status HungUp() const;

  TlsContext context_;
  Tls tls_;
  bool certified_;
  bool first_ = true;
  std::array<char, 16 << 10> buffer_{};
  std::span<const char> incoming_;
};

Result<TlsClient> TlsClient::Create(const net::Address& address, const SecurityOptions& security) {
  TlsContext context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1) {
    return OpenSslError("prepare for TLS");
  }
  if (security.tls()) {
    LS_ASSIGN_OR_RETURN(const auto authorities,
                        internal::ParseCertificates(security.ca_certificates));
    LS_ASSIGN_OR_RETURN(const auto chain, internal::ParseCertificates(security.certificate));
    LS_ASSIGN_OR_RETURN(const Key key, internal::ParseKey(security.private_key));
    X509_STORE* const store = SSL_CTX_get_cert_store(context.get());
    for (const Certificate& authority : authorities) {
      X509_STORE_add_cert(store, authority.get());
    }
    X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
    bool taken = SSL_CTX_use_certificate(context.get(), chain.front().get()) == 1 &&
                 SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1;
    for (size_t i = 1; i < chain.size(); ++i) {
      taken = taken && SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
    }
    if (!taken) {
      return OpenSslError("use the certificate");
    }
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  Tls tls(SSL_new(context.get()));
  Bio incoming(BIO_new(BIO_s_mem()));
  Bio outgoing(BIO_new(BIO_s_mem()));
  constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
  if (tls == nullptr || incoming == nullptr || outgoing == nullptr ||
      SSL_set_alpn_protos(tls.get(), kHttp2.data(), kHttp2.size()) != 0) {
    return OpenSslError("prepare for TLS");
  }
  const std::string host = address.host().substr(0, address.host().find('%'));
  const bool is_name = address.kind() == net::Address::Kind::kName;
  if ((is_name ? SSL_set_tlsext_host_name(tls.get(), host.c_str()) == 1 &&
                     SSL_set1_host(tls.get(), host.c_str()) == 1
               : X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls.get()), host.c_str()) == 1) ==
      false) {
    return OpenSslError("name the host");
  }
  SSL_set_bio(tls.get(), incoming.release(), outgoing.release());
  SSL_set_connect_state(tls.get());
  return TlsClient(std::move(context), std::move(tls), security.tls());
}

Status TlsClient::Send(int socket, const Deadline& deadline) {
  char* data = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(SSL_get_wbio(tls_.get()), &data));
  for (size_t sent = 0; sent < size;) {
    const ssize_t count = send(socket, data + sent, size - sent, MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<size_t>(count);
    } else if (errno == EAGAIN || errno == EINTR) {
      LS_TRY(WaitFor(socket, POLLOUT, deadline));
    } else {
      break;  // What the other end said before it hung up is still to be read.
    }
  }
  (void)BIO_reset(SSL_get_wbio(tls_.get()));
  return OkStatus();
}

Status TlsClient::Receive(int socket, const Deadline& deadline) {
  for (;;) {
    LS_TRY(WaitFor(socket, POLLIN, deadline));
    const ssize_t count = recv(socket, buffer_.data(), buffer_.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      continue;
    }
    incoming_ = {buffer_.data(), static_cast<size_t>(std::max<ssize_t>(count, 0))};
    return OkStatus();
  }
}

Status TlsClient::Refused() const {
  const auto verified = SSL_get_verify_result(tls_.get());
  const unsigned long error = ERR_peek_last_error();  // NOLINT(google-runtime-int): OpenSSL's.
  const char* const reason = ERR_reason_error_string(error);
  ERR_clear_error();
  if (certified_ && verified != X509_V_OK) {
    return Unauthenticated(fmt::format("the certificate shown there is not accepted here: {}",
                                       X509_verify_cert_error_string(verified)));
  }
  return Unauthenticated(
      fmt::format("the TLS handshake with this task is refused there: {}{}",
                  reason == nullptr ? "no reason is given" : reason,
                  certified_ ? "; is this task's certificate of the same authority?" : ""));
}

Status TlsClient::HungUp() const {
  // With TLS 1.3 a client is done before the server has seen its certificate.
  if (certified_ && SSL_is_init_finished(tls_.get()) == 1) {
    return Unauthenticated(
        "this task's certificate is refused there, in the TLS handshake; is it of the same "
        "authority?");
  }
  return Unavailable("the connection was closed there in the TLS handshake");
}

Status TlsClient::Run(int socket, const Deadline& deadline) {
  for (;;) {
    ERR_clear_error();
    // A server of HTTP/2 speaks first, once it has accepted the client.
    std::array<char, 1> byte{};
    const bool shaken = SSL_is_init_finished(tls_.get()) == 1;
    const int done = shaken ? SSL_read(tls_.get(), byte.data(), 1) : SSL_do_handshake(tls_.get());
    const int why = SSL_get_error(tls_.get(), done);
    LS_TRY(Send(socket, deadline));
    if (done == 1) {
      if (shaken) {
        return OkStatus();
      }
      continue;
    }
    if (why == SSL_ERROR_ZERO_RETURN) {
      return HungUp();
    }
    if (why != SSL_ERROR_WANT_READ) {
      return Refused();
    }
    LS_TRY(Receive(socket, deadline));
    if (incoming_.empty()) {
      return HungUp();
    }
    if (first_) {
      first_ = false;
      const auto type = static_cast<unsigned char>(incoming_.front());
      const bool speaks_tls = type == kAlert || type == kHandshake;
      if (speaks_tls && !certified_) {
        return Unauthenticated("TLS is spoken there, and this task has no certificates");
      }
      if (!speaks_tls) {
        return certified_
                   ? Unauthenticated("TLS is not spoken there, and this task has certificates")
                   : OkStatus();
      }
    }
    BIO_write(SSL_get_rbio(tls_.get()), incoming_.data(), static_cast<int>(incoming_.size()));
  }
}

}  // namespace

Status TryHandshake(const net::Address& address, const SecurityOptions& security,
                    const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(const Descriptor socket, ConnectTo(address, deadline));
  LS_ASSIGN_OR_RETURN(TlsClient client, TlsClient::Create(address, security));
  return client.Run(socket.get(), deadline);
}

}  // namespace lockstep::cluster
