#include "lockstep/net/testing/conformance.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

#include "lockstep/net/internal/engine.h"
#include "lockstep/net/waiter.h"

namespace lockstep::net::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Bytes that depend on where they are and on what message they belong to.
std::vector<uint8_t> Pattern(size_t bytes, uint64_t seed) {
  std::vector<uint8_t> data(bytes);
  uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (uint8_t& byte : data) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<uint8_t>(state >> 56);
  }
  return data;
}

MessageHeader Bytes(size_t bytes, uint64_t tag = 0) {
  MessageHeader header;
  header.dtype = DType::kUInt8;
  header.shape = Shape{static_cast<int64_t>(bytes)};
  header.bytes = bytes;
  header.tag = tag;
  return header;
}

MessageKey Key(uint64_t item, uint64_t step = 1, uint64_t scope = 1) {
  return {.scope = scope, .step = step, .item = item};
}

Status SendBytes(Transport& transport, PeerId to, const MessageKey& key,
                 const std::vector<uint8_t>& data, milliseconds timeout = seconds(20)) {
  return SendAndWait(transport, to, key, Bytes(data.size()), data.data(), transport.After(timeout));
}

Result<std::vector<uint8_t>> RecvBytes(Transport& transport, PeerId from, const MessageKey& key,
                                       size_t capacity, milliseconds timeout = seconds(20)) {
  std::vector<uint8_t> data(capacity);
  LS_ASSIGN_OR_RETURN(const MessageHeader header, RecvAndWait(transport, from, key, data.data(),
                                                              capacity, transport.After(timeout)));
  data.resize(header.bytes);
  return data;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
constexpr bool kAddressSanitizer = false;
#endif

size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

const size_t kSizes[] = {0,     1,     7,     4096,   8191,           8192,     8193,
                         16384, 16385, 65536, 100003, (1U << 20) + 3, 9U << 20U};

TEST_P(TransportConformance, CarriesEverySizeWhicheverEndIsFirst) {
  const auto cluster = Make(2);
  for (const bool receive_first : {false, true}) {
    cluster->RunTasks([&](PeerId task) {
      Transport& transport = cluster->transport(task);
      // Receives are posted before or after the sends are made, by a message of their own.
      const MessageKey go = Key(999, receive_first ? 1 : 2);
      if (task == 0) {
        Waiter waiter(transport);
        std::vector<std::vector<uint8_t>> data;
        for (size_t i = 0; i < std::size(kSizes); ++i) {
          data.push_back(Pattern(kSizes[i], i));
        }
        if (receive_first) {
          ASSERT_TRUE(RecvBytes(transport, 1, go, 1).ok());
        }
        for (size_t i = 0; i < data.size(); ++i) {
          transport.Send(1, Key(i), Bytes(data[i].size(), i + 100), data[i].data(),
                         transport.After(seconds(20)), waiter.Sent());
        }
        if (!receive_first) {
          ASSERT_TRUE(SendBytes(transport, 1, go, {1}).ok());
        }
        const Status status = waiter.Wait();
        ASSERT_TRUE(status.ok()) << status.ToString();
      } else {
        Waiter waiter(transport);
        std::vector<std::vector<uint8_t>> data;
        std::vector<MessageHeader> headers(std::size(kSizes));
        if (!receive_first) {
          ASSERT_TRUE(RecvBytes(transport, 0, go, 1).ok());
        }
        for (const size_t size : kSizes) {
          data.emplace_back(size + 5, uint8_t{0xEE});
        }
        for (size_t i = data.size(); i-- > 0;) {
          transport.Recv(0, Key(i), data[i].data(), data[i].size(), transport.After(seconds(20)),
                         waiter.Received(&headers[i]));
        }
        if (receive_first) {
          ASSERT_TRUE(SendBytes(transport, 0, go, {1}).ok());
        }
        const Status status = waiter.Wait();
        ASSERT_TRUE(status.ok()) << status.ToString();
        for (size_t i = 0; i < data.size(); ++i) {
          std::vector<uint8_t> expected = Pattern(kSizes[i], i);
          expected.insert(expected.end(), 5, uint8_t{0xEE});
          EXPECT_TRUE(data[i] == expected) << kSizes[i] << " bytes";
          EXPECT_EQ(headers[i].bytes, kSizes[i]);
          EXPECT_EQ(headers[i].tag, i + 100);
          EXPECT_EQ(headers[i].shape, Shape{static_cast<int64_t>(kSizes[i])});
        }
      }
    });
  }
  EXPECT_EQ(cluster->transport(0).num_pending(), 0);
  EXPECT_EQ(cluster->transport(1).num_pending(), 0);
}

TEST_P(TransportConformance, CarriesTensors) {
  const auto cluster = Make(2);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    const Deadline deadline = transport.After(seconds(20));
    if (task == 0) {
      const Tensor tensor = Tensor::From(Shape{2, 3}, values).value();
      EXPECT_TRUE(SendTensor(transport, 1, Key(1), tensor, deadline).ok());
      const Tensor empty = Tensor::Zeros(DType::kInt64, Shape{4, 0, 2}).value();
      EXPECT_TRUE(SendTensor(transport, 1, Key(2), empty, deadline).ok());
      const Tensor scalar = Tensor::Scalar<double>(2.5).value();
      EXPECT_TRUE(SendTensor(transport, 1, Key(3), scalar, deadline).ok());
      MessageHeader wrong = Bytes(6);
      wrong.shape = Shape{7};
      EXPECT_TRUE(SendAndWait(transport, 1, Key(4), wrong, values.data(), deadline).ok());
    } else {
      Result<Tensor> tensor = RecvTensor(transport, 0, Key(1), deadline);
      ASSERT_TRUE(tensor.ok()) << tensor.status().ToString();
      EXPECT_EQ(tensor->dtype(), DType::kFloat32);
      EXPECT_EQ(tensor->shape(), (Shape{2, 3}));
      EXPECT_EQ(std::vector<float>(tensor->values<float>().begin(), tensor->values<float>().end()),
                values);
      Result<Tensor> empty = RecvTensor(transport, 0, Key(2), deadline);
      ASSERT_TRUE(empty.ok()) << empty.status().ToString();
      EXPECT_EQ(empty->shape(), (Shape{4, 0, 2}));
      EXPECT_EQ(empty->dtype(), DType::kInt64);
      Result<Tensor> scalar = RecvTensor(transport, 0, Key(3), deadline);
      ASSERT_TRUE(scalar.ok());
      EXPECT_EQ(scalar->values<double>()[0], 2.5);
      const Result<Tensor> wrong = RecvTensor(transport, 0, Key(4), deadline);
      ASSERT_FALSE(wrong.ok());
      EXPECT_EQ(wrong.status().code(), StatusCode::kInvalidArgument);
      EXPECT_NE(wrong.status().message().find("6 bytes for a tensor uint8 [7]"), std::string::npos)
          << wrong.status().ToString();
    }
  });
}

