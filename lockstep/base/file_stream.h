// Files piece by piece, for content that should not be in memory whole. Errors as in file.h: the
// path, the offset and the system's reason. Not thread-safe, except that ReadAt is.
//
//   LS_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
//   LS_TRY(file.Append(data, size));
//   LS_TRY(file.Finish());
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/result.h"

namespace lockstep {

class OutputFile {
 public:
  // A new file. One that exists is ALREADY_EXISTS.
  static Result<OutputFile> Create(const std::string& path);

  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;
  // Without a Finish that succeeded, removes the file.
  ~OutputFile();

  Status Append(const void* data, size_t size);

  // Synchronises and closes; ends the use of the object, also with an error. The name in the folder
  // is durable after SyncFolder only.
  Status Finish();

  // Bytes appended so far.
  uint64_t size() const { return size_; }

 private:
  OutputFile(std::string path, internal::Descriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  internal::Descriptor fd_;
  uint64_t size_ = 0;
};

class InputFile {
 public:
  // Regular files only.
  static Result<InputFile> Open(const std::string& path);

  const std::string& path() const { return path_; }

  // As it was when the file was opened.
  uint64_t size() const { return size_; }

  // Exactly `size` bytes from `offset`. A file that ends before is DATA_LOSS.
  Status ReadAt(uint64_t offset, void* data, size_t size) const;

 private:
  InputFile(std::string path, internal::OpenedFile opened)
      : path_(std::move(path)), fd_(std::move(opened.fd)), size_(opened.size) {}

  std::string path_;
  internal::Descriptor fd_;
  uint64_t size_;
};

}  // namespace lockstep
