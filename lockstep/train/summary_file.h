// The file of a run's summary, held by that run from its start to its end.
//
//   LS_ASSIGN_OR_RETURN(const std::unique_ptr<SummaryFile> file, SummaryFile::Open(path));
//   ... train ...
//   LS_TRY(file->Write(summary));
//
// Only one run at a time has it, and only a summary is replaced by a summary: a mistaken path costs
// nobody a file. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "lockstep/train/internal/path_lock.h"
#include "lockstep/train/summary.h"

namespace lockstep::train {

class SummaryFile {
  // So that only Open makes one.
  struct Token {
    explicit Token() = default;
  };

 public:
  // Locks `path`, in a folder that is there, and leaves it as it is. ABORTED while another run has
  // it, ALREADY_EXISTS if something else than a summary or an empty file is there,
  // RESOURCE_EXHAUSTED where the disk is full.
  static Result<std::unique_ptr<SummaryFile>> Open(const std::string& path);

  SummaryFile(Token, std::string path, internal::PathLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  // Writes it, whole or not at all. ALREADY_EXISTS if something else has got there since.
  Status Write(const Summary& summary);

 private:
  const std::string path_;
  const internal::PathLock lock_;
};

}  // namespace lockstep::train
