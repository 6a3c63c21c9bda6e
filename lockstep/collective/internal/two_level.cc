// The algorithm `two_level`: members of one host first combine what they hold in shared memory, so
// that only nodes of whole hosts travel; then the members that see to a slice reduce it between the
// hosts, as `pairwise` does; then the members of a host read each other's slices.
#include <algorithm>
#include <cstring>
#include <span>

#include "lockstep/collective/internal/algorithms.h"
#include "lockstep/collective/internal/host_level.h"
#include "lockstep/collective/internal/pairwise.h"
#include "lockstep/collective/internal/stream_copy.h"

namespace lockstep::collective::internal {
namespace {

constexpr char kLatePart[] = "did not send all of its part";
constexpr int64_t kLine = 64;  // bytes: slices begin at cache lines

class TwoLevel {
 public:
  explicit TwoLevel(CallRun& run)
      : run_(run), call_(run.call), hosts_(*run.hosts), memory_(*run.hosts->memory) {}

  Status Run() {
    LS_TRY(run_.io.Meet({}, {}));
    AnnounceBuffers(memory_.next_announcement(), run_.regions, call_.inputs, run_.bytes(),
                    call_.output, Needs(self()) ? run_.bytes() : 0);
    LS_TRY(memory_.Step(run_.io.deadline(), "did not come"));
    LS_TRY(FindBuffers());
    LS_TRY(ReduceInHost());
    if (self() < hosts_.slices()) {
      LS_TRY(ReduceBetweenHosts());
    }
    return ShareResult();
  }

 private:
  int self() const { return hosts_.local().self; }

  int locals() const { return hosts_.local().members(); }

  size_t Bytes(int64_t elements) const { return static_cast<size_t>(elements) * size_; }

  bool Needs(int local) const {
    return call_.kind == CallKind::kAllReduce ||
           hosts_.first_member(hosts_.host()) + local == call_.spec.root;
  }

  // Of the local member of this number, on every host.
  Part Slice(int number) const {
    if (number >= hosts_.slices()) {
      return {};
    }
    const int64_t all = call_.spec.shape.num_elements();
    const int64_t line = kLine / static_cast<int64_t>(size_);
    const Part lines = EvenPart((all + line - 1) / line, hosts_.slices(), number);
    const int64_t begin = std::min(all, lines.begin * line);
    return {begin, std::min(all, (lines.begin + lines.count) * line) - begin};
  }

  int64_t LargestSlice() const {
    int64_t largest = 0;
    for (int number = 0; number < hosts_.slices(); ++number) {
      largest = std::max(largest, Slice(number).count);
    }
    return largest;
  }

  // Elements [begin, begin + most) of a slice, as far as it goes.
  static Part PieceOf(const Part& slice, int64_t begin, int64_t most) {
    return {slice.begin + begin, std::clamp<int64_t>(slice.count - begin, 0, most)};
  }

  // Where nodes and outputs of the members of this host lie, if all of these can be reached.
  Status FindBuffers() {
    nodes_mapped_ = true;
    outputs_mapped_ = true;
    for (int local = 0; local < locals(); ++local) {
      const Announcement& theirs = memory_.announcement(local);
      nodes_mapped_ = nodes_mapped_ && NodesAnnounced(theirs, hosts_.num_nodes(local));
      outputs_mapped_ = outputs_mapped_ && (!Needs(local) || theirs.output.region != 0);
    }
    mapped_nodes_.clear();
    mapped_outputs_.assign(static_cast<size_t>(locals()), nullptr);
    for (int local = 0; local < locals(); ++local) {
      const Announcement& theirs = memory_.announcement(local);
      for (size_t node = 0; node < hosts_.num_nodes(local) && nodes_mapped_; ++node) {
        LS_ASSIGN_OR_RETURN(const std::byte* data, Resolve(local, theirs.nodes[node]));
        mapped_nodes_.push_back(data);
      }
      if (outputs_mapped_ && Needs(local)) {
        LS_ASSIGN_OR_RETURN(mapped_outputs_[static_cast<size_t>(local)],
                            Resolve(local, theirs.output));
      }
    }
    return OkStatus();
  }

  Result<std::byte*> Resolve(int local, const SharedPlace& place) {
    return memory_.Resolve(local, place, run_.bytes(), run_.io.deadline());
  }

  // The nodes of this host, of this member's slice, into partials_.
  Status ReduceInHost() {
    const Part slice = Slice(self());
    LS_ASSIGN_OR_RETURN(const std::vector<void*> pieces,
                        hosts_.scratch.Take(hosts_.nodes().size() + 1, Bytes(slice.count)));
    partials_.assign(pieces.begin(), pieces.end() - 1);
    // The result takes the output where there is one.
    result_ = Needs(self()) ? static_cast<std::byte*>(call_.output) + Bytes(slice.begin)
                            : static_cast<std::byte*>(pieces.back());
    if (nodes_mapped_) {
      Combine(mapped_nodes_, Bytes(slice.begin), {0, slice.count});
      return OkStatus();
    }
    const int64_t most = StagedElements();
    for (int64_t begin = 0; begin < LargestSlice(); begin += most) {
      StagePieces(begin, most);
      LS_TRY(memory_.Step(run_.io.deadline(), kLatePart));
      const Part piece = PieceOf(slice, begin, most);
      if (piece.count > 0) {
        Combine(StagedNodes(piece), 0, {begin, piece.count});
      }
    }
    return OkStatus();
  }

