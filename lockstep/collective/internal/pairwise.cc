// The algorithm `pairwise`: each member owns a slice, takes all nodes of it from the others,
// combines them, and sends the result to whoever needs it. For M members with one node each it
// moves as many bytes as a ring, 2 * (M - 1) / M of the value, in two rounds instead of 2 * (M -
// 1).
//
// A slice is cut into segments. While one is combined the next ones arrive and earlier results
// leave.
#include "lockstep/collective/internal/pairwise.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <span>

namespace lockstep::collective::internal {
namespace {

constexpr int64_t kSegmentBytes = int64_t{1} << 20;
// Segments of the own slice that may be on their way at a time.
constexpr int64_t kWindow = 4;

class Pairwise {
 public:
  Pairwise(CallRun& run, const PairwisePlan& plan)
      : run_(run),
        call_(run.call),
        plan_(plan),
        results_(run.group, run.io.deadline(), "did not send all of its part") {}

  Status Run() {
    SendNodes();
    ReceiveResults();
    const int64_t segments = Segments(plan_.self);
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
    LS_TRY(results_.Wait());
    if (DividesLater() && Needs(plan_.self)) {
      DivideByReplicas(call_.spec.dtype, plan_.output, plan_.elements, run_.group.map.replicas());
    }
    return OkStatus();
  }

 private:
  uint64_t NodesStage() const { return plan_.first_stage; }

  uint64_t ResultsStage() const { return plan_.first_stage + 1; }

  // Sums have forms that need few bytes, means have not.
  bool DividesLater() const {
    return call_.spec.op == ReduceOp::kMean && call_.spec.codec != Codec::kNone;
  }

  size_t participants() const { return plan_.participants.size(); }

  size_t NumNodes(size_t participant) const {
    return plan_.first_node[participant + 1] - plan_.first_node[participant];
  }

  size_t OtherNodes() const { return plan_.first_node.back() - NumNodes(plan_.self); }

  bool Needs(size_t participant) const {
    return plan_.root < 0 || participant == static_cast<size_t>(plan_.root);
  }

  Part Slice(size_t participant) const {
    return EvenPart(plan_.elements, static_cast<int>(participants()),
                    static_cast<int>(participant));
  }

  int64_t SegmentElements() const { return kSegmentBytes / static_cast<int64_t>(size_); }

  int64_t Segments(size_t participant) const {
    return (Slice(participant).count + SegmentElements() - 1) / SegmentElements();
  }

  Part Segment(size_t participant, int64_t segment) const {
    const Part slice = Slice(participant);
    const int64_t begin = segment * SegmentElements();
    return {slice.begin + begin, std::min(SegmentElements(), slice.count - begin)};
  }

  size_t Bytes(const Part& part) const { return static_cast<size_t>(part.count) * size_; }

  size_t Offset(const Part& part) const { return static_cast<size_t>(part.begin) * size_; }

  // Where the result of a segment goes: into the output, or into scratch memory of who has none.
  void* Result(const Part& part, int64_t segment) {
    if (Needs(plan_.self)) {
      return static_cast<std::byte*>(plan_.output) + Offset(part);
    }
    std::vector<std::byte>& own = sent_results_[static_cast<size_t>(segment)];
    own.resize(Bytes(part));
    return own.data();
  }

  void SendNodes() {
    for (int64_t segment = 0;; ++segment) {
      bool any = false;
      for (size_t other = 0; other < participants(); ++other) {
        if (other == plan_.self || segment >= Segments(other)) {
          continue;
        }
        any = true;
        const Part part = Segment(other, segment);
        for (const void* node : plan_.inputs) {
          run_.io.Send(NodesStage(),
                       {plan_.participants[other],
                        static_cast<const std::byte*>(node) + Offset(part), Bytes(part)},
                       results_);
        }
      }
      if (!any) {
        return;
      }
    }
  }