TEST_P(TransportConformance, MessagesOfOneKeyKeepTheirOrder) {
  const auto cluster = Make(2);
  constexpr int kCount = 200;
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    // Small and large in turn: the large ones wait at the sender, and keep their place.
    const auto size = [](int i) { return static_cast<size_t>(i % 3 == 0 ? 40000 : 8 + i); };
    if (task == 0) {
      Waiter waiter(transport);
      std::vector<std::vector<uint8_t>> data;
      data.reserve(kCount);
      for (int i = 0; i < kCount; ++i) {
        data.push_back(Pattern(size(i), static_cast<uint64_t>(i)));
        transport.Send(1, Key(5), Bytes(data.back().size()), data.back().data(),
                       transport.After(seconds(20)), waiter.Sent());
      }
      EXPECT_TRUE(waiter.Wait().ok());
    } else {
      for (int i = 0; i < kCount; ++i) {
        Result<std::vector<uint8_t>> data = RecvBytes(transport, 0, Key(5), 40000);
        ASSERT_TRUE(data.ok()) << data.status().ToString();
        ASSERT_TRUE(*data == Pattern(size(i), static_cast<uint64_t>(i))) << "message " << i;
      }
    }
  });
}

TEST_P(TransportConformance, SendsToItself) {
  const auto cluster = Make(1);
  Transport& transport = cluster->transport(0);
  for (const size_t size : kSizes) {
    const std::vector<uint8_t> data = Pattern(size, size);
    std::vector<uint8_t> received(size);
    Waiter waiter(transport);
    transport.Send(0, Key(1), Bytes(size), data.data(), transport.After(seconds(20)),
                   waiter.Sent());
    transport.Recv(0, Key(1), received.data(), size, transport.After(seconds(20)),
                   waiter.Received());
    const Status status = waiter.Wait();
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(received == data);
  }
}

