#include "lockstep/cluster/security/certificate_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"
#include "lockstep/cluster/security/credentials.h"

namespace lockstep::cluster {
namespace {

using lockstep::internal::Descriptor;

constexpr mode_t kForAll = 0644;
constexpr mode_t kForOwner = 0600;
constexpr uint64_t kMaxBytes = uint64_t{1} << 20;

std::string PathOf(const std::string& folder, const std::string& name, std::string_view suffix) {
  return fmt::format("{}/{}{}", folder, name, suffix);
}

// Removes the file again unless Keep() was called.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)) {}

  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  ~NewFile() {
    if (made_ && !kept_) {
      unlink(path_.c_str());
    }
  }

  Status Write(const std::string& content, mode_t mode) {
    LS_TRY(lockstep::internal::CheckPath(path_));
    Descriptor fd(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (fd.get() < 0) {
      if (errno == EEXIST) {
        return AlreadyExists(fmt::format("{}: exists already, and is not overwritten", path_));
      }
      return ErrnoStatus(errno, path_, "create");
    }
    made_ = true;
    // Whatever the umask says.
    if (fchmod(fd.get(), mode) != 0) {
      return ErrnoStatus(errno, path_, "set the mode");
    }
    LS_TRY(lockstep::internal::WriteAll(fd.get(), path_, 0, content.data(), content.size()));
    if (fsync(fd.get()) != 0) {
      return ErrnoStatus(errno, path_, "synchronise");
    }
    return fd.Close() == 0 ? OkStatus() : ErrnoStatus(errno, path_, "close");
  }

  void Keep() { kept_ = true; }

 private:
  std::string path_;
  bool made_ = false;
  bool kept_ = false;
};

Status CheckName(const std::string& name) {
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos ||
      HasControlCharacters(name)) {
    return InvalidArgument(
        fmt::format("{} is no name for a file: it must not be empty, begin with a dot or have a "
                    "slash",
                    Quoted(name)));
  }
  return OkStatus();
}

}  // namespace

Status WriteCertificate(const std::string& folder, const std::string& name,
                        const CertificateAndKey& files) {
  LS_TRY(CheckName(name));
  LS_TRY(lockstep::internal::CheckPath(folder));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return ErrnoStatus(error.value(), folder, "create the folder");
  }
  NewFile key(PathOf(folder, name, ".key"));
  NewFile certificate(PathOf(folder, name, ".crt"));
  LS_TRY(key.Write(files.key, kForOwner));
  LS_TRY(certificate.Write(files.certificate, kForAll));
  LS_TRY(SyncFolder(folder));
  key.Keep();
  certificate.Keep();
  return OkStatus();
}

Result<CertificateAndKey> ReadCertificate(const std::string& folder, const std::string& name) {
  CertificateAndKey files;
  const std::string certificate_path = PathOf(folder, name, ".crt");
  const std::string key_path = PathOf(folder, name, ".key");
  LS_ASSIGN_OR_RETURN(files.certificate, ReadFile(certificate_path, kMaxBytes));
  LS_ASSIGN_OR_RETURN(files.key, ReadFile(key_path, kMaxBytes));
  LS_TRY(CheckPair(files, {.certificate = certificate_path, .key = key_path}));
  return files;
}

}  // namespace lockstep::cluster
