#include "lockstep/data/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "lockstep/base/counted.h"
#include "lockstep/base/file.h"
#include "lockstep/base/file_stream.h"
#include "lockstep/base/gzip.h"
#include "lockstep/base/quote.h"

namespace lockstep::data {
namespace {

// Of a file, and of what it decompresses to.
constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;
constexpr size_t kMagicBytes = 4;
constexpr size_t kDimensionBytes = 4;
constexpr size_t kMaxHeaderBytes = kMagicBytes + kDimensionBytes * Shape::kMaxRank;

struct ElementType {
  uint8_t code;
  size_t stored_bytes;
  DType dtype;
};

constexpr std::array<ElementType, 6> kElementTypes = {{
    {0x08, 1, DType::kUInt8},
    {0x09, 1, DType::kInt32},
    {0x0B, 2, DType::kInt32},
    {0x0C, 4, DType::kInt32},
    {0x0D, 4, DType::kFloat32},
    {0x0E, 8, DType::kFloat64},
}};

uint8_t ByteAt(std::string_view content, size_t offset) {
  return static_cast<uint8_t>(content[offset]);
}

// Unsigned of the size of T, big-endian at `bytes`.
template <class Bits>
Bits LoadBigEndian(const char* bytes) {
  Bits value = 0;
  for (size_t i = 0; i < sizeof(Bits); ++i) {
    value = static_cast<Bits>((value << 8) | static_cast<uint8_t>(bytes[i]));
  }
  return value;
}

// Stored elements of type Stored (same bits as Bits), widened to To.
template <class Bits, class Stored, class To>
void Decode(const char* source, const Tensor& target) {
  const std::span<To> values = target.values<To>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        static_cast<To>(std::bit_cast<Stored>(LoadBigEndian<Bits>(source + i * sizeof(Bits))));
  }
}

void DecodeElements(uint8_t code, const char* source, const Tensor& target) {
  switch (code) {
    case 0x08:
      if (target.bytes() > 0) {
        std::memcpy(target.data(), source, target.bytes());
      }
      return;
    case 0x09:
      return Decode<uint8_t, int8_t, int32_t>(source, target);
    case 0x0B:
      return Decode<uint16_t, int16_t, int32_t>(source, target);
    case 0x0C:
      return Decode<uint32_t, int32_t, int32_t>(source, target);
    case 0x0D:
      return Decode<uint32_t, float, float>(source, target);
    case 0x0E:
      return Decode<uint64_t, double, double>(source, target);
    default:
      LS_CHECK(false);
  }
}

Result<ElementType> ReadMagic(std::string_view content, std::string_view name) {
  if (content.size() < kMagicBytes) {
    return DataLoss(fmt::format("{}: {}, an IDX file begins with a magic number of {}", name,
                                Counted(content.size(), "byte"), kMagicBytes));
  }
  if (ByteAt(content, 0) != 0 || ByteAt(content, 1) != 0) {
    return DataLoss(fmt::format("{}: offset 0: bytes {:02x} {:02x}, an IDX file begins with 00 00",
                                name, ByteAt(content, 0), ByteAt(content, 1)));
  }
  for (const ElementType& type : kElementTypes) {
    if (type.code == ByteAt(content, 2)) {
      return type;
    }
  }
  return DataLoss(fmt::format(
      "{}: offset 2: type code 0x{:02x}, allowed are 0x08 (unsigned byte), 0x09 (signed "
      "byte), 0x0b (short), 0x0c (int), 0x0d (float) and 0x0e (double)",
      name, ByteAt(content, 2)));
}

Result<Shape> ReadShape(std::string_view content, std::string_view name) {
  const int rank = ByteAt(content, 3);
  if (rank < 1 || rank > Shape::kMaxRank) {
    return DataLoss(fmt::format("{}: offset 3: {} dimensions, allowed are 1 to {}", name, rank,
                                Shape::kMaxRank));
  }
  const size_t header_bytes = kMagicBytes + kDimensionBytes * static_cast<size_t>(rank);
  if (content.size() < header_bytes) {
    return DataLoss(
        fmt::format("{}: ends at offset {} inside the header, which has {} bytes for {}", name,
                    content.size(), header_bytes, Counted(rank, "dimension")));
  }
  Shape shape;
  int64_t elements = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const size_t offset = kMagicBytes + kDimensionBytes * static_cast<size_t>(axis);
    const int64_t dim = LoadBigEndian<uint32_t>(content.data() + offset);
    // A zero is left out, so that the product of the others cannot overflow behind its back.
    if (dim != 0 && (__builtin_mul_overflow(elements, dim, &elements) ||
                     static_cast<uint64_t>(elements) > kMaxFileBytes)) {
      return DataLoss(
          fmt::format("{}: offset {}: with dimension {} of size {} there are more than "
                      "{} elements, the most that are allowed",
                      name, offset, axis, dim, kMaxFileBytes));
    }
    shape.Append(dim);
  }
  return shape;
}

Status CheckKind(std::string_view name, const ElementType& type, const Shape& shape,
                 const std::optional<IdxKind>& kind) {
  if (!kind.has_value() || (type.dtype == DType::kUInt8 && shape.rank() == kind->rank)) {
    return OkStatus();
  }
  return DataLoss(fmt::format(
      "{}: offset 2: {} {}, {} are unsigned bytes with {} (magic number 00 00 08 {:02x})", name,
      DTypeName(type.dtype), shape.ToString(), kind->what, Counted(kind->rank, "dimension"),
      kind->rank));
}

