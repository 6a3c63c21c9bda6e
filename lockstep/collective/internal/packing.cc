#include "lockstep/collective/internal/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "lockstep/collective/internal/float16.h"

namespace lockstep::collective::internal {
namespace {

constexpr int64_t kPackedBlock = 256;

enum class Form : uint16_t {
  kRaw,      // float32
  kUpper,    // the upper halves of float32: bfloat16
  kFloat16,  // binary16
  kGrid8,    // int8 multiples of 2^parameter
  kGrid16,   // int16 multiples of 2^parameter
  kSparse,   // `parameter` positions of a byte each, and as many float32; others are +0
};

struct BlockHeader {
  Form form;
  int16_t parameter;
};

template <class T>
std::byte* Write(std::byte* out, const T* values, int64_t count) {
  std::memcpy(out, values, static_cast<size_t>(count) * sizeof(T));
  return out + static_cast<size_t>(count) * sizeof(T);
}

std::byte* WriteHeader(std::byte* out, Form form, int parameter) {
  const BlockHeader header{form, static_cast<int16_t>(parameter)};
  return Write(out, &header, 1);
}

// The bits of values[i] that `decoded` has not.
uint32_t Difference(float value, float decoded) {
  return std::bit_cast<uint32_t>(value) ^ std::bit_cast<uint32_t>(decoded);
}

// Each of these returns the end of what it wrote, or null if the form does not keep all bits.

std::byte* PackUpper(const float* values, int64_t count, std::byte* out) {
  std::array<uint16_t, kPackedBlock> halves;
  uint32_t lost = 0;
#pragma omp simd reduction(| : lost)
  for (int64_t i = 0; i < count; ++i) {
    const auto word = std::bit_cast<uint32_t>(values[i]);
    halves[static_cast<size_t>(i)] = static_cast<uint16_t>(word >> 16);
    lost |= word & 0xFFFFU;
  }
  return lost != 0 ? nullptr : Write(WriteHeader(out, Form::kUpper, 0), halves.data(), count);
}

std::byte* PackFloat16(const float* values, int64_t count, std::byte* out) {
  std::array<uint16_t, kPackedBlock> halves;
  uint32_t lost = 0;
#pragma omp simd reduction(| : lost)
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t half = Float16FromFloat(values[i]);
    halves[static_cast<size_t>(i)] = half;
    lost |= Difference(values[i], Float16ToFloat(half));
  }
  return lost != 0 ? nullptr : Write(WriteHeader(out, Form::kFloat16, 0), halves.data(), count);
}

float PowerOfTwo(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// On the finest grid on which the largest value still fits T.
template <class T>
std::byte* PackGrid(const float* values, int64_t count, uint32_t largest, Form form,
                    std::byte* out) {
  constexpr int kBits = 8 * static_cast<int>(sizeof(T)) - 1;
  // 2^exponent is at most the largest value.
  const int exponent = static_cast<int>(largest >> 23) - 127;
  const int step_exponent = exponent - (kBits - 1);
  if (exponent > 127 || step_exponent < -126) {
    return nullptr;
  }
  const float step = PowerOfTwo(step_exponent);
  const float inverse = PowerOfTwo(-step_exponent);
  std::array<T, kPackedBlock> multiples;
  uint32_t lost = 0;
#pragma omp simd reduction(| : lost)
  for (int64_t i = 0; i < count; ++i) {
    // Less than 2^kBits: it fits, unless it is lost anyway.
    const auto multiple = static_cast<int32_t>(values[i] * inverse);
    multiples[static_cast<size_t>(i)] = static_cast<T>(multiple);
    // Adding zero makes +0 of -0, whatever the compiler makes of the two conversions.
    lost |= Difference(values[i], static_cast<float>(multiple) * step + 0.0F);
  }
  return lost != 0 ? nullptr
                   : Write(WriteHeader(out, form, step_exponent), multiples.data(), count);
}

std::byte* PackGrids(const float* values, int64_t count, std::byte* out) {
  uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7FFFFFFFU);
  }
  std::byte* end = PackGrid<int8_t>(values, count, largest, Form::kGrid8, out);
  return end != nullptr ? end : PackGrid<int16_t>(values, count, largest, Form::kGrid16, out);
}

std::byte* PackSparse(const float* values, int64_t count, std::byte* out) {
  // More need as much as all of them do.
  constexpr size_t kMost = kPackedBlock * 4 / 5;
  std::array<uint8_t, kMost> positions;
  std::array<float, kMost> kept;
  size_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (std::bit_cast<uint32_t>(values[i]) == 0) {
      continue;
    }
    if (5 * (found + 1) > 4 * static_cast<size_t>(count) || found == kMost) {
      return nullptr;
    }
    positions[found] = static_cast<uint8_t>(i);
    kept[found++] = values[i];
  }
  const auto all = static_cast<int64_t>(found);
  out = WriteHeader(out, Form::kSparse, static_cast<int>(found));
  return Write(Write(out, positions.data(), all), kept.data(), all);
}

