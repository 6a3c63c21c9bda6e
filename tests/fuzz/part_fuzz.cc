// ParsePart on arbitrary bytes: an error with a message, or a part that can be written and read
// again with the same bytes.
#include <cstddef>
#include <cstdint>

#include "lockstep/op/catalog.h"
#include "lockstep/pass/serialize_part.h"
#include "tests/fuzz/part_fuzz_device.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto part = pass::ParsePart(bytes, op::Catalog(), {}, testing::kPartDevice);
  if (!part.ok()) {
    LS_CHECK(!part.status().message().empty());
    return 0;
  }
  const Result<std::string> written = pass::SerializePart(*part);
  LS_CHECK(written.ok());
  const auto again = pass::ParsePart(*written, op::Catalog(), {}, testing::kPartDevice);
  LS_CHECK(again.ok());
  LS_CHECK(pass::SerializePart(*again).value() == *written);
  return 0;
}
