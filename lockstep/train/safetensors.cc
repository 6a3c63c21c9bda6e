#include "lockstep/train/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <nlohmann/json.hpp>

#include "lockstep/base/counted.h"
#include "lockstep/base/quote.h"
#include "lockstep/base/sha256.h"
#include "lockstep/train/internal/safetensors_header.h"

namespace lockstep::train {
namespace {

// Elements are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);

constexpr size_t kLengthBytes = 8;
constexpr size_t kDataAlignment = 64;
// The limit of the public library.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

uint64_t DecodeLength(std::string_view bytes) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return length;
}

// Bytes of the file up to the end of the header, from its first bytes.
Result<uint64_t> HeaderEnd(std::string_view start, uint64_t file_size, const std::string& path) {
  if (file_size < kLengthBytes || start.size() < kLengthBytes) {
    return DataLoss(fmt::format("{}: {}, a safetensors file begins with 8 bytes of header length",
                                path, Counted(file_size, "byte")));
  }
  const uint64_t length = DecodeLength(start);
  if (length > file_size - kLengthBytes) {
    return DataLoss(fmt::format("{}: offset 0: a header of {}, after it the file has only {}", path,
                                Counted(length, "byte"), file_size - kLengthBytes));
  }
  if (length > kMaxHeaderBytes) {
    return DataLoss(fmt::format("{}: offset 0: a header of {} bytes, allowed are at most {}", path,
                                length, kMaxHeaderBytes));
  }
  return kLengthBytes + length;
}

// Reads the length and the header.
Result<std::string> ReadHeaderText(const InputFile& file) {
  std::string text(kLengthBytes, '\0');
  text.resize(static_cast<size_t>(std::min<uint64_t>(kLengthBytes, file.size())));
  LS_TRY(file.ReadAt(0, text.data(), text.size()));
  LS_ASSIGN_OR_RETURN(const uint64_t end, HeaderEnd(text, file.size(), file.path()));
  try {
    text.resize(static_cast<size_t>(end));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(
        fmt::format("{}: no memory for a header of {} bytes", file.path(), end));
  }
  LS_TRY(file.ReadAt(kLengthBytes, text.data() + kLengthBytes, text.size() - kLengthBytes));
  return text;
}

// The entries, sorted, must lie end to end from the header to the end of the file.
Status CheckPositions(const SafetensorsHeader& header, uint64_t file_size,
                      const std::string& path) {
  uint64_t position = header.data_begin;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin != position) {
      return DataLoss(fmt::format("{}: tensor {}: begins at offset {}, expected {} ({})", path,
                                  Quoted(entry.name), entry.begin, position,
                                  entry.begin < position ? "tensors overlap" : "a gap"));
    }
    if (entry.end > file_size) {
      return DataLoss(fmt::format("{}: tensor {}: ends at offset {}, the file has {}", path,
                                  Quoted(entry.name), entry.end, Counted(file_size, "byte")));
    }
    position = entry.end;
  }
  if (position != file_size) {
    return DataLoss(fmt::format("{}: offset {}: {} behind the last tensor", path, position,
                                Counted(file_size - position, "byte")));
  }
  return OkStatus();
}

// Another byte in a bool is not a value that the language has.
Status CheckBools(const InputFile& file, const SafetensorsEntry& entry, const Tensor& tensor) {
  const auto* bytes = static_cast<const unsigned char*>(tensor.data());
  const auto* end = bytes + tensor.bytes();
  const auto* bad = std::find_if(bytes, end, [](unsigned char byte) { return byte > 1; });
  if (bad != end) {
    return DataLoss(fmt::format(
        "{}: offset {}: tensor {}: byte {:02x} in a BOOL, allowed are 00 "
        "and 01",
        file.path(), entry.begin + static_cast<uint64_t>(bad - bytes), Quoted(entry.name), *bad));
  }
  return OkStatus();
}