TEST_P(TransportConformance, WhatDoesNotFitIsRefused) {
  const auto cluster = Make(2);
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    if (task == 0) {
      EXPECT_TRUE(SendBytes(transport, 1, Key(1), Pattern(100, 1)).ok());  // has left at once
      const Status status = SendBytes(transport, 1, Key(2), Pattern(1 << 20, 2));
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
      EXPECT_NE(status.ToString().find("1048576 bytes for a buffer of 1000"), std::string::npos)
          << status.ToString();
      EXPECT_NE(status.ToString().find(transport.task_name(1)), std::string::npos);
    } else {
      for (const uint64_t item : {1, 2}) {
        const auto result = RecvBytes(transport, 0, Key(item), item == 1 ? 99 : 1000);
        EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
      }
    }
  });
}

TEST_P(TransportConformance, DeadlinesNameWhatIsMissing) {
  const auto cluster = Make(2);
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    if (task == 0) {
      const auto result = RecvBytes(transport, 1, Key(3, 12, 7), 10, milliseconds(30));
      EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded);
      EXPECT_NE(result.status().message().find("item 3 of step 12 in scope 7"), std::string::npos)
          << result.status().ToString();
      EXPECT_NE(result.status().message().find(transport.task_name(1)), std::string::npos);
      const Status status = SendBytes(transport, 1, Key(4), Pattern(1 << 20, 1), milliseconds(30));
      EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
      EXPECT_NE(status.message().find(transport.task_name(1)), std::string::npos);
      // The transport is as good as before, and the expired message is gone.
      EXPECT_TRUE(SendBytes(transport, 1, Key(5), {1}).ok());
      EXPECT_TRUE(SendBytes(transport, 1, Key(4), Pattern(20, 2)).ok());
    } else {
      ASSERT_TRUE(RecvBytes(transport, 0, Key(5), 1).ok());
      const auto data = RecvBytes(transport, 0, Key(4), 20);
      ASSERT_TRUE(data.ok()) << data.status().ToString();
      EXPECT_TRUE(*data == Pattern(20, 2));
    }
  });
  EXPECT_TRUE(cluster->transport(0).peer_status(1).ok());
}

TEST_P(TransportConformance, AbortEndsWhatIsPendingAndWhatComes) {
  const auto cluster = Make(2);
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    const PeerId other = 1 - task;
    Waiter pending(transport);
    std::vector<uint8_t> buffer(1 << 20);
    const std::vector<uint8_t> large = Pattern(1 << 20, 1);
    transport.Recv(other, Key(1, 5), buffer.data(), buffer.size(), transport.After(seconds(20)),
                   pending.Received());
    transport.Send(other, Key(2, 5), Bytes(large.size()), large.data(),
                   transport.After(seconds(20)), pending.Sent());
    // Another step is not concerned.
    Waiter other_step(transport);
    transport.Recv(other, Key(1, 6), buffer.data(), buffer.size(), transport.After(seconds(20)),
                   other_step.Received());
    transport.Abort(1, 5, Internal("op MatMul_3 failed"));
    const Status status = pending.Wait();
    // The other end may have refused first, for the same reason.
    EXPECT_EQ(status.code(), StatusCode::kInternal) << status.ToString();
    EXPECT_NE(status.ToString().find("op MatMul_3 failed"), std::string::npos);
    const Status later = RecvBytes(transport, other, Key(3, 5), 10).status();
    EXPECT_EQ(later.code(), StatusCode::kInternal) << later.ToString();
    EXPECT_EQ(SendBytes(transport, other, Key(3, 5), {1}).code(), StatusCode::kInternal);
    EXPECT_TRUE(SendBytes(transport, other, Key(1, 6), Pattern(7, 7)).ok());
    EXPECT_TRUE(other_step.Wait().ok());
    transport.EndStep(1, 5);
    EXPECT_EQ(SendBytes(transport, other, Key(3, 5), {1}).code(), StatusCode::kFailedPrecondition);
  });
  EXPECT_EQ(cluster->transport(0).num_pending(), 0);
  EXPECT_EQ(cluster->transport(1).num_pending(), 0);
}

