// Links that are made when they are needed, between tasks of this process.
#include "lockstep/net/peer_links.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "lockstep/net/testing/shared_book.h"
#include "lockstep/net/waiter.h"

namespace lockstep::net {
namespace {

using std::chrono::milliseconds;
using testing::SharedBook;

Deadline Soon() {
  return Deadline::After(milliseconds(20'000));
}

// A kind that can be made, and never connects.
class DeafProvider : public internal::LinkProvider {
 public:
  LinkKind kind() const override { return LinkKind::kUcx; }

  std::string address() const override { return "nowhere"; }

  Status Connect(internal::Engine&, const std::vector<internal::PeerAddress>&,
                 const Deadline&) override {
    return Unavailable("the deaf one");
  }
};

LinkChoice Deaf(LinkKind kind) {
  return {kind,
          [](const internal::TaskIdentity&,
             internal::Reactor&) -> Result<std::unique_ptr<internal::LinkProvider>> {
            return std::unique_ptr<internal::LinkProvider>(std::make_unique<DeafProvider>());
          }};
}

LinkChoice Broken(LinkKind kind) {
  return {kind,
          [](const internal::TaskIdentity&,
             internal::Reactor&) -> Result<std::unique_ptr<internal::LinkProvider>> {
            return Unavailable("no such device");
          }};
}

LinkChoice Shm() {
  return {LinkKind::kShm, ShmFactory({})};
}

class PeerLinksTest : public ::testing::Test {
 protected:
  // Tasks with these kinds of links.
  void Make(const std::vector<std::vector<LinkChoice>>& tasks) {
    PeerLinksOptions options;
    for (size_t i = 0; i < tasks.size(); ++i) {
      options.tasks.push_back(fmt::format("/job:worker/task:{}", i));
    }
    options.job_secret = "the secret of this test";
    options.patience = milliseconds(500);
    for (size_t i = 0; i < tasks.size(); ++i) {
      options.self = static_cast<PeerId>(i);
      options.incarnation = 100 + i;
      options.links = tasks[i];
      options.note = [this](const std::string& text) {
        const MutexLock lock(mu_);
        notes_ += text + "\n";
      };
      books_.push_back(std::make_unique<SharedBook::End>(book_, options.self, options.incarnation));
      links_.push_back(PeerLinks::Create(options, *books_.back()).value());
    }
  }

  // Both ends at once, or each with many.
  Status Connect(const std::vector<std::pair<PeerId, PeerId>>& pairs) {
    std::vector<std::thread> threads;
    std::vector<Status> results(2 * pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      for (const bool swap : {false, true}) {
        const PeerId here = swap ? pairs[i].second : pairs[i].first;
        const PeerId there = swap ? pairs[i].first : pairs[i].second;
        threads.emplace_back([this, here, there, &result = results[2 * i + (swap ? 1 : 0)]] {
          result = links_[static_cast<size_t>(here)]->Connect(
              {{.peer = there, .incarnation = 100 + static_cast<uint64_t>(there)}}, Soon());
        });
      }
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const Status& result : results) {
      LS_TRY(result);
    }
    return OkStatus();
  }

  Transport& transport(PeerId task) { return *links_[static_cast<size_t>(task)]->transport(); }

  void ExpectLinked(PeerId from, PeerId to) {
    const Tensor tensor = Tensor::From<float>({2}, {1.5F, -2.0F}).value();
    const MessageKey key{.scope = 1, .step = 2, .item = 3};
    transport(from).Send(to, key, HeaderOf(tensor), tensor.data(), Soon(), [](const Status&) {});
    const Result<Tensor> got = RecvTensor(transport(to), from, key, Soon());
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_EQ(got->ToDoubles(), (std::vector<double>{1.5, -2.0}));
  }

  std::string notes() {
    const MutexLock lock(mu_);
    return notes_;
  }

  SharedBook book_;
  Mutex mu_;
  std::string notes_ LS_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<SharedBook::End>> books_;
  std::vector<std::unique_ptr<PeerLinks>> links_;
};

TEST_F(PeerLinksTest, OnlyThePairsThatAskAreLinked) {
  Make({{Shm()}, {Shm()}, {Shm()}});
  ASSERT_TRUE(Connect({{0, 2}}).ok());
  ExpectLinked(0, 2);
  ExpectLinked(2, 0);
  EXPECT_FALSE(transport(0).peer_status(1).ok());
  EXPECT_EQ(transport(0).link_kind(2).value(), LinkKind::kShm);
  // Again is nothing new, and one more pair is.
  ASSERT_TRUE(Connect({{0, 2}, {1, 2}, {0, 2}}).ok());
  ExpectLinked(1, 2);
  ExpectLinked(0, 2);
}

TEST_F(PeerLinksTest, AllAtOnceInAnyOrder) {
  Make(std::vector<std::vector<LinkChoice>>(7, {Shm()}));
  std::vector<std::pair<PeerId, PeerId>> pairs;
  for (int i = 0; i < 7; ++i) {
    for (int j = 0; j < 7; ++j) {
      if (i != j) {
        pairs.emplace_back(i, j);  // each pair twice, by threads of their own
      }
    }
  }
  const Status status = Connect(pairs);
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (const auto& [i, j] : pairs) {
    ExpectLinked(i, j);
  }
}

TEST_F(PeerLinksTest, AKindThatCannotBeMadeIsPassedOver) {
  Make({{Broken(LinkKind::kShm), Deaf(LinkKind::kUcx)}, {Shm(), Deaf(LinkKind::kUcx)}});
  const Status status = Connect({{0, 1}});
  // Nothing else works either; every reason is told.
  EXPECT_NE(status.ToString().find("shm: "), std::string::npos) << status.ToString();
  EXPECT_NE(status.ToString().find("no such device"), std::string::npos) << status.ToString();
  EXPECT_NE(status.ToString().find("the deaf one"), std::string::npos) << status.ToString();
  EXPECT_NE(notes().find("shm to /job:worker/task:1 is passed over"), std::string::npos) << notes();
  EXPECT_NE(notes().find("/job:worker/task:1: shm to /job:worker/task:0 is passed over"),
            std::string::npos)
      << notes();
}

TEST_F(PeerLinksTest, NothingInCommon) {
  Make({{Shm()}, {Deaf(LinkKind::kUcx)}});
  const Status status = Connect({{0, 1}});
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
  EXPECT_NE(status.message().find("here shm; there ucx"), std::string::npos) << status.ToString();
}

TEST_F(PeerLinksTest, WhoDoesNotComeIsNamed) {
  Make({{Shm()}, {Shm()}});
  const Status status =
      links_[0]->Connect({{.peer = 1, .incarnation = 101}}, Deadline::After(milliseconds(200)));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_NE(status.ToString().find("/job:worker/task:1"), std::string::npos) << status.ToString();
  // It comes later.
  ASSERT_TRUE(Connect({{0, 1}}).ok());
  ExpectLinked(1, 0);
}

TEST_F(PeerLinksTest, ALostLinkIsMadeAgain) {
  Make({{Shm()}, {Shm()}});
  ASSERT_TRUE(Connect({{0, 1}}).ok());
  transport(0).FailPeer(1, Unavailable("of this test"));
  EXPECT_FALSE(transport(0).peer_status(1).ok());
  // The other end notices by itself.
  while (transport(1).peer_status(0).ok()) {
    std::this_thread::yield();
  }
  ASSERT_TRUE(Connect({{0, 1}}).ok());
  ExpectLinked(0, 1);
  ExpectLinked(1, 0);
}

}  // namespace
}  // namespace lockstep::net