bool IsUtf8(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

// In the order in which data is written.
std::vector<const NamedTensor*> Ordered(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> ordered;
  for (const NamedTensor& tensor : tensors) {
    ordered.push_back(&tensor);
  }
  std::sort(ordered.begin(), ordered.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const size_t size_a = DTypeSize(a->value.dtype());
    const size_t size_b = DTypeSize(b->value.dtype());
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  return ordered;
}

Status CheckMetadata(const SafetensorsMetadata& metadata) {
  for (const auto& [key, value] : metadata) {
    if (!IsUtf8(key) || !IsUtf8(value)) {
      return InvalidArgument(fmt::format("metadata {} is not UTF-8", Quoted(key)));
    }
  }
  return OkStatus();
}

// The length and the header, padded.
Result<std::string> HeaderText(const std::vector<const NamedTensor*>& ordered,
                               const SafetensorsMetadata& metadata) {
  LS_TRY(CheckMetadata(metadata));
  nlohmann::json json = nlohmann::json::object();
  if (!metadata.empty()) {
    json[std::string(internal::kMetadataKey)] = metadata;
  }
  uint64_t position = 0;
  for (const NamedTensor* tensor : ordered) {
    LS_CHECK(tensor->value.has_value());
    if (tensor->name == internal::kMetadataKey || !IsUtf8(tensor->name)) {
      return InvalidArgument(
          fmt::format("a tensor cannot be called {} in a safetensors file", Quoted(tensor->name)));
    }
    nlohmann::json entry;
    entry["dtype"] = internal::SafetensorsTypeName(tensor->value.dtype());
    entry["shape"] = std::vector<int64_t>(tensor->value.shape().dims().begin(),
                                          tensor->value.shape().dims().end());
    entry["data_offsets"] = {position, position + tensor->value.bytes()};
    position += tensor->value.bytes();
    if (!json.emplace(tensor->name, std::move(entry)).second) {
      return InvalidArgument(fmt::format("two tensors are called {}", Quoted(tensor->name)));
    }
  }
  std::string text = std::string(kLengthBytes, '\0') + json.dump();
  text.resize((text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');
  const uint64_t length = text.size() - kLengthBytes;
  if (length > kMaxHeaderBytes) {
    return InvalidArgument(
        fmt::format("{} tensors need a header of {} bytes, a safetensors file may have {}",
                    ordered.size(), length, kMaxHeaderBytes));
  }
  for (size_t i = 0; i < kLengthBytes; ++i) {
    text[i] = static_cast<char>(length >> (8 * i));
  }
  return text;
}

}  // namespace

Result<FileDigest> WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                    const SafetensorsMetadata& metadata) {
  const std::vector<const NamedTensor*> ordered = Ordered(tensors);
  LS_ASSIGN_OR_RETURN(const std::string header, HeaderText(ordered, metadata));
  LS_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  LS_ASSIGN_OR_RETURN(Sha256 hash, Sha256::Create());
  hash.Update(header);
  LS_TRY(file.Append(header.data(), header.size()));
  for (const NamedTensor* tensor : ordered) {
    hash.Update(tensor->value.data(), tensor->value.bytes());
    LS_TRY(file.Append(tensor->value.data(), tensor->value.bytes()));
  }
  const uint64_t bytes = file.size();
  LS_TRY(file.Finish());
  return FileDigest{bytes, std::move(hash).HexDigest()};
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text, uint64_t file_size,
                                                 const std::string& path) {
  LS_ASSIGN_OR_RETURN(const uint64_t end, HeaderEnd(text, file_size, path));
  if (text.size() < end) {
    return DataLoss(
        fmt::format("{}: ends at offset {}, in a header that ends at {}", path, text.size(), end));
  }
  SafetensorsHeader header;
  header.data_begin = end;
  LS_TRY(internal::ParseHeaderJson(text.substr(kLengthBytes, end - kLengthBytes), kLengthBytes,
                                   path, header));
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
            });
  LS_TRY(CheckPositions(header, file_size, path));
  return header;
}

Result<SafetensorsHeader> ReadSafetensorsHeader(const InputFile& file) {
  LS_ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(file));
  return ParseSafetensorsHeader(text, file.size(), file.path());
}

Result<Tensor> ReadSafetensorsTensor(const InputFile& file, const SafetensorsEntry& entry) {
  LS_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(entry.dtype, entry.shape));
  LS_CHECK(tensor.bytes() == entry.end - entry.begin);
  LS_TRY(file.ReadAt(entry.begin, tensor.data(), tensor.bytes()));
  if (entry.dtype == DType::kBool) {
    LS_TRY(CheckBools(file, entry, tensor));
  }
  return tensor;
}

Result<SafetensorsContent> ReadSafetensors(const InputFile& file) {
  LS_ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(file));
  LS_ASSIGN_OR_RETURN(SafetensorsHeader header,
                      ParseSafetensorsHeader(text, file.size(), file.path()));
  LS_ASSIGN_OR_RETURN(Sha256 hash, Sha256::Create());
  hash.Update(text);
  SafetensorsContent content;
  content.metadata = std::move(header.metadata);
  // The entries cover the rest of the file in this order, so the hash is that of the file.
  for (SafetensorsEntry& entry : header.entries) {
    LS_ASSIGN_OR_RETURN(Tensor tensor, ReadSafetensorsTensor(file, entry));
    hash.Update(tensor.data(), tensor.bytes());
    content.tensors.push_back({std::move(entry.name), std::move(tensor)});
  }
  content.digest = {file.size(), std::move(hash).HexDigest()};
  return content;
}

}  // namespace lockstep::train