TEST_P(TransportConformance, AbortAtReachesThePeer) {
  const auto cluster = Make(2);
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    if (task == 0) {
      transport.AbortAt(1, 9, 1, InvalidArgument("shapes differ: [2] and [3]"));
      // Orders the end of the test behind the arrival.
      EXPECT_TRUE(RecvBytes(transport, 1, Key(1), 1).ok());
    } else {
      const auto result = RecvBytes(transport, 0, Key(1, 1, 9), 10);
      EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
      EXPECT_NE(result.status().ToString().find("shapes differ: [2] and [3]"), std::string::npos);
      EXPECT_NE(result.status().ToString().find(transport.task_name(0)), std::string::npos);
      EXPECT_TRUE(SendBytes(transport, 0, Key(1), {1}).ok());
    }
  });
}

TEST_P(TransportConformance, EndedStepsTakeNothing) {
  const auto cluster = Make(2);
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    if (task == 0) {
      EXPECT_TRUE(SendBytes(transport, 1, Key(1, 3), Pattern(10, 1)).ok());
      EXPECT_TRUE(SendBytes(transport, 1, Key(7), {1}).ok());
      EXPECT_TRUE(RecvBytes(transport, 1, Key(8), 1).ok());
      // The step has ended there: a small message is dropped, a large one refused.
      EXPECT_TRUE(SendBytes(transport, 1, Key(2, 3), Pattern(10, 1)).ok());
      const Status status = SendBytes(transport, 1, Key(2, 3), Pattern(1 << 20, 1));
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
      EXPECT_TRUE(SendBytes(transport, 1, Key(9), {1}).ok());
    } else {
      EXPECT_TRUE(RecvBytes(transport, 0, Key(7), 1).ok());
      transport.EndStep(1, 3);
      EXPECT_TRUE(SendBytes(transport, 0, Key(8), {1}).ok());
      EXPECT_TRUE(RecvBytes(transport, 0, Key(9), 1).ok());
      EXPECT_EQ(transport.num_pending(), 0);
    }
  });
}

// A sender that runs ahead keeps its messages to itself: the receiver stores a bounded amount.
TEST_P(TransportConformance, UnexpectedMessagesTakeBoundedMemory) {
  const auto cluster = Make(2);
  constexpr int kCount = 2000;
  constexpr size_t kBytes = 4000;
  std::atomic<int> sent{0};
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    if (task == 0) {
      const std::vector<uint8_t> data = Pattern(kBytes, 3);
      Waiter waiter(transport);
      for (int i = 0; i < kCount; ++i) {
        const SendDone done = waiter.Sent();
        transport.Send(1, Key(static_cast<uint64_t>(i), 2), Bytes(kBytes), data.data(),
                       transport.After(seconds(60)), [done, &sent](const Status& status) {
                         sent += status.ok() ? 1 : 0;
                         done(status);
                       });
      }
      EXPECT_LE(sent.load() * (kBytes + internal::Engine::kEagerOverheadBytes),
                internal::Engine::kEagerWindowBytes);
      EXPECT_TRUE(SendBytes(transport, 1, Key(1, 3), {1}).ok());
      const Status status = waiter.Wait();
      EXPECT_TRUE(status.ok()) << status.ToString();
    } else {
      ASSERT_TRUE(RecvBytes(transport, 0, Key(1, 3), 1).ok());
      const std::vector<uint8_t> expected = Pattern(kBytes, 3);
      for (int i = kCount; i-- > 0;) {
        const auto data = RecvBytes(transport, 0, Key(static_cast<uint64_t>(i), 2), kBytes);
        ASSERT_TRUE(data.ok()) << data.status().ToString();
        ASSERT_TRUE(*data == expected);
      }
    }
  });
  EXPECT_EQ(sent.load(), kCount);
}

