// What peers send to a transport, on arbitrary bytes: frames, and the addresses of a task. An error
// with a message, or something that can be written and read again with the same bytes.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lockstep/net/internal/frame.h"
#include "lockstep/net/wire_up.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::net;            // NOLINT(google-build-using-namespace)
  using namespace lockstep::net::internal;  // NOLINT(google-build-using-namespace)
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto parsed = ParseFrame(bytes);
  if (parsed.ok()) {
    FrameBytes again;
    LS_CHECK(EncodeFrame(parsed->frame, again) == parsed->header_bytes);
    LS_CHECK(parsed->header_bytes <= size);
    LS_CHECK(std::memcmp(again.data(), data, parsed->header_bytes) == 0);
  }
  const std::string_view blob(reinterpret_cast<const char*>(data), size);
  const auto addresses = ParseTaskAddresses(blob);
  if (addresses.ok()) {
    LS_CHECK(EncodeTaskAddresses(*addresses) == blob);
  }
  return 0;
}
