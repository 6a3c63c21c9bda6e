// What tasks send each other for each run of a graph, on arbitrary bytes: an error with a message,
// or something that can be written and read again.
#include <cstddef>
#include <cstdint>

#include "lockstep/cluster/internal/run_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;                     // NOLINT(google-build-using-namespace)
  using namespace lockstep::cluster::internal;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Result<RunRequest> request = ParseRunRequest(bytes);
  if (request.ok()) {
    for (const size_t i : request->separate) {
      // What would come as a message of its own.
      request->feeds[i] = Tensor::Zeros(DType::kFloat64, Shape{1024}).value();
    }
    Separate separate;
    const Result<std::string> again =
        EncodeRunRequest(request->run, request->what, request->feeds, separate);
    LS_CHECK(again.ok());
    LS_CHECK(ParseRunRequest(*again)->feeds.size() == request->feeds.size());
  } else {
    LS_CHECK(!request.status().message().empty());
  }
  const Result<RunReply> reply = ParseRunReply(bytes);
  LS_CHECK(!reply.ok() || !reply->status.ok() || reply->separate.size() <= reply->fetches.size());
  return 0;
}