TEST_P(TransportConformance, AFailedPeerFailsItsOperationsOnly) {
  const auto cluster = Make(3);
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    if (task == 0) {
      Waiter lost(transport);
      std::vector<uint8_t> buffer(10);
      const std::vector<uint8_t> large = Pattern(1 << 20, 1);
      transport.Recv(1, Key(1), buffer.data(), buffer.size(), transport.After(seconds(20)),
                     lost.Received());
      transport.Send(1, Key(2), Bytes(large.size()), large.data(), transport.After(seconds(20)),
                     lost.Sent());
      transport.FailPeer(1, Unavailable("no heartbeat for 2 s"));
      const Status status = lost.Wait();
      EXPECT_EQ(status.code(), StatusCode::kUnavailable);
      EXPECT_NE(status.message().find(transport.task_name(1) + " is lost: no heartbeat for 2 s"),
                std::string::npos)
          << status.ToString();
      EXPECT_EQ(transport.peer_status(1).code(), StatusCode::kUnavailable);
      EXPECT_EQ(SendBytes(transport, 1, Key(1), {1}).code(), StatusCode::kUnavailable);
      EXPECT_TRUE(SendBytes(transport, 2, Key(1), {1}).ok());
      EXPECT_TRUE(RecvBytes(transport, 2, Key(1), 1).ok());
    } else if (task == 2) {
      EXPECT_TRUE(RecvBytes(transport, 0, Key(1), 1).ok());
      EXPECT_TRUE(SendBytes(transport, 0, Key(1), {1}).ok());
    }
  });
}

// Aborting in the middle of a transfer gives the buffers back untouched from then on.
TEST_P(TransportConformance, AnAbortedTransferLetsGoOfItsBuffers) {
  const auto cluster = Make(2);
  for (uint64_t round = 0; round < 20; ++round) {
    cluster->RunTasks([&](PeerId task) {
      Transport& transport = cluster->transport(task);
      std::vector<uint8_t> data(4U << 20U, static_cast<uint8_t>(task));
      Waiter waiter(transport);
      if (task == 0) {
        transport.Send(1, Key(1, round), Bytes(data.size()), data.data(),
                       transport.After(seconds(20)), waiter.Sent());
      } else {
        transport.Recv(0, Key(1, round), data.data(), data.size(), transport.After(seconds(20)),
                       waiter.Received());
      }
      if (static_cast<PeerId>(round % 2) == task) {
        transport.Abort(1, round, Aborted("enough"));
        // An announcement that was withdrawn before it was received leaves no trace at the peer.
        transport.AbortAt(1 - task, 1, round, Aborted("enough"));
      }
      const Status status = waiter.Wait();
      const std::vector<uint8_t> snapshot = data;
      EXPECT_TRUE(status.ok() || status.code() == StatusCode::kAborted) << status.ToString();
      // Whatever is still under way would show here.
      const MessageKey next = Key(2, round + 1000);
      if (task == 0) {
        ASSERT_TRUE(SendBytes(transport, 1, next, Pattern(100000, 1)).ok());
      } else {
        ASSERT_TRUE(RecvBytes(transport, 0, next, 100000).ok());
      }
      EXPECT_TRUE(data == snapshot);
    });
  }
}

TEST_P(TransportConformance, EightTasksExchangeEverythingWithEveryone) {
  constexpr int kTasks = 8;
  const auto cluster = Make(kTasks);
  const int rounds = 2 + GetParam().scale / 10;
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    const auto size = [](int from, int to, int round) {
      return static_cast<size_t>((from * 7919 + to * 104729 + round * 1299709) % 30000);
    };
    for (int round = 0; round < rounds; ++round) {
      Waiter waiter(transport);
      std::vector<std::vector<uint8_t>> out(kTasks);
      std::vector<std::vector<uint8_t>> in(kTasks);
      for (int peer = 0; peer < kTasks; ++peer) {
        const auto p = static_cast<size_t>(peer);
        const MessageKey key = Key(0, static_cast<uint64_t>(round));
        in[p].resize(size(peer, task, round));
        transport.Recv(peer, key, in[p].data(), in[p].size(), transport.After(seconds(50)),
                       waiter.Received());
        out[p] = Pattern(size(task, peer, round), static_cast<uint64_t>(task * 8 + peer));
        transport.Send(peer, key, Bytes(out[p].size()), out[p].data(), transport.After(seconds(50)),
                       waiter.Sent());
      }
      const Status status = waiter.Wait();
      ASSERT_TRUE(status.ok()) << status.ToString();
      for (int peer = 0; peer < kTasks; ++peer) {
        const auto p = static_cast<size_t>(peer);
        ASSERT_TRUE(in[p] == Pattern(in[p].size(), static_cast<uint64_t>(peer * 8 + task)));
      }
    }
  });
}

