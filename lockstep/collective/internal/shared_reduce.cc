// The algorithm `shared`: reductions between members that share memory, without messages.
//
// Small: every member copies its nodes into its staging memory, and combines what it needs from
// that of all. One step. Large, with all buffers in memory that peers can map (Group::Allocate):
// each member owns a slice, reads all nodes of it where they lie, and writes the result to where it
// belongs. Two steps, nothing is copied. Large, with other buffers: as small, piece by piece; with
// many members, whose copies would be read by all, by messages instead.
#include <algorithm>
#include <cstring>
#include <span>

#include "lockstep/collective/internal/algorithms.h"
#include "lockstep/collective/internal/stream_copy.h"

namespace lockstep::collective::internal {
namespace {

// With more members it is cheaper that each reads a slice only.
constexpr int kMaxStagedMembers = 3;
// Up to here copying costs less than a second step.
constexpr size_t kSmallBytes = size_t{16} << 10;
// Slices begin at cache lines.
constexpr int64_t kLineBytes = 64;

class SharedReduce {
 public:
  explicit SharedReduce(CallRun& run)
      : run_(run), call_(run.call), group_(run.group), memory_(*run.io.shared_memory()) {
    for (int member = 0; member < group_.members(); ++member) {
      most_nodes_ = std::max(most_nodes_, group_.num_nodes(member));
    }
  }

  Status Run() {
    const int64_t elements = call_.spec.shape.num_elements();
    if (run_.bytes() <= kSmallBytes && elements <= PieceElements()) {
      CopyPiece({0, elements});
      LS_TRY(run_.io.Meet({}, {}));
      CombinePiece({0, elements});
      return OkStatus();
    }
    Announce();
    LS_TRY(run_.io.Meet({}, {}));
    if (AllAnnounced()) {
      return Direct();
    }
    if (group_.members() > kMaxStagedMembers) {
      return call_.kind == CallKind::kReduceScatter ? RunGather(run_) : RunPairwise(run_);
    }
    for (int64_t begin = 0; begin < elements; begin += PieceElements()) {
      const Part piece = {begin, std::min(PieceElements(), elements - begin)};
      CopyPiece(piece);
      LS_TRY(run_.io.Step("did not send all of its part"));
      CombinePiece(piece);
    }
    return OkStatus();
  }

 private:
  int self() const { return group_.self; }

  size_t Bytes(int64_t elements) const { return static_cast<size_t>(elements) * size_; }

  // The elements of the result that `member` is given, and where its output begins in the whole.
  Part Needed(int member) const {
    const int64_t all = call_.spec.shape.num_elements();
    switch (call_.kind) {
      case CallKind::kReduceScatter:
        return PartOf(call_, group_.members(), member);
      case CallKind::kReduce:
        return {0, member == call_.spec.root ? all : 0};
      default:
        return {0, all};
    }
  }

  // The elements that `member` combines when all read all nodes.
  Part Slice(int member) const {
    if (call_.kind == CallKind::kReduceScatter) {
      return Needed(member);
    }
    const int64_t all = call_.spec.shape.num_elements();
    const int64_t line = kLineBytes / static_cast<int64_t>(size_);
    const Part lines = EvenPart((all + line - 1) / line, group_.members(), member);
    const int64_t begin = std::min(all, lines.begin * line);
    return {begin, std::min(all, (lines.begin + lines.count) * line) - begin};
  }

  // As many as fit for the member with the most nodes.
  int64_t PieceElements() const {
    const size_t stride = kStagingBytes / most_nodes_ / kLineBytes * kLineBytes;
    return static_cast<int64_t>(stride / size_);
  }

  // Each node in the staging memory has this much.
  size_t StagingStride() const { return Bytes(PieceElements()); }

  void CopyPiece(const Part& piece) {
    std::byte* to = memory_.next_staging();
    for (const void* node : call_.inputs) {
      const auto* from = static_cast<const std::byte*>(node) + Bytes(piece.begin);
      if (run_.bytes() > kSmallBytes) {
        StreamCopy(to, from, Bytes(piece.count));
      } else if (piece.count > 0) {
        std::memcpy(to, from, Bytes(piece.count));
      }
      to += StagingStride();
    }
  }

  // Of a piece that all members have copied: what this member needs.
  void CombinePiece(const Part& piece) {
    const Part needed = Needed(self());
    const int64_t begin = std::max(piece.begin, needed.begin);
    const int64_t end = std::min(piece.begin + piece.count, needed.begin + needed.count);
    if (begin >= end) {
      return;
    }
    std::vector<const void*> nodes;
    for (int member = 0; member < group_.members(); ++member) {
      const std::byte* staged = memory_.staging(member) + Bytes(begin - piece.begin);
      for (size_t node = 0; node < group_.num_nodes(member); ++node) {
        nodes.push_back(member == self()
                            ? static_cast<const std::byte*>(call_.inputs[node]) + Bytes(begin)
                            : staged + node * StagingStride());
      }
    }
    void* output = static_cast<std::byte*>(call_.output) + Bytes(begin - needed.begin);
    group_.tree.ReduceAll(run_.arithmetic(), nodes, std::span<void* const>(&output, 1),
                          end - begin);
  }

  void Announce() {
    AnnounceBuffers(memory_.next_announcement(), run_.regions, call_.inputs, run_.bytes(),
                    call_.output, Bytes(Needed(self()).count));
  }

  bool AllAnnounced() const {
    for (int member = 0; member < group_.members(); ++member) {
      const bool written = call_.kind != CallKind::kReduceScatter && Needed(member).count > 0;
      if (!NodesAnnounced(memory_.announcement(member), group_.num_nodes(member)) ||
          (written && memory_.announcement(member).output.region == 0)) {
        return false;
      }
    }
    return true;
  }

  Status Direct() {
    const Part slice = Slice(self());
    if (slice.count > 0) {
      std::vector<const void*> nodes;
      std::vector<void*> outputs;
      for (int member = 0; member < group_.members(); ++member) {
        const Announcement& theirs = memory_.announcement(member);
        for (size_t node = 0; node < group_.num_nodes(member); ++node) {
          LS_ASSIGN_OR_RETURN(
              const std::byte* data,
              memory_.Resolve(member, theirs.nodes[node], run_.bytes(), run_.io.deadline()));
          nodes.push_back(data + Bytes(slice.begin));
        }
        if (call_.kind != CallKind::kReduceScatter && Needed(member).count > 0) {
          LS_ASSIGN_OR_RETURN(
              std::byte * output,
              memory_.Resolve(member, theirs.output, run_.bytes(), run_.io.deadline()));
          outputs.push_back(output + Bytes(slice.begin));
        }
      }
      if (call_.kind == CallKind::kReduceScatter) {
        outputs.push_back(call_.output);
      }
      group_.tree.ReduceAll(run_.arithmetic(), nodes, outputs, slice.count);
    }
    return run_.io.Step("did not finish its part");
  }

  CallRun& run_;
  const Call& call_;
  const GroupInfo& group_;
  SharedMemory& memory_;
  const size_t size_ = run_.element_bytes();
  size_t most_nodes_ = 1;
};

}  // namespace

Status RunShared(CallRun& run) {
  return SharedReduce(run).Run();
}

}  // namespace lockstep::collective::internal
