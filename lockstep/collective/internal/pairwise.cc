// The algorithm `pairwise`: each member owns a slice, takes all nodes of it from the others,
// combines them, and sends the result to whoever needs it. For M members with one node each it
// moves as many bytes as a ring, 2 * (M - 1) / M of the value, in two rounds instead of 2 * (M -
// 1).
//
// A slice is cut into segments. While one is combined the next ones arrive and earlier results
// leave.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <span>

#include "lockstep/collective/internal/algorithms.h"

namespace lockstep::collective::internal {
namespace {

constexpr uint64_t kNodesStage = 1;
constexpr uint64_t kResultsStage = 2;
constexpr int64_t kSegmentBytes = int64_t{1} << 20;
// Segments of the own slice that may be on their way at a time.
constexpr int64_t kWindow = 4;

class Pairwise {
 public:
  explicit Pairwise(CallRun& run)
      : run_(run),
        call_(run.call),
        group_(run.group),
        results_(run.group, run.io.deadline(), "did not send all of its part") {}

  Status Run() {
    LS_TRY(run_.io.Meet({}, {}));
    SendNodes();
    ReceiveResults();
    const int64_t segments = Segments(self());
    LS_ASSIGN_OR_RETURN(
        received_,
        run_.scratch.Take(static_cast<size_t>(std::min(segments, kWindow)) * OtherNodes(),
                          static_cast<size_t>(kSegmentBytes)));
    for (int64_t segment = 0; segment < std::min(segments, kWindow); ++segment) {
      ReceiveNodes(segment);
    }
    for (int64_t segment = 0; segment < segments; ++segment) {
      LS_TRY(arriving_.front()->Wait());
      arriving_.pop_front();
      CombineSegment(segment);
      if (segment + kWindow < segments) {
        ReceiveNodes(segment + kWindow);
      }
      SendResult(segment);
    }
    return results_.Wait();
  }

 private:
  int self() const { return group_.self; }

  size_t OtherNodes() const { return group_.nodes.size() - group_.num_nodes(self()); }

  bool Needs(int member) const {
    return call_.kind == CallKind::kAllReduce || member == call_.spec.root;
  }

  Part Slice(int member) const {
    return EvenPart(call_.spec.shape.num_elements(), group_.members(), member);
  }

  int64_t SegmentElements() const { return kSegmentBytes / static_cast<int64_t>(size_); }

  int64_t Segments(int member) const {
    return (Slice(member).count + SegmentElements() - 1) / SegmentElements();
  }

  Part Segment(int member, int64_t segment) const {
    const Part slice = Slice(member);
    const int64_t begin = segment * SegmentElements();
    return {slice.begin + begin, std::min(SegmentElements(), slice.count - begin)};
  }

  size_t Bytes(const Part& part) const { return static_cast<size_t>(part.count) * size_; }

  size_t Offset(const Part& part) const { return static_cast<size_t>(part.begin) * size_; }

  // Where the result of a segment goes: into the output, or into scratch memory of who has none.
  void* Result(const Part& part, int64_t segment) {
    if (Needs(self())) {
      return static_cast<std::byte*>(call_.output) + Offset(part);
    }
    std::vector<std::byte>& own = sent_results_[static_cast<size_t>(segment)];
    own.resize(Bytes(part));
    return own.data();
  }

  void SendNodes() {
    for (int64_t segment = 0;; ++segment) {
      bool any = false;
      for (int member = 0; member < group_.members(); ++member) {
        if (member == self() || segment >= Segments(member)) {
          continue;
        }
        any = true;
        const Part part = Segment(member, segment);
        for (const void* node : call_.inputs) {
          run_.io.Send(kNodesStage,
                       {member, static_cast<const std::byte*>(node) + Offset(part), Bytes(part)},
                       results_);
        }
      }
      if (!any) {
        return;
      }
    }
  }

  void ReceiveResults() {
    sent_results_.resize(Needs(self()) ? 0 : static_cast<size_t>(Segments(self())));
    for (int member = 0; member < group_.members() && Needs(self()); ++member) {
      for (int64_t segment = 0; member != self() && segment < Segments(member); ++segment) {
        const Part part = Segment(member, segment);
        run_.io.Receive(kResultsStage,
                        {member, static_cast<std::byte*>(call_.output) + Offset(part), Bytes(part)},
                        results_);
      }
    }
  }

  // Of the other members' nodes of a segment.
  std::span<void* const> Received(int64_t segment) const {
    return std::span(received_).subspan(static_cast<size_t>(segment % kWindow) * OtherNodes(),
                                        OtherNodes());
  }

  void ReceiveNodes(int64_t segment) {
    arriving_.push_back(
        std::make_unique<Operations>(group_, run_.io.deadline(), "did not send all of its part"));
    const size_t bytes = Bytes(Segment(self(), segment));
    size_t next = 0;
    for (int member = 0; member < group_.members(); ++member) {
      for (size_t node = 0; member != self() && node < group_.num_nodes(member); ++node) {
        run_.io.Receive(kNodesStage, {member, Received(segment)[next++], bytes}, *arriving_.back());
      }
    }
  }

  void CombineSegment(int64_t segment) {
    const Part part = Segment(self(), segment);
    std::vector<const void*> own;
    for (const void* node : call_.inputs) {
      own.push_back(static_cast<const std::byte*>(node) + Offset(part));
    }
    const std::vector<const void*> received(Received(segment).begin(), Received(segment).end());
    result_ = Result(part, segment);
    group_.tree.ReduceAll(call_.spec.op, call_.spec.dtype, AllNodes(group_, own, received),
                          std::span<void* const>(&result_, 1), part.count);
  }

  void SendResult(int64_t segment) {
    for (int member = 0; member < group_.members(); ++member) {
      if (member != self() && Needs(member)) {
        run_.io.Send(kResultsStage, {member, result_, Bytes(Segment(self(), segment))}, results_);
      }
    }
  }

  CallRun& run_;
  const Call& call_;
  const GroupInfo& group_;
  const size_t size_ = run_.element_bytes();
  std::vector<void*> received_;  // by window, then node
  std::vector<std::vector<std::byte>> sent_results_;
  void* result_ = nullptr;  // of the current segment
  // What waits for the others comes last: it ends before the memory above goes.
  std::deque<std::unique_ptr<Operations>> arriving_;  // nodes, by segment
  Operations results_;                                // and the nodes that are sent
};

}  // namespace

Status RunPairwise(CallRun& run) {
  return Pairwise(run).Run();
}

}  // namespace lockstep::collective::internal
