// The algorithm `halving_doubling`: on level t of the tree member w meets member w ^ 2^t. Each
// gives the other half of what it holds and combines the half that it keeps with what it gets, that
// of the lower member on the left: the node above both. After the last level every member has a
// slice of the result, and the levels backwards put the slices together again. 2 * log2(M) messages
// of a member, and as many bytes as a ring: 2 * (M - 1) / M of the value.
//
// For groups whose members hold one node each that pairs up so on every level.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <span>

#include "lockstep/collective/internal/algorithms.h"

namespace lockstep::collective::internal {
namespace {

constexpr char kLate[] = "did not send all of its part";
// While one piece is combined the next ones arrive.
constexpr int64_t kPieceBytes = int64_t{1} << 20;

class HalvingDoubling {
 public:
  explicit HalvingDoubling(CallRun& run)
      : run_(run),
        call_(run.call),
        group_(run.group),
        levels_(std::countr_zero(static_cast<unsigned>(group_.members()))) {}

  Status Run() {
    LS_TRY(run_.io.Meet({}, {}));
    LS_TRY(Prepare());
    std::vector<Part> held = {{0, call_.spec.shape.num_elements()}};
    for (int level = 0; level < levels_; ++level) {
      LS_TRY(Halve(level, held.back()));
      held.push_back(Half(held.back(), Upper(group_.self, level)));
    }
    const Part mine = held.back();
    if (levels_ == 0 && mine.count > 0 && call_.inputs[0] != work_) {
      std::memcpy(work_, call_.inputs[0], Bytes(mine));
    }
    // Sums have forms that need few bytes on the wire, means have not.
    const bool packed = call_.spec.codec != Codec::kNone;
    if (!packed) {
      Divide(mine);
    }
    if (call_.kind == CallKind::kReduce) {
      LS_TRY(SendToRoot(mine));
    } else {
      for (int level = levels_ - 1; level >= 0; --level) {
        LS_TRY(Double(level, held[static_cast<size_t>(level)]));
      }
    }
    if (packed && (call_.kind == CallKind::kAllReduce || group_.self == call_.spec.root)) {
      Divide(held.front());
    }
    return OkStatus();
  }

 private:
  static bool Upper(int member, int level) { return (member >> level) % 2 == 1; }

  static int Partner(int member, int level) { return member ^ (1 << level); }

  static Part Half(const Part& whole, bool upper) {
    const Part half = EvenPart(whole.count, 2, upper ? 1 : 0);
    return {whole.begin + half.begin, half.count};
  }

  size_t Bytes(const Part& part) const { return static_cast<size_t>(part.count) * size_; }

  std::byte* At(void* data, int64_t element) const {
    return static_cast<std::byte*>(data) + static_cast<size_t>(element) * size_;
  }

  const std::byte* At(const void* data, int64_t element) const {
    return static_cast<const std::byte*>(data) + static_cast<size_t>(element) * size_;
  }

  uint64_t HalvingStage(int level) const { return static_cast<uint64_t>(1 + level); }

  uint64_t DoublingStage(int level) const { return static_cast<uint64_t>(1 + levels_ + level); }

  void Divide(const Part& part) {
    if (call_.spec.op == ReduceOp::kMean) {
      DivideByReplicas(call_.spec.dtype, At(work_, part.begin), part.count, group_.map.replicas());
    }
  }

  Status Prepare() {
    const bool needs_result = call_.kind == CallKind::kAllReduce || group_.self == call_.spec.root;
    // What arrives on the first level, the largest piece of all; and values of the nodes above,
    // for who has no output for them.
    const Part half = Half({0, call_.spec.shape.num_elements()}, true);
    LS_ASSIGN_OR_RETURN(
        const std::vector<void*> pieces,
        run_.scratch.Take(needs_result ? 1 : 2, needs_result ? Bytes(half) : run_.bytes()));
    received_ = static_cast<std::byte*>(pieces[0]);
    work_ = needs_result ? call_.output : pieces[1];
    return OkStatus();
  }

