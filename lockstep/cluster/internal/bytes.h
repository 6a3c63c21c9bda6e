// Little-endian numbers in byte strings. A reader that ran past the end answers zeros and says so.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::cluster::internal {

class ByteWriter {
 public:
  void U32(uint32_t value) { Raw(&value, sizeof(value)); }

  void U64(uint64_t value) { Raw(&value, sizeof(value)); }

  void Reserve(size_t bytes) { bytes_.reserve(bytes); }

  void Bytes(std::string_view bytes) { bytes_.append(bytes); }

  std::string Take() { return std::move(bytes_); }

 private:
  // x86-64 and AArch64 are little-endian, and so are these numbers.
  void Raw(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }

  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  uint32_t U32() { return Number<uint32_t>(); }

  uint64_t U64() { return Number<uint64_t>(); }

  std::string_view Bytes(uint64_t size) {
    if (size > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view bytes = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(static_cast<size_t>(size));
    return bytes;
  }

  std::string_view rest() const { return rest_; }

  bool ok() const { return ok_; }

 private:
  template <class T>
  T Number() {
    T value = 0;
    const std::string_view bytes = Bytes(sizeof(T));
    if (!bytes.empty()) {
      std::memcpy(&value, bytes.data(), sizeof(T));
    }
    return value;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace lockstep::cluster::internal