  void ReceiveResults() {
    sent_results_.resize(Needs(plan_.self) ? 0 : static_cast<size_t>(Segments(plan_.self)));
    for (size_t other = 0; other < participants() && Needs(plan_.self); ++other) {
      for (int64_t segment = 0; other != plan_.self && segment < Segments(other); ++segment) {
        const Part part = Segment(other, segment);
        run_.io.Receive(ResultsStage(),
                        {plan_.participants[other],
                         static_cast<std::byte*>(plan_.output) + Offset(part), Bytes(part)},
                        results_);
      }
    }
  }

  // Of the other participants' nodes of a segment.
  std::span<void* const> Received(int64_t segment) const {
    return std::span(received_).subspan(static_cast<size_t>(segment % kWindow) * OtherNodes(),
                                        OtherNodes());
  }

  void ReceiveNodes(int64_t segment) {
    arriving_.push_back(std::make_unique<Operations>(run_.group, run_.io.deadline(),
                                                     "did not send all of its part"));
    const size_t bytes = Bytes(Segment(plan_.self, segment));
    size_t next = 0;
    for (size_t other = 0; other < participants(); ++other) {
      for (size_t node = 0; other != plan_.self && node < NumNodes(other); ++node) {
        run_.io.Receive(NodesStage(), {plan_.participants[other], Received(segment)[next++], bytes},
                        *arriving_.back());
      }
    }
  }

  void CombineSegment(int64_t segment) {
    const Part part = Segment(plan_.self, segment);
    const std::span<void* const> received = Received(segment);
    const auto before = static_cast<std::ptrdiff_t>(plan_.first_node[plan_.self]);
    std::vector<const void*> nodes(received.begin(), received.begin() + before);
    for (const void* node : plan_.inputs) {
      nodes.push_back(static_cast<const std::byte*>(node) + Offset(part));
    }
    nodes.insert(nodes.end(), received.begin() + before, received.end());
    result_ = Result(part, segment);
    const std::span<void* const> results(&result_, 1);
    if (DividesLater()) {
      plan_.tree->Reduce(run_.arithmetic(), nodes, results, part.count);
    } else {
      plan_.tree->ReduceAll(run_.arithmetic(), nodes, results, part.count);
    }
  }

  void SendResult(int64_t segment) {
    for (size_t other = 0; other < participants(); ++other) {
      if (other != plan_.self && Needs(other)) {
        run_.io.Send(ResultsStage(),
                     {plan_.participants[other], result_, Bytes(Segment(plan_.self, segment))},
                     results_);
      }
    }
  }

  CallRun& run_;
  const Call& call_;
  const PairwisePlan& plan_;
  const size_t size_ = run_.element_bytes();
  std::vector<void*> received_;  // by window, then node
  std::vector<std::vector<std::byte>> sent_results_;
  void* result_ = nullptr;  // of the current segment
  // What waits for the others comes last: it ends before the memory above goes.
  std::deque<std::unique_ptr<Operations>> arriving_;  // nodes, by segment
  Operations results_;                                // and the nodes that are sent
};

}  // namespace

Status ReducePairwise(CallRun& run, const PairwisePlan& plan) {
  return Pairwise(run, plan).Run();
}

Status RunPairwise(CallRun& run) {
  LS_TRY(run.io.Meet({}, {}));
  PairwisePlan plan;
  for (int member = 0; member < run.group.members(); ++member) {
    plan.participants.push_back(member);
  }
  plan.self = static_cast<size_t>(run.group.self);
  plan.first_node = run.group.first_node;
  plan.tree = &run.group.tree;
  plan.root = run.call.kind == CallKind::kReduce ? run.call.spec.root : -1;
  plan.elements = run.call.spec.shape.num_elements();
  plan.inputs = run.call.inputs;
  plan.output = run.call.output;
  return ReducePairwise(run, plan);
}

}  // namespace lockstep::collective::internal