  // Pieces of a part.
  std::vector<Part> PiecesOf(const Part& part) const {
    const int64_t most = kPieceBytes / static_cast<int64_t>(size_);
    std::vector<Part> pieces;
    for (int64_t begin = 0; begin < part.count; begin += most) {
      pieces.push_back({part.begin + begin, std::min(most, part.count - begin)});
    }
    return pieces;
  }

  Status Halve(int level, const Part& held) {
    const int partner = Partner(group_.self, level);
    const bool upper = Upper(group_.self, level);
    const Part keep = Half(held, upper);
    // The input, until there are nodes above it.
    const void* mine = level == 0 ? call_.inputs[0] : work_;
    Operations sent(group_, run_.io.deadline(), kLate);
    std::vector<std::unique_ptr<Operations>> arriving;
    const std::vector<Part> pieces = PiecesOf(keep);
    for (const Part& piece : pieces) {
      arriving.push_back(std::make_unique<Operations>(group_, run_.io.deadline(), kLate));
      run_.io.Receive(HalvingStage(level),
                      {partner, At(received_, piece.begin - keep.begin), Bytes(piece)},
                      *arriving.back());
    }
    for (const Part& piece : PiecesOf(Half(held, !upper))) {
      run_.io.Send(HalvingStage(level), {partner, At(mine, piece.begin), Bytes(piece)}, sent);
    }
    for (size_t i = 0; i < pieces.size(); ++i) {
      LS_TRY(arriving[i]->Wait());
      const Part& piece = pieces[i];
      const void* own = At(mine, piece.begin);
      const void* theirs = At(received_, piece.begin - keep.begin);
      CombineNodes(run_.arithmetic(), upper ? theirs : own, upper ? own : theirs,
                   At(work_, piece.begin), piece.count);
    }
    return sent.Wait();
  }

  Status Double(int level, const Part& above) {
    const int partner = Partner(group_.self, level);
    const bool upper = Upper(group_.self, level);
    Operations operations(group_, run_.io.deadline(), kLate);
    for (const Part& piece : PiecesOf(Half(above, !upper))) {
      run_.io.Receive(DoublingStage(level), {partner, At(work_, piece.begin), Bytes(piece)},
                      operations);
    }
    for (const Part& piece : PiecesOf(Half(above, upper))) {
      run_.io.Send(DoublingStage(level), {partner, At(work_, piece.begin), Bytes(piece)},
                   operations);
    }
    return operations.Wait();
  }

  // The slice that `member` has after the last level.
  Part SliceOf(int member) const {
    Part slice = {0, call_.spec.shape.num_elements()};
    for (int level = 0; level < levels_; ++level) {
      slice = Half(slice, Upper(member, level));
    }
    return slice;
  }

  Status SendToRoot(const Part& mine) {
    Operations operations(group_, run_.io.deadline(), kLate);
    const auto stage = DoublingStage(0);
    if (group_.self != call_.spec.root) {
      for (const Part& piece : PiecesOf(mine)) {
        run_.io.Send(stage, {call_.spec.root, At(work_, piece.begin), Bytes(piece)}, operations);
      }
      return operations.Wait();
    }
    for (int member = 0; member < group_.members(); ++member) {
      for (const Part& piece :
           member == group_.self ? std::vector<Part>() : PiecesOf(SliceOf(member))) {
        run_.io.Receive(stage, {member, At(work_, piece.begin), Bytes(piece)}, operations);
      }
    }
    return operations.Wait();
  }

  CallRun& run_;
  const Call& call_;
  const GroupInfo& group_;
  const size_t size_ = run_.element_bytes();
  const int levels_;
  std::byte* received_ = nullptr;
  // Values of the nodes above the input, at the elements that are held.
  void* work_ = nullptr;
};

}  // namespace

Status RunHalvingDoubling(CallRun& run) {
  return HalvingDoubling(run).Run();
}

}  // namespace lockstep::collective::internal