TEST_P(TransportConformance, MemoryStaysFlat) {
  const auto cluster = Make(2);
  const int rounds = 500 * GetParam().scale;
  std::optional<size_t> early;
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    std::vector<uint8_t> buffer(70000, static_cast<uint8_t>(task));
    for (int round = 0; round < rounds; ++round) {
      const size_t size = round % 50 == 0 ? static_cast<size_t>(round) % 70000
                                          : static_cast<size_t>(round) * 37 % 2000;
      // A new step each time, and a far deadline, as in training.
      const MessageKey key = Key(1, static_cast<uint64_t>(round));
      const Deadline deadline = transport.After(seconds(600));
      const Status status =
          (round / 50 + task) % 2 == 0
              ? SendAndWait(transport, 1 - task, key, Bytes(size), buffer.data(), deadline)
              : RecvAndWait(transport, 1 - task, key, buffer.data(), buffer.size(), deadline)
                    .status();
      ASSERT_TRUE(status.ok()) << status.ToString();
      if (task == 0 && round == rounds / 5) {
        early = ResidentBytes();
      }
    }
  });
  ASSERT_TRUE(early.has_value());
  // The address sanitizer keeps freed memory for a while.
  if (!kAddressSanitizer) {
    EXPECT_LT(static_cast<double>(ResidentBytes()), static_cast<double>(*early) + 8e6);
  }
  EXPECT_EQ(cluster->transport(0).num_pending(), 0);
}

TEST_P(TransportConformance, CountsWhatPasses) {
  const auto cluster = Make(2);
  cluster->RunTasks([&](PeerId task) {
    Transport& transport = cluster->transport(task);
    if (task == 0) {
      EXPECT_TRUE(SendBytes(transport, 1, Key(1), Pattern(100, 1)).ok());
      EXPECT_TRUE(SendBytes(transport, 1, Key(2), Pattern(1 << 20, 1)).ok());
      EXPECT_EQ(transport.stats(1).sent_messages, 2U);
      EXPECT_EQ(transport.stats(1).sent_bytes, 100U + (1U << 20U));
    } else {
      EXPECT_TRUE(RecvBytes(transport, 0, Key(1), 100).ok());
      EXPECT_TRUE(RecvBytes(transport, 0, Key(2), 1 << 20).ok());
      EXPECT_EQ(transport.stats(0).received_messages, 2U);
      EXPECT_EQ(transport.stats(0).received_bytes, 100U + (1U << 20U));
      EXPECT_GE(transport.stats(0).receive_wait_seconds, 0);
      EXPECT_EQ(transport.stats(0).sent_messages, 0U);
    }
  });
}

TEST_P(TransportConformance, WhatWasSentBeforeTheEndArrives) {
  const auto cluster = Make(2);
  Transport& sender = cluster->transport(0);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(SendBytes(sender, 1, Key(i), Pattern(1000, i)).ok());
  }
  sender.Close(sender.After(seconds(5)));
  EXPECT_EQ(SendBytes(sender, 1, Key(1), {1}).code(), StatusCode::kCancelled);
  Transport& receiver = cluster->transport(1);
  for (uint64_t i = 0; i < 100; ++i) {
    const auto data = RecvBytes(receiver, 0, Key(i), 1000);
    ASSERT_TRUE(data.ok()) << data.status().ToString();
    EXPECT_TRUE(*data == Pattern(1000, i));
  }
  const Status status = RecvBytes(receiver, 0, Key(200), 1000).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("has closed its transport"), std::string::npos)
      << status.ToString();
}

TEST_P(TransportConformance, UnknownTasksAreRefused) {
  const auto cluster = Make(2);
  Transport& transport = cluster->transport(0);
  EXPECT_EQ(SendBytes(transport, 2, Key(1), {1}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(RecvBytes(transport, -1, Key(1), 1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(transport.peer_status(7).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::net::testing