std::byte* PackBlock(Codec codec, const float* values, int64_t count, std::byte* out) {
  std::byte* end = nullptr;
  switch (codec) {
    case Codec::kNone:
      break;
    case Codec::kBFloat16:
      end = PackUpper(values, count, out);
      break;
    case Codec::kFloat16:
      end = PackFloat16(values, count, out);
      break;
    case Codec::kInt8:
      end = PackGrids(values, count, out);
      // Blocks of zeros, which have no largest value.
      end = end != nullptr ? end : PackSparse(values, count, out);
      break;
    case Codec::kTopK:
      end = PackSparse(values, count, out);
      break;
  }
  return end != nullptr ? end : Write(WriteHeader(out, Form::kRaw, 0), values, count);
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }

  template <class T>
  bool Read(T* values, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    if (bytes > bytes_.size()) {
      return false;
    }
    std::memcpy(values, bytes_.data(), bytes);
    bytes_ = bytes_.subspan(bytes);
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

template <class T, class Decode>
bool ReadBlock(Reader& reader, int64_t count, float* values, Decode decode) {
  std::array<T, kPackedBlock> packed;
  if (!reader.Read(packed.data(), count)) {
    return false;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    values[i] = decode(packed[static_cast<size_t>(i)]);
  }
  return true;
}

bool ReadSparse(Reader& reader, int found, int64_t count, float* values) {
  std::array<uint8_t, kPackedBlock> positions;
  std::array<float, kPackedBlock> kept;
  if (found < 0 || found > count || !reader.Read(positions.data(), found) ||
      !reader.Read(kept.data(), found)) {
    return false;
  }
  std::fill(values, values + count, 0.0F);
  for (size_t i = 0; i < static_cast<size_t>(found); ++i) {
    if (positions[i] >= count) {
      return false;
    }
    values[positions[i]] = kept[i];
  }
  return true;
}

bool UnpackBlock(Reader& reader, int64_t count, float* values) {
  BlockHeader header{};
  if (!reader.Read(&header, 1)) {
    return false;
  }
  const bool grid = header.form == Form::kGrid8 || header.form == Form::kGrid16;
  if (grid && (header.parameter < -126 || header.parameter > 126)) {
    return false;
  }
  const float step = grid ? PowerOfTwo(header.parameter) : 0.0F;
  const auto on_grid = [step](auto multiple) { return static_cast<float>(multiple) * step; };
  switch (header.form) {
    case Form::kRaw:
      return reader.Read(values, count);
    case Form::kUpper:
      return ReadBlock<uint16_t>(reader, count, values, [](uint16_t half) {
        return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
      });
    case Form::kFloat16:
      return ReadBlock<uint16_t>(reader, count, values,
                                 [](uint16_t half) { return Float16ToFloat(half); });
    case Form::kGrid8:
      return ReadBlock<int8_t>(reader, count, values, on_grid);
    case Form::kGrid16:
      return ReadBlock<int16_t>(reader, count, values, on_grid);
    case Form::kSparse:
      return ReadSparse(reader, header.parameter, count, values);
  }
  return false;
}

}  // namespace

size_t PackedBound(int64_t count) {
  const int64_t blocks = (count + kPackedBlock - 1) / kPackedBlock;
  return static_cast<size_t>(count) * sizeof(float) +
         static_cast<size_t>(blocks) * sizeof(BlockHeader);
}

size_t Pack(Codec codec, const float* values, int64_t count, std::byte* out) {
  std::byte* end = out;
  for (int64_t begin = 0; begin < count; begin += kPackedBlock) {
    end = PackBlock(codec, values + begin, std::min(kPackedBlock, count - begin), end);
  }
  return static_cast<size_t>(end - out);
}

Status Unpack(std::span<const std::byte> packed, int64_t count, float* values) {
  Reader reader(packed);
  for (int64_t begin = 0; begin < count; begin += kPackedBlock) {
    if (!UnpackBlock(reader, std::min(kPackedBlock, count - begin), values + begin)) {
      return DataLoss(fmt::format("{} bytes are no packed values: broken at value {} of {}",
                                  packed.size(), begin, count));
    }
  }
  return reader.empty() ? OkStatus()
                        : DataLoss(fmt::format("{} bytes are more than {} packed values need",
                                               packed.size(), count));
}

}  // namespace lockstep::collective::internal