// Of the whole file, header included.
uint64_t PromisedBytes(const ElementType& type, const Shape& shape) {
  return kMagicBytes + kDimensionBytes * static_cast<uint64_t>(shape.rank()) +
         static_cast<uint64_t>(shape.num_elements()) * type.stored_bytes;
}

// Unpacks a compressed file: as much as its header promises, because a small file can hold very
// much of nothing.
Result<std::string> Unpack(std::string_view content, const std::string& path,
                           const std::optional<IdxKind>& kind) {
  const auto named = [&](const Status& status) {
    return Status(status.code(), fmt::format("{}: {}", Shown(path), status.message()));
  };
  Result<std::string> beginning = GunzipBeginning(content, kMaxHeaderBytes);
  if (!beginning.ok()) {
    return named(beginning.status());
  }
  uint64_t promised = kMaxHeaderBytes;
  // A file that ends inside of the header is short, or truncated: Gunzip tells.
  if (beginning->size() == kMaxHeaderBytes) {
    const std::string name = Shown(path) + " (decompressed)";
    LS_ASSIGN_OR_RETURN(const ElementType type, ReadMagic(*beginning, name));
    LS_ASSIGN_OR_RETURN(const Shape shape, ReadShape(*beginning, name));
    LS_TRY(CheckKind(name, type, shape, kind));
    promised = PromisedBytes(type, shape);
    if (promised > kMaxFileBytes) {
      return DataLoss(fmt::format("{}: its header promises {} bytes, an IDX file has at most {}",
                                  name, promised, kMaxFileBytes));
    }
  }
  Result<std::string> unpacked = Gunzip(content, promised);
  if (!unpacked.ok() && unpacked.status().code() == StatusCode::kOutOfRange) {
    return DataLoss(
        fmt::format("{} (decompressed): more than the {} bytes that its header promises",
                    Shown(path), promised));
  }
  return unpacked.ok() ? std::move(unpacked) : named(unpacked.status());
}

}  // namespace

Result<Tensor> ParseIdx(std::string_view content, std::string_view name,
                        const std::optional<IdxKind>& kind) {
  LS_ASSIGN_OR_RETURN(const ElementType type, ReadMagic(content, name));
  LS_ASSIGN_OR_RETURN(const Shape shape, ReadShape(content, name));
  LS_TRY(CheckKind(name, type, shape, kind));
  const size_t header_bytes = kMagicBytes + kDimensionBytes * static_cast<size_t>(shape.rank());
  const uint64_t expected = PromisedBytes(type, shape);
  if (content.size() < expected) {
    return DataLoss(fmt::format(
        "{}: ends at offset {}, its header promises {} of {} each and "
        "so {} bytes in all",
        name, content.size(), shape.ToString(), Counted(type.stored_bytes, "byte"), expected));
  }
  if (content.size() > expected) {
    return DataLoss(fmt::format("{}: offset {}: {} behind the last element of {}", name, expected,
                                Counted(content.size() - expected, "byte"), shape.ToString()));
  }
  LS_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type.dtype, shape));
  DecodeElements(type.code, content.data() + header_bytes, tensor);
  return tensor;
}

Result<Tensor> ReadIdx(const std::string& path, const StopCheck& should_stop,
                       const std::optional<IdxKind>& kind) {
  LS_TRY(CheckStop(should_stop));
  LS_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > kMaxFileBytes) {
    return DataLoss(fmt::format("{}: {} bytes, an IDX file has at most {}", Shown(path),
                                file.size(), kMaxFileBytes));
  }
  LS_ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxFileBytes));
  LS_TRY(CheckStop(should_stop));
  if (!IsGzip(content)) {
    return ParseIdx(content, Shown(path), kind);
  }
  LS_ASSIGN_OR_RETURN(const std::string unpacked, Unpack(content, path, kind));
  LS_TRY(CheckStop(should_stop));
  return ParseIdx(unpacked, Shown(path) + " (decompressed)", kind);
}

Result<IdxHeader> ReadIdxHeader(const std::string& path, const std::optional<IdxKind>& kind) {
  constexpr uint64_t kBeginningBytes = uint64_t{64} << 10;
  LS_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  std::string content(static_cast<size_t>(std::min(file.size(), kBeginningBytes)), '\0');
  LS_TRY(file.ReadAt(0, content.data(), content.size()));
  if (IsGzip(content)) {
    Result<std::string> decompressed = GunzipBeginning(content, kMaxHeaderBytes);
    if (!decompressed.ok()) {
      const Status& status = decompressed.status();
      return Status(status.code(), fmt::format("{}: {}", Shown(path), status.message()));
    }
    content = std::move(decompressed).value();
  }
  IdxHeader header;
  LS_ASSIGN_OR_RETURN(const ElementType type, ReadMagic(content, Shown(path)));
  header.dtype = type.dtype;
  LS_ASSIGN_OR_RETURN(header.shape, ReadShape(content, Shown(path)));
  LS_TRY(CheckKind(Shown(path), type, header.shape, kind));
  return header;
}

}  // namespace lockstep::data
