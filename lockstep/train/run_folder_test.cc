#include "lockstep/train/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "lockstep/base/file.h"
#include "lockstep/base/testing/temp_folder.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class RunFolderTest : public ::testing::Test {
 protected:
  void SetUp() override { Mark(0); }

  std::string Path(const std::string& name) const { return folder_.Path(name); }

  const std::string& dir() const { return folder_.path(); }

  static CheckpointContents Contents(int64_t step) {
    return {step, 2, 17, 3, {"w"}, {}, "fingerprint", "a = 1\n"};
  }

  // The value by which checkpoints are told apart.
  void Mark(float mark) {
    ASSERT_TRUE(store_.GetOrCreate("w", DType::kFloat32, Shape{}).ok());
    ASSERT_TRUE(store_.Write("w", Tensor::Scalar<float>(mark).value()).ok());
  }

  std::unique_ptr<RunFolder> Open() const {
    Result<std::unique_ptr<RunFolder>> run = RunFolder::Open(dir(), true);
    EXPECT_TRUE(run.ok()) << run.status().ToString();
    return std::move(run).value();
  }

  SavedCheckpoint Save(RunFolder& run, int64_t step, float mark) {
    Mark(mark);
    const Result<SavedCheckpoint> saved = run.Save(Contents(step), store_);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    return saved.ok() ? *saved : SavedCheckpoint();
  }

  // What another run has left.
  void SaveAsAnother(int64_t step, float mark) { Save(*Open(), step, mark); }

  static double MarkOf(const std::string& path) {
    return ReadCheckpoint(path).value().variables[0].value.ToDoubles()[0];
  }

  Status CheckResumed(RunFolder& run) const {
    return run.CheckResumed(ReadCheckpoint(dir()).value().info);
  }

  std::vector<std::string> Names() const { return folder_.Names(); }

  testing::TempFolder folder_;
  exec::VariableStore store_;
};

TEST_F(RunFolderTest, OnlyOneRunHasIt) {
  const std::unique_ptr<RunFolder> run = Open();
  const Status status = RunFolder::Open(dir(), true).status();
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("another run"));
  EXPECT_THAT(Names(), IsEmpty());
  // By another name too.
  fs::create_directory_symlink(dir(), Path("link"));
  EXPECT_EQ(RunFolder::Open(Path("link"), true).status().code(), StatusCode::kAborted);
  EXPECT_EQ(Save(*run, 1, 1).folder, Path("step-00000001"));
}

TEST_F(RunFolderTest, TheLockEndsWithTheProcess) {
  int ready[2] = {};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto run = RunFolder::Open(dir(), true);
    const char said = run.ok() ? 'y' : 'n';
    [[maybe_unused]] const ssize_t count = ::write(ready[1], &said, 1);
    while (true) {
      ::pause();
    }
  }
  char said = 0;
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  EXPECT_EQ(RunFolder::Open(dir(), true).status().code(), StatusCode::kAborted);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(RunFolder::Open(dir(), true).ok());
}

TEST_F(RunFolderTest, ReadersNeedNoLock) {
  SaveAsAnother(1, 1);
  const std::unique_ptr<RunFolder> run = Open();
  EXPECT_EQ(MarkOf(dir()), 1);
}

