#include "lockstep/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/file.h"
#include "lockstep/base/sha256.h"
#include "lockstep/base/testing/temp_folder.h"
#include "lockstep/train/internal/checkpoint_folder.h"
#include "lockstep/train/internal/manifest.h"
#include "lockstep/train/run_folder.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
namespace fs = std::filesystem;

constexpr uint64_t kLimit = 1 << 20;

void Set(exec::VariableStore& store, const std::string& name, const Tensor& value) {
  ASSERT_TRUE(store.GetOrCreate(name, value.dtype(), value.shape()).ok());
  ASSERT_TRUE(store.Write(name, value).ok());
}

std::string Bytes(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.data()), tensor.bytes()};
}

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Set(store_, "w", Tensor::From<float>(Shape{2, 2}, {1, -0.0F, 1e-42F, 3}).value());
    Set(store_, "b", Tensor::From<int64_t>(Shape{1}, {INT64_MIN}).value());
    Set(store_, "w/m", Tensor::From<double>(Shape{}, std::vector<double>{0.1}).value());
    Set(store_, "other", Tensor::Scalar<float>(5).value());
  }

  std::string Path(const std::string& name) const { return folder_.Path(name); }

  const std::string& dir() const { return folder_.path(); }

  static CheckpointContents Contents(int64_t step) {
    return {step, 2, 17, UINT64_MAX, {"w", "b"}, {"w/m"}, "fingerprint", "a = 1\n"};
  }

  static std::vector<VariableSpec> Program() {
    return {{"b", VariableRole::kModel, DType::kInt64, Shape{1}},
            {"w", VariableRole::kModel, DType::kFloat32, Shape{2, 2}},
            {"w/m", VariableRole::kSlot, DType::kFloat64, Shape{}}};
  }

  void Save(int64_t step) {
    if (run_ == nullptr) {
      run_ = RunFolder::Open(dir(), true).value();
    }
    const Result<SavedCheckpoint> saved = run_->Save(Contents(step), store_);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
    EXPECT_EQ(saved->folder, dir() + "/" + internal::StepName(step));
    EXPECT_THAT(saved->set_aside, IsEmpty());
  }

  // Saves with this value of b, by which checkpoints are told apart.
  void SaveMarked(int64_t step, int64_t mark) {
    Set(store_, "b", Tensor::From<int64_t>(Shape{1}, {mark}).value());
    Save(step);
  }

  static double MarkOf(const Checkpoint& checkpoint) {
    return checkpoint.variables[1].value.ToDoubles()[0];
  }

  std::vector<std::string> Names() const { return folder_.Names(); }

  // In place, which is much faster than a new file.
  static void Flip(const std::string& path, size_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto position = static_cast<std::streamoff>(offset);
    const int byte = file.seekg(position).get();
    ASSERT_NE(byte, std::char_traits<char>::eof());
    ASSERT_TRUE(file.seekp(position).put(static_cast<char>(byte ^ 0x10)));
  }

  testing::TempFolder folder_;
  exec::VariableStore store_;
  std::unique_ptr<RunFolder> run_;
};

constexpr const char* kShard = "/shard-00000-of-00001.safetensors";

TEST_F(CheckpointTest, ComesBackBitByBit) {
  Save(123);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000123"));
  EXPECT_EQ(ReadFile(Path("latest"), 100).value(), "step-00000123\n");
  exec::VariableStore restored;
  const Result<CheckpointInfo> info = LoadCheckpoint(dir(), Program(), {}, restored);
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->folder, Path("step-00000123"));
  EXPECT_EQ(info->warning, "");
  EXPECT_EQ(info->contents.step, 123);
  EXPECT_EQ(info->contents.epoch, 2);
  EXPECT_EQ(info->contents.next_batch_step, 17);
  EXPECT_EQ(info->contents.seed, UINT64_MAX);
  EXPECT_THAT(info->contents.model_variables, ElementsAre("w", "b"));
  EXPECT_THAT(info->contents.slot_variables, ElementsAre("w/m"));
  EXPECT_EQ(info->contents.program_fingerprint, "fingerprint");
  EXPECT_EQ(info->contents.config, "a = 1\n");
  EXPECT_EQ(restored.All().size(), 3U);
  for (const char* name : {"w", "b", "w/m"}) {
    const Result<Tensor> value = restored.Read(name);
    ASSERT_TRUE(value.ok()) << value.status().ToString();
    EXPECT_EQ(Bytes(*value), Bytes(store_.Read(name).value())) << name;
  }
}

TEST_F(CheckpointTest, EqualStatesGiveEqualFiles) {
  Save(1);
  const std::string manifest = ReadFile(Path("step-00000001/manifest.json"), kLimit).value();
  const std::string shard = ReadFile(Path("step-00000001") + kShard, kLimit).value();
  Save(1);
  EXPECT_EQ(ReadFile(Path("step-00000001/manifest.json"), kLimit).value(), manifest);
  EXPECT_EQ(ReadFile(Path("step-00000001") + kShard, kLimit).value(), shard);
}

