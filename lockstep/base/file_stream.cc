#include "lockstep/base/file_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"

namespace lockstep {

Result<OutputFile> OutputFile::Create(const std::string& path) {
  LS_TRY(internal::CheckPath(path));
  internal::Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd.get() < 0) {
    return ErrnoStatus(errno, path, "create");
  }
  return OutputFile(path, std::move(fd));
}

OutputFile::~OutputFile() {
  if (fd_.get() >= 0) {
    ::unlink(path_.c_str());
  }
}

Status OutputFile::Append(const void* data, size_t size) {
  LS_CHECK(fd_.get() >= 0);
  LS_TRY(internal::WriteAll(fd_.get(), path_, size_, data, size));
  size_ += size;
  return OkStatus();
}

Status OutputFile::Finish() {
  LS_CHECK(fd_.get() >= 0);
  Status status;
  if (::fsync(fd_.get()) != 0) {
    status = ErrnoStatus(errno, path_, "synchronise");
  }
  if (fd_.Close() != 0 && status.ok()) {
    status = ErrnoStatus(errno, path_, "close");
  }
  if (!status.ok()) {
    ::unlink(path_.c_str());
  }
  return status;
}

Result<InputFile> InputFile::Open(const std::string& path) {
  LS_ASSIGN_OR_RETURN(internal::OpenedFile opened, internal::OpenRegular(path));
  return InputFile(path, std::move(opened));
}

Status InputFile::ReadAt(uint64_t offset, void* data, size_t size) const {
  char* bytes = static_cast<char*>(data);
  size_t done = 0;
  while (done < size) {
    const ssize_t count =
        ::pread(fd_.get(), bytes + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return ErrnoStatus(errno, path_, fmt::format("read at offset {}", offset + done));
    }
    if (count == 0) {
      return DataLoss(fmt::format("{}: ends at offset {}, {} more bytes were expected",
                                  Shown(path_), offset + done, size - done));
    }
    done += static_cast<size_t>(count);
  }
  return OkStatus();
}

}  // namespace lockstep