TEST_F(RunFolderTest, WhatItMadeGoesAgainUnlessItIsUsed) {
  { EXPECT_TRUE(RunFolder::Open(Path("a/b"), true).ok()); }
  EXPECT_THAT(Names(), IsEmpty());
  {
    const auto run = RunFolder::Open(Path("a/b"), true).value();
    CheckpointContents contents = Contents(5);
    contents.config = "\xff";
    EXPECT_FALSE(run->Save(contents, store_).ok());
  }
  EXPECT_THAT(Names(), IsEmpty());
  { EXPECT_TRUE(RunFolder::Open(Path("a/b"), true).value()->Save(Contents(5), store_).ok()); }
  EXPECT_EQ(MarkOf(Path("a/b")), 0);
  EXPECT_EQ(RunFolder::Open(Path("none"), false).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST_F(RunFolderTest, ASingleCheckpointIsRefused) {
  SaveAsAnother(5, 1);
  EXPECT_THAT(RunFolder::Open(Path("step-00000005"), true).status().message(),
              HasSubstr("such as " + dir()));
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000005"));
}

TEST_F(RunFolderTest, ANewRunFindsNoCheckpoints) {
  EXPECT_TRUE(Open()->CheckNew().ok());
  SaveAsAnother(5, 1);
  SaveAsAnother(7, 1);
  EXPECT_THAT(Open()->CheckNew().ToString(),
              StartsWith("ALREADY_EXISTS: " + dir() +
                         " holds checkpoints of another run already, the newest of step 7: "));
}

TEST_F(RunFolderTest, WhatASaveWouldMeetIsKnownBefore) {
  // Each in a folder of its own.
  const std::vector<std::pair<std::string, bool>> cases = {
      {"step-00000005", true}, {"step-00000005", false},     {"step-00000005.tmp", true},
      {"latest", true},        {"step-00000005.tmp", false}, {"latest", false}};
  for (const auto& [name, is_folder] : cases) {
    const std::string folder = Path("run");
    fs::create_directories(folder);
    if (is_folder) {
      fs::create_directories(folder + "/" + name + "/mine");
    } else {
      std::ofstream(folder + "/" + name) << "mine";
    }
    const Status status = RunFolder::Open(folder, true).value()->CheckNew();
    EXPECT_EQ(status.code(), StatusCode::kAlreadyExists) << name << is_folder;
    EXPECT_THAT(status.message(),
                StartsWith(folder + "/" + name + " is there, and is no checkpoint of this run"));
    EXPECT_TRUE(fs::exists(folder + "/" + name));
    fs::remove_all(folder);
  }
}

TEST_F(RunFolderTest, GoingOnMeetsNoNewerOnes) {
  SaveAsAnother(5, 5);
  EXPECT_TRUE(CheckResumed(*Open()).ok());
  // Older than what will be saved.
  fs::create_directories(Path("step-00000004/mine"));
  EXPECT_TRUE(CheckResumed(*Open()).ok());
  fs::create_directories(Path("step-00000006/mine"));
  EXPECT_THAT(CheckResumed(*Open()).message(), StartsWith(Path("step-00000006") + " is there"));
  fs::remove_all(Path("step-00000006"));
  SaveAsAnother(9, 9);
  std::ofstream(Path("latest")) << "step-00000005\n";
  EXPECT_THAT(CheckResumed(*Open()).message(),
              StartsWith(Path("step-00000009") + " is newer than " + Path("step-00000005")));
  EXPECT_EQ(MarkOf(Path("step-00000009")), 9);
}

TEST_F(RunFolderTest, DamagedNewerOnesGetOtherNames) {
  SaveAsAnother(5, 5);
  SaveAsAnother(7, 7);
  SaveAsAnother(9, 9);
  for (const char* name : {"step-00000007", "step-00000009"}) {
    fs::remove(Path(name) + "/shard-00000-of-00001.safetensors");
  }
  const std::unique_ptr<RunFolder> run = Open();
  ASSERT_TRUE(CheckResumed(*run).ok());
  const SavedCheckpoint saved = Save(*run, 9, 10);
  EXPECT_THAT(saved.set_aside,
              ElementsAre(Path("step-00000009.old-1"), Path("step-00000007.old-1")));
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000005", "step-00000007.old-1",
                                   "step-00000009", "step-00000009.old-1"));
  EXPECT_EQ(MarkOf(dir()), 10);
}

TEST_F(RunFolderTest, OnlyItsOwnIsReplaced) {
  const std::unique_ptr<RunFolder> run = Open();
  Save(*run, 5, 1);
  EXPECT_THAT(Save(*run, 5, 2).set_aside, IsEmpty());
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000005"));
  EXPECT_EQ(MarkOf(dir()), 2);
  // What somebody has put there meanwhile: a folder with something in it, one without, a file.
  fs::create_directories(Path("step-00000006/mine"));
  fs::create_directories(Path("step-00000007"));
  std::ofstream(Path("step-00000008")) << "mine";
  std::ofstream(Path("step-00000008.old-1")) << "older";
  EXPECT_THAT(Save(*run, 6, 6).set_aside, ElementsAre(Path("step-00000006.old-1")));
  EXPECT_THAT(Save(*run, 7, 7).set_aside, ElementsAre(Path("step-00000007.old-1")));
  EXPECT_THAT(Save(*run, 8, 8).set_aside, ElementsAre(Path("step-00000008.old-2")));
  EXPECT_TRUE(fs::exists(Path("step-00000006.old-1/mine")));
  EXPECT_EQ(ReadFile(Path("step-00000008.old-2"), 100).value(), "mine");
  EXPECT_EQ(ReadFile(Path("step-00000008.old-1"), 100).value(), "older");
  EXPECT_EQ(MarkOf(Path("step-00000006")), 6);
  EXPECT_EQ(MarkOf(dir()), 8);
}

TEST_F(RunFolderTest, AFolderThatWasMovedIsAnError) {
  const auto run = RunFolder::Open(Path("run"), true).value();
  fs::rename(Path("run"), Path("moved"));
  EXPECT_EQ(run->Save(Contents(1), store_).status().code(), StatusCode::kFailedPrecondition);
  fs::create_directories(Path("run"));
  EXPECT_EQ(run->Save(Contents(1), store_).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::is_empty(Path("run")));
  EXPECT_TRUE(fs::is_empty(Path("moved")));
}