TEST_F(CheckpointTest, FoldersMayBeMovedAndNamedDirectly) {
  Save(1);
  SaveMarked(2, 22);
  fs::rename(Path("step-00000002"), Path("moved"));
  const Result<Checkpoint> checkpoint = ReadCheckpoint(Path("moved/"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  EXPECT_EQ(MarkOf(*checkpoint), 22);
  EXPECT_EQ(checkpoint->info.warning, "");
}

TEST_F(CheckpointTest, LatestDecides) {
  SaveMarked(5, 55);
  SaveMarked(3, 33);
  EXPECT_EQ(MarkOf(ReadCheckpoint(dir()).value()), 33);
}

TEST_F(CheckpointTest, LeftOversOfACrashAreIgnoredAndCleaned) {
  SaveMarked(5, 1);
  // A save of step 6 that died before its rename, with everything written.
  fs::copy(Path("step-00000005"), Path("step-00000006.tmp"));
  // One that died in its first file.
  fs::create_directories(Path("step-00000007.tmp"));
  std::ofstream(Path("step-00000007.tmp") + kShard) << "half";
  const Result<Checkpoint> checkpoint = ReadCheckpoint(dir());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->info.folder, Path("step-00000005"));
  EXPECT_EQ(checkpoint->info.warning, "");
  SaveMarked(7, 7);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000005", "step-00000007"));
  EXPECT_EQ(MarkOf(ReadCheckpoint(dir()).value()), 7);
}

TEST_F(CheckpointTest, ACrashBetweenTheTwoStepsOfAReplacementLosesNothing) {
  SaveMarked(4, 4);
  SaveMarked(5, 5);
  fs::rename(Path("step-00000005"), Path("step-00000005.replaced"));
  const Result<Checkpoint> checkpoint = ReadCheckpoint(dir());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(MarkOf(*checkpoint), 5);
  EXPECT_EQ(checkpoint->info.folder, Path("step-00000005.replaced"));
  SaveMarked(6, 6);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000004", "step-00000005", "step-00000006"));
}

TEST_F(CheckpointTest, WithoutAManifestThereIsNoCheckpoint) {
  Save(5);
  fs::remove(Path("step-00000005/manifest.json"));
  EXPECT_EQ(ReadCheckpoint(Path("step-00000005")).status().ToString(),
            "NOT_FOUND: " + Path("step-00000005") +
                ": no checkpoint: there is neither a manifest.json nor a folder 'step-*' with one");
  EXPECT_EQ(ReadCheckpoint(dir()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadCheckpoint(Path("none")).status().ToString(),
            "NOT_FOUND: " + Path("none") + ": cannot list the folder: No such file or directory");
}

TEST_F(CheckpointTest, EveryFlippedByteOfAFileIsFound) {
  Save(5);
  for (const std::string& name : {std::string(kShard), std::string("/manifest.json")}) {
    const std::string path = Path("step-00000005") + name;
    const size_t size = fs::file_size(path);
    for (size_t i = 0; i < size; ++i) {
      Flip(path, i);
      const Status status = ReadCheckpoint(Path("step-00000005")).status();
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << i << status.ToString();
      EXPECT_THAT(status.message(), StartsWith(path + ": "));
      Flip(path, i);
    }
  }
  EXPECT_TRUE(ReadCheckpoint(dir()).ok());
}

TEST_F(CheckpointTest, DamageIsNamed) {
  Save(5);
  const std::string path = Path("step-00000005") + kShard;
  const auto size = fs::file_size(path);
  Flip(path, size - 1);
  EXPECT_THAT(
      ReadCheckpoint(Path("step-00000005")).status().ToString(),
      ::testing::MatchesRegex("DATA_LOSS: " + path + ": its bytes 0 to " + std::to_string(size) +
                              " have the SHA-256 [0-9a-f]+, the manifest says [0-9a-f]+"));
  fs::resize_file(path, size - 8);
  EXPECT_EQ(ReadCheckpoint(Path("step-00000005")).status().ToString(),
            "DATA_LOSS: " + path + ": ends at offset " + std::to_string(size - 8) +
                ", the manifest says " + std::to_string(size));
  fs::remove(path);
  EXPECT_EQ(ReadCheckpoint(Path("step-00000005")).status().ToString(),
            "NOT_FOUND: " + path + ": cannot open: No such file or directory");
}

TEST_F(CheckpointTest, DamageFallsBackToTheNewestThatIsWhole) {
  for (int64_t step = 1; step <= 4; ++step) {
    SaveMarked(step, step);
  }
  // 4 is what `latest` names, 3 is newer than 2.
  Flip(Path("step-00000004") + kShard, 200);
  fs::remove(Path("step-00000003") + kShard);
  const Result<Checkpoint> checkpoint = ReadCheckpoint(dir());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  EXPECT_EQ(MarkOf(*checkpoint), 2);
  EXPECT_EQ(checkpoint->info.contents.step, 2);
  EXPECT_THAT(checkpoint->info.damaged, ElementsAre("step-00000004", "step-00000003"));
  EXPECT_THAT(checkpoint->info.warning,
              StartsWith(Path("step-00000002") + " is used, because " + Path("step-00000004")));
  EXPECT_THAT(checkpoint->info.warning,
              HasSubstr("; " + Path("step-00000003") + kShard + ": cannot open"));
  // No fall back from one that was named itself.
  EXPECT_EQ(ReadCheckpoint(Path("step-00000004")).status().code(), StatusCode::kDataLoss);
  Flip(Path("step-00000002") + kShard, 200);
  Flip(Path("step-00000001/manifest.json"), 50);
  EXPECT_THAT(ReadCheckpoint(dir()).status().ToString(),
              StartsWith("DATA_LOSS: " + dir() + ": no checkpoint is whole: "));
}

TEST_F(CheckpointTest, LatestMayBeWrong) {
  SaveMarked(1, 1);
  SaveMarked(2, 2);
  SaveMarked(3, 3);
  fs::remove_all(Path("step-00000003"));
  Result<Checkpoint> checkpoint = ReadCheckpoint(dir());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  EXPECT_EQ(MarkOf(*checkpoint), 2);
  EXPECT_EQ(checkpoint->info.warning, Path("step-00000002") + " is used, because " + dir() +
                                          "/latest: names 'step-00000003', which is not a "
                                          "checkpoint here: it has no manifest.json");
  for (const char* text : {"", "../step-00000001\n", "step-00000001"}) {
    std::ofstream(Path("latest")) << text;
    checkpoint = ReadCheckpoint(dir());
    ASSERT_TRUE(checkpoint.ok());
    EXPECT_EQ(MarkOf(*checkpoint), 2);
    EXPECT_THAT(checkpoint->info.warning, HasSubstr("/latest: offset 0: found '"));
  }
  fs::remove(Path("latest"));
  checkpoint = ReadCheckpoint(dir());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(MarkOf(*checkpoint), 2);
  EXPECT_THAT(checkpoint->info.warning, HasSubstr("/latest: cannot open"));
}

TEST_F(CheckpointTest, WhatIsNotDamageIsNotPassedOver) {
  Save(1);
  Save(2);
  const std::string path = Path("step-00000002/manifest.json");
  std::string body = ReadFile(path, kLimit).value();
  body.resize(body.rfind(",\n  \"sha256\""));
  const std::string version = "\"format_version\": 1";
  body.replace(body.find(version), version.size(), "\"format_version\": 2");
  std::ofstream(path) << body << ",\n  \"sha256\": \"" << Sha256Hex(body).value() << "\"\n}\n";
  EXPECT_EQ(ReadCheckpoint(dir()).status().ToString(),
            "UNIMPLEMENTED: " + path + ": format version 2, this program reads 1");
  fs::remove(path);
  fs::create_directories(path);
  EXPECT_EQ(ReadCheckpoint(dir()).status().ToString(),
            "INVALID_ARGUMENT: " + path + ": is a directory, expected a regular file");
}

TEST_F(CheckpointTest, SeveralShardsAreRead) {
  const NamedTensor w{"w", Tensor::Scalar<float>(1).value()};
  const NamedTensor m{"m", Tensor::Scalar<double>(2).value()};
  internal::Manifest manifest;
  manifest.contents.model_variables = {"w"};
  manifest.contents.slot_variables = {"m"};
  fs::create_directories(Path("c"));
  const std::vector<NamedTensor> first = {m};
  const std::vector<NamedTensor> second = {w};
  manifest.shards = {WriteSafetensors(Path("c/") + internal::ShardName(0, 2), first, {}).value(),
                     WriteSafetensors(Path("c/") + internal::ShardName(1, 2), second, {}).value()};
  manifest.variables = {{{"w", VariableRole::kModel, DType::kFloat32, Shape{}}, 1},
                        {{"m", VariableRole::kSlot, DType::kFloat64, Shape{}}, 0}};
  const auto read = [this](const internal::Manifest& changed) {
    std::ofstream(Path("c/manifest.json")) << internal::ManifestText(changed).value();
    return ReadCheckpoint(Path("c"));
  };
  const Result<Checkpoint> checkpoint = read(manifest);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  EXPECT_THAT(checkpoint->variables[0].value.ToDoubles(), ElementsAre(1));
  EXPECT_THAT(checkpoint->variables[1].value.ToDoubles(), ElementsAre(2));

  internal::Manifest changed = manifest;
  changed.variables[0].shard = 0;
  EXPECT_THAT(read(changed).status().message(), HasSubstr("tensor 'w' of the manifest is missing"));
  changed = manifest;
  changed.variables[0].spec.shape = Shape{1};
  EXPECT_THAT(read(changed).status().message(),
              HasSubstr("tensor 'w' is float32 [], in the manifest float32 [1]"));
  changed = manifest;
  changed.variables.pop_back();
  EXPECT_THAT(read(changed).status().message(), HasSubstr("tensor 'm' is not in the manifest"));
}

TEST_F(CheckpointTest, AllDifferencesAreInOneMessage) {
  Save(5);
  std::vector<VariableSpec> program = Program();
  program[0] = {"bias", VariableRole::kModel, DType::kInt64, Shape{1}};
  program[1].shape = Shape{2, 3};
  program[2].dtype = DType::kFloat32;
  exec::VariableStore restored;
  Set(restored, "w", Tensor::Zeros(DType::kFloat32, Shape{2, 3}).value());
  EXPECT_EQ(
      LoadCheckpoint(dir(), program, {}, restored).status().ToString(),
      "FAILED_PRECONDITION: " + Path("step-00000005") +
          ": the checkpoint does not fit the program in 4 variables: 'bias' (int64 [1]) is "
          "missing in the checkpoint; 'w' is float32 [2, 3] in the program, float32 [2, 2] in the "
          "checkpoint; 'w/m' is float32 [] slot in the program, float64 [] slot in the checkpoint; "
          "'b' (int64 [1]) of the checkpoint is unknown to the program");
  EXPECT_THAT(restored.Read("w")->ToDoubles(), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_EQ(restored.All().size(), 1U);
  program = Program();
  program[0].role = VariableRole::kSlot;
  EXPECT_THAT(LoadCheckpoint(dir(), program, {}, restored).status().message(),
              HasSubstr("'b' is int64 [1] slot in the program, int64 [1] in the checkpoint"));
}

TEST_F(CheckpointTest, EvaluationNeedsNoSlots) {
  Save(5);
  std::vector<VariableSpec> program = Program();
  program.pop_back();
  exec::VariableStore restored;
  EXPECT_THAT(LoadCheckpoint(dir(), program, {}, restored).status().message(),
              HasSubstr("'w/m' (float64 [] slot) of the checkpoint is unknown to the program"));
  EXPECT_TRUE(LoadCheckpoint(dir(), program, {.slots = false}, restored).ok());
  EXPECT_TRUE(LoadCheckpoint(dir(), Program(), {.slots = false}, restored).ok());
  EXPECT_EQ(restored.All().size(), 2U);
}

TEST_F(CheckpointTest, AStoreOfAnotherShapeKeepsItsValues) {
  Save(5);
  exec::VariableStore restored;
  Set(restored, "b", Tensor::From<int64_t>(Shape{1}, {7}).value());
  Set(restored, "w", Tensor::Zeros(DType::kFloat32, Shape{1}).value());
  EXPECT_EQ(LoadCheckpoint(dir(), Program(), {}, restored).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_THAT(restored.Read("b")->ToDoubles(), ElementsAre(7));
}

TEST_F(CheckpointTest, FilesOfCheckpointsAreKnown) {
  fs::create_directories(Path("run"));
  run_ = RunFolder::Open(Path("run"), true).value();
  ASSERT_TRUE(run_->Save(Contents(5), store_).ok());
  const std::string run = Path("run");
  for (const char* name : {"/latest", "/step-00000005/manifest.json", "/step-00000005/new",
                           "/step-00000009", "/step-x"}) {
    EXPECT_TRUE(IsCheckpointFile(run + name, run)) << name;
  }
  EXPECT_TRUE(IsCheckpointFile(run + "/step-00000005/new", ""));
  EXPECT_TRUE(IsCheckpointFile(run + "/step-00000005/new", run + "/step-00000005"));
  EXPECT_TRUE(IsCheckpointFile(run + "/latest", ""));
  fs::create_directory_symlink(run, Path("link"));
  EXPECT_TRUE(IsCheckpointFile(Path("link/latest"), run));
  fs::rename(run + "/step-00000005", Path("moved"));
  EXPECT_TRUE(IsCheckpointFile(Path("moved/new"), Path("moved")));
  EXPECT_FALSE(IsCheckpointFile(run + "/summary.json", run));
  EXPECT_FALSE(IsCheckpointFile(Path("latest"), run));
  EXPECT_FALSE(IsCheckpointFile(Path("latest"), ""));
  EXPECT_FALSE(IsCheckpointFile(Path("step-00000005"), ""));
}

}  // namespace
}  // namespace lockstep::train