  // partials_ at `part` of the slice, of the local members' nodes at an offset in bytes.
  void Combine(const std::vector<const std::byte*>& nodes, size_t offset, const Part& part) {
    for (size_t i = 0; i < partials_.size(); ++i) {
      const HostLevel::Node& node = hosts_.nodes()[i];
      std::vector<const void*> inputs;
      for (size_t input = node.first; input < node.first + node.count; ++input) {
        inputs.push_back(nodes[input] + offset);
      }
      void* output = static_cast<std::byte*>(partials_[i]) + Bytes(part.begin);
      node.tree.Reduce(run_.arithmetic(), inputs, std::span<void* const>(&output, 1), part.count);
    }
  }

  // Of each node and slice at a time.
  int64_t StagedElements() const {
    const size_t pieces = static_cast<size_t>(hosts_.slices()) * hosts_.most_nodes();
    return static_cast<int64_t>(kStagingBytes / pieces / kLine * kLine / size_);
  }

  size_t StagedAt(int number, size_t node) const {
    return (static_cast<size_t>(number) * hosts_.most_nodes() + node) * Bytes(StagedElements());
  }

  // This member's nodes of the slices of the others.
  void StagePieces(int64_t begin, int64_t most) {
    for (int number = 0; number < hosts_.slices(); ++number) {
      const Part piece = PieceOf(Slice(number), begin, most);
      for (size_t node = 0; node < call_.inputs.size() && number != self(); ++node) {
        StreamCopy(memory_.next_staging() + StagedAt(number, node),
                   static_cast<const std::byte*>(call_.inputs[node]) + Bytes(piece.begin),
                   Bytes(piece.count));
      }
    }
  }

  std::vector<const std::byte*> StagedNodes(const Part& piece) {
    std::vector<const std::byte*> nodes;
    for (int local = 0; local < locals(); ++local) {
      for (size_t node = 0; node < hosts_.num_nodes(local); ++node) {
        nodes.push_back(local == self()
                            ? static_cast<const std::byte*>(call_.inputs[node]) + Bytes(piece.begin)
                            : memory_.staging(local) + StagedAt(self(), node));
      }
    }
    return nodes;
  }

  Status ReduceBetweenHosts() {
    PairwisePlan plan;
    for (int host = 0; host < hosts_.hosts(); ++host) {
      plan.participants.push_back(hosts_.first_member(host) + self());
    }
    plan.self = static_cast<size_t>(hosts_.host());
    plan.first_node = hosts_.first_node();
    plan.tree = &hosts_.tree();
    plan.root = call_.kind == CallKind::kReduce ? hosts_.HostOf(call_.spec.root) : -1;
    plan.elements = Slice(self()).count;
    plan.inputs.assign(partials_.begin(), partials_.end());
    plan.output = result_;
    return ReducePairwise(run_, plan);
  }

  bool HostNeedsResult() const {
    return call_.kind == CallKind::kAllReduce || hosts_.HostOf(call_.spec.root) == hosts_.host();
  }

  Status ShareResult() {
    if (outputs_mapped_ || !HostNeedsResult()) {
      const Part slice = Slice(self());
      for (int local = 0; local < locals(); ++local) {
        if (local != self() && Needs(local) && slice.count > 0) {
          std::memcpy(mapped_outputs_[static_cast<size_t>(local)] + Bytes(slice.begin), result_,
                      Bytes(slice.count));
        }
      }
      return memory_.Step(run_.io.deadline(), kLatePart);
    }
    const auto most = static_cast<int64_t>(kStagingBytes / size_);
    for (int64_t begin = 0; begin < LargestSlice(); begin += most) {
      const Part mine = PieceOf(Slice(self()), begin, most);
      StreamCopy(memory_.next_staging(), result_ + Bytes(begin), Bytes(mine.count));
      LS_TRY(memory_.Step(run_.io.deadline(), kLatePart));
      for (int number = 0; number < hosts_.slices() && Needs(self()); ++number) {
        const Part piece = PieceOf(Slice(number), begin, most);
        if (number != self() && piece.count > 0) {
          std::memcpy(static_cast<std::byte*>(call_.output) + Bytes(piece.begin),
                      memory_.staging(number), Bytes(piece.count));
        }
      }
    }
    return OkStatus();
  }

  CallRun& run_;
  const Call& call_;
  HostLevel& hosts_;
  SharedMemory& memory_;
  const size_t size_ = run_.element_bytes();
  bool nodes_mapped_ = false;
  bool outputs_mapped_ = false;
  std::vector<const std::byte*> mapped_nodes_;  // of the local members, in order
  std::vector<std::byte*> mapped_outputs_;      // by local member
  std::vector<void*> partials_;                 // this slice of the nodes of this host
  std::byte* result_ = nullptr;                 // this slice
};

}  // namespace

Status RunTwoLevel(CallRun& run) {
  return TwoLevel(run).Run();
}

}  // namespace lockstep::collective::internal