TEST_F(RunFolderTest, TheDiskMustHaveRoom) {
  const std::unique_ptr<RunFolder> run = Open();
  EXPECT_TRUE(run->CheckSpace(1).ok());
  const Status status = run->CheckSpace(uint64_t{1} << 62);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), StartsWith(dir() + ": a checkpoint takes 4611686018427387904 "));
}

TEST_F(RunFolderTest, AFailedSaveLeavesWhatWasThere) {
  const std::unique_ptr<RunFolder> run = Open();
  Save(*run, 5, 1);
  CheckpointContents contents = Contents(5);
  contents.config = "\xff";
  EXPECT_THAT(run->Save(contents, store_).status().message(), HasSubstr("not UTF-8"));
  contents = Contents(5);
  contents.slot_variables = {"none"};
  EXPECT_EQ(run->Save(contents, store_).status().ToString(),
            "NOT_FOUND: there is no variable 'none'");
  contents.slot_variables = {"w"};
  EXPECT_EQ(run->Save(contents, store_).status().ToString(),
            "INVALID_ARGUMENT: two tensors are called 'w'");
  EXPECT_EQ(run->Save(Contents(-1), store_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000005"));
  EXPECT_EQ(MarkOf(dir()), 1);
}

TEST_F(RunFolderTest, AFullDiskLeavesWhatWasThere) {
  const std::unique_ptr<RunFolder> run = Open();
  Save(*run, 5, 1);
  // A limit of the file size stands for the disk: the system call fails in the same way.
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  // Too little for the shard; enough for it, but not for the manifest.
  for (const rlim_t limit : {rlim_t{1}, rlim_t{200}}) {
    rlimit small = before;
    small.rlim_cur = limit;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status same = run->Save(Contents(5), store_).status();
    const Status next = run->Save(Contents(6), store_).status();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(same.code(), StatusCode::kResourceExhausted) << same.ToString();
    EXPECT_THAT(next.message(), StartsWith(Path("step-00000006.tmp/")));
    EXPECT_THAT(next.message(), HasSubstr("cannot write at offset " + std::to_string(limit)));
    EXPECT_THAT(Names(), ElementsAre("latest", "step-00000005"));
    EXPECT_EQ(MarkOf(dir()), 1);
  }
}

TEST_F(RunFolderTest, AForbiddenFolderIsAClearError) {
  // Root may write anywhere, so be nobody.
  constexpr uid_t kNobody = 65534;
  const std::unique_ptr<RunFolder> run = Open();
  fs::create_directories(Path("other"));
  ASSERT_EQ(::chmod(dir().c_str(), 0555), 0);
  ASSERT_EQ(::chmod(Path("other").c_str(), 0555), 0);
  const uid_t user = ::geteuid();
  ASSERT_TRUE(user != 0 || ::seteuid(kNobody) == 0);
  const Status saved = run->Save(Contents(6), store_).status();
  const Status opened = RunFolder::Open(Path("other"), true).status();
  const Status below = RunFolder::Open(Path("a/b"), true).status();
  ASSERT_TRUE(user != 0 || ::seteuid(user) == 0);
  ASSERT_EQ(::chmod(dir().c_str(), 0755), 0);
  EXPECT_EQ(saved.ToString(), "PERMISSION_DENIED: " + Path("step-00000006.tmp") +
                                  ": cannot create the folder: Permission denied");
  EXPECT_EQ(opened.ToString(), "PERMISSION_DENIED: " + Path("other") +
                                   ": cannot make a folder in it: Permission denied");
  EXPECT_EQ(below.ToString(), "PERMISSION_DENIED: " + Path("a") +
                                  ": cannot make the folder: Permission denied [for "
                                  "the folder " +
                                  Path("a/b") + "]");
  EXPECT_THAT(Names(), ElementsAre("other"));
}

TEST_F(RunFolderTest, WhatTookThePlaceOfLatestIsSetAside) {
  const std::unique_ptr<RunFolder> run = Open();
  fs::create_directories(Path("latest/mine"));
  EXPECT_THAT(Save(*run, 5, 1).set_aside, ElementsAre(Path("latest.old-1")));
  EXPECT_THAT(Names(), ElementsAre("latest", "latest.old-1", "step-00000005"));
  EXPECT_EQ(MarkOf(dir()), 1);
}

TEST_F(RunFolderTest, AFolderThatReplacedItsOwnStays) {
  const std::string place = Path("place");
  std::unique_ptr<RunFolder> run = RunFolder::Open(place, true).value();
  fs::remove(place);
  fs::create_directory(place);
  run.reset();
  EXPECT_TRUE(fs::exists(place));
}

TEST_F(RunFolderTest, NothingToSaveIsACheckpointToo) {
  ASSERT_TRUE(Open()->Save(CheckpointContents(), store_).ok());
  exec::VariableStore restored;
  const Result<CheckpointInfo> info = LoadCheckpoint(dir(), {}, {}, restored);
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->contents.step, 0);
  EXPECT_TRUE(restored.All().empty());
}

}  // namespace
}  // namespace lockstep::train
