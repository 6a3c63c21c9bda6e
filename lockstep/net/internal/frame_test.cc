// Frames, addresses, proofs and rings: what is read from peers, well-formed and not.
#include "lockstep/net/internal/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "lockstep/base/philox.h"
#include "lockstep/net/internal/chunk_streams.h"
#include "lockstep/net/internal/proof.h"
#include "lockstep/net/shm/segment.h"
#include "lockstep/net/wire_up.h"

namespace lockstep::net::internal {
namespace {

Frame Sample() {
  Frame frame;
  frame.type = FrameType::kAnnounce;
  frame.key = {.scope = 1, .step = uint64_t{1} << 63, .item = 3};
  frame.header.dtype = DType::kBFloat16;
  frame.header.shape = Shape{2, 0, 7};
  frame.header.bytes = 12345678901;
  frame.header.tag = 99;
  frame.transfer = 17;
  frame.value = 23;
  return frame;
}

std::vector<std::byte> Encode(const Frame& frame) {
  FrameBytes bytes;
  const size_t size = EncodeFrame(frame, bytes);
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

TEST(FrameTest, ComesBackAsItWas) {
  const std::vector<std::byte> bytes = Encode(Sample());
  EXPECT_EQ(bytes.size(), 64U + 3 * 8);
  const Result<ParsedFrame> parsed = ParseFrame(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->header_bytes, bytes.size());
  EXPECT_EQ(parsed->frame.key, Sample().key);
  EXPECT_EQ(parsed->frame.header.shape, (Shape{2, 0, 7}));
  EXPECT_EQ(parsed->frame.header.dtype, DType::kBFloat16);
  EXPECT_EQ(parsed->frame.header.bytes, 12345678901U);
  EXPECT_EQ(parsed->frame.header.tag, 99U);
  EXPECT_EQ(parsed->frame.transfer, 17U);
  EXPECT_EQ(parsed->frame.value, 23U);
}

TEST(FrameTest, EveryTruncationIsAnError) {
  const std::vector<std::byte> bytes = Encode(Sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(ParseFrame(std::span(bytes).first(size)).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(FrameTest, WrongFieldsAreErrorsThatNameThem) {
  const auto message = [](size_t offset, uint8_t value) {
    std::vector<std::byte> bytes = Encode(Sample());
    bytes[offset] = static_cast<std::byte>(value);
    return ParseFrame(bytes).status().ToString();
  };
  EXPECT_NE(message(0, 0x16).find("begins with byte 0x16"), std::string::npos);  // a TLS record
  EXPECT_NE(message(1, 0).find("unknown type 0"), std::string::npos);
  EXPECT_NE(message(1, 13).find("unknown type 13"), std::string::npos);
  EXPECT_NE(message(2, 200).find("200"), std::string::npos);
  EXPECT_NE(message(3, 9).find("9 dimensions"), std::string::npos);
  EXPECT_NE(message(4, 17).find("status code 17"), std::string::npos);
  EXPECT_NE(message(5, 1), "OK");
  EXPECT_NE(message(64 + 7, 0x80), "OK");  // a negative dimension
  EXPECT_NE(message(31, 0x7F).find("bytes"), std::string::npos);
}

TEST(FrameTest, RandomBytesNeverPassForMore) {
  const PhiloxStream random(1, "frames");
  for (uint64_t round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = Encode(Sample());
    for (uint64_t i = 0; i < 4; ++i) {
      const uint32_t word = random.Word(round * 4 + i);
      bytes[word % bytes.size()] = static_cast<std::byte>(word >> 24);
    }
    const Result<ParsedFrame> parsed = ParseFrame(bytes);
    if (parsed.ok()) {
      EXPECT_LE(parsed->header_bytes, bytes.size());
      EXPECT_GE(parsed->frame.header.shape.num_elements(), 0);
    }
  }
}

TEST(FrameTest, BodiesMustFit) {
  Frame frame = Sample();
  EXPECT_FALSE(CheckBody(frame, 1).ok());
  EXPECT_TRUE(CheckBody(frame, 0).ok());
  frame.type = FrameType::kEager;
  EXPECT_FALSE(CheckBody(frame, 12).ok());
  frame.header.bytes = 12;
  EXPECT_TRUE(CheckBody(frame, 12).ok());
  frame.type = FrameType::kAbort;
  EXPECT_TRUE(CheckBody(frame, kMaxReasonBytes).ok());
  EXPECT_FALSE(CheckBody(frame, kMaxReasonBytes + 1).ok());
}

TEST(FrameTest, ReasonsKeepCodeAndText) {
  const Status status = Aborted("x").With("op A");
  const std::string text = ReasonText(status);
  const Status back =
      ReasonOf(ReasonFrame(FrameType::kRefuse, status), std::as_bytes(std::span(text)));
  EXPECT_EQ(back.code(), StatusCode::kAborted);
  EXPECT_EQ(back.message(), "x [op A]");
  EXPECT_EQ(ReasonText(Aborted(std::string(5000, 'a'))).size(), kMaxReasonBytes);
}

TEST(ChunkStreamsTest, PiecesMustContinue) {
  ChunkStreams streams;
  std::vector<std::byte> target(10);
  int done = 0;
  const std::vector<std::byte> piece(6, std::byte{1});
  Frame frame;
  frame.type = FrameType::kData;
  frame.transfer = 4;
  MoveDone finished;
  EXPECT_TRUE(streams.OnData(frame, piece, &finished).ok()) << "an unknown transfer is ignored";
  streams.Add(4, target.data(), 10, [&done](const Status&) { ++done; });
  EXPECT_TRUE(streams.OnData(frame, piece, &finished).ok());
  EXPECT_FALSE(streams.OnData(frame, piece, &finished).ok()) << "the same piece again";
  frame.value = 6;
  EXPECT_FALSE(streams.OnData(frame, piece, &finished).ok()) << "beyond the end";
  EXPECT_EQ(finished, nullptr);
  EXPECT_TRUE(streams.OnData(frame, std::span(piece).first(4), &finished).ok());
  ASSERT_NE(finished, nullptr);
  finished(OkStatus());
  EXPECT_EQ(done, 1);
  EXPECT_EQ(target, std::vector<std::byte>(10, std::byte{1}));
}

TEST(ProofTest, DependsOnEverything) {
  const std::string transcript = "hello";
  const auto bytes = std::as_bytes(std::span(transcript));
  const Proof proof = MakeProof("secret", "connects", bytes).value();
  EXPECT_TRUE(SameProof(proof, MakeProof("secret", "connects", bytes).value()));
  EXPECT_FALSE(SameProof(proof, MakeProof("secreT", "connects", bytes).value()));
  EXPECT_FALSE(SameProof(proof, MakeProof("secret", "accepts", bytes).value()));
  EXPECT_FALSE(SameProof(proof, MakeProof("secret", "connects", bytes.first(4)).value()));
  EXPECT_NE(MakeNonce().value(), MakeNonce().value());
  // RFC 4231, case 2, behind the role and its zero byte: HMAC-SHA256("Jefe", "what do ya want
  // ...").
  const std::string rest = "do ya want for nothing?";
  EXPECT_FALSE(SameProof(proof, MakeProof("Jefe", "what", std::as_bytes(std::span(rest))).value()));
}

TEST(TaskAddressesTest, ComeBackAsTheyWere) {
  TaskAddresses addresses;
  addresses.incarnation = 5;
  addresses.host = "host";
  addresses.links = {{LinkKind::kShm, std::string("a\0b", 3)}, {LinkKind::kGrpc, "[::1]:5"}};
  const std::string blob = EncodeTaskAddresses(addresses);
  const Result<TaskAddresses> parsed = ParseTaskAddresses(blob);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->incarnation, 5U);
  EXPECT_EQ(parsed->host, "host");
  ASSERT_EQ(parsed->links.size(), 2U);
  EXPECT_EQ(parsed->links[0].address, std::string("a\0b", 3));
  EXPECT_EQ(parsed->links[1].kind, LinkKind::kGrpc);
  for (size_t size = 0; size < blob.size(); ++size) {
    EXPECT_FALSE(ParseTaskAddresses(blob.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ParseTaskAddresses(blob + "x").ok());
  addresses.links.push_back({LinkKind::kShm, "again"});
  EXPECT_FALSE(ParseTaskAddresses(EncodeTaskAddresses(addresses)).ok());
  addresses.incarnation = 0;
  EXPECT_FALSE(ParseTaskAddresses(EncodeTaskAddresses(addresses)).ok());
}

TEST(RingTest, RecordsPassInOrderAroundTheEnd) {
  const auto segment = shm::Segment::Create().value();
  shm::RingWriter writer(segment->ring(0), segment->data(0));
  shm::RingReader reader(segment->ring(0), segment->data(0));
  EXPECT_TRUE(reader.Front().value().empty());
  const auto bytes = [](size_t size, uint64_t seed) {
    return std::vector<std::byte>(size, static_cast<std::byte>(seed));
  };
  const auto size = [](uint64_t i) { return 1 + i * 7919 % 100000; };
  constexpr uint64_t kCount = 2000;
  std::jthread writing([&] {
    for (uint64_t i = 0; i < kCount; ++i) {
      const auto data = bytes(size(i), i);
      while (!writer.Write(std::span(data).first(1), std::span(data).subspan(1))) {
        std::this_thread::yield();
      }
    }
  });
  for (uint64_t i = 0; i < kCount; ++i) {
    Result<std::span<const std::byte>> record = reader.Front();
    while (record.ok() && record->empty()) {
      std::this_thread::yield();
      record = reader.Front();
    }
    ASSERT_TRUE(record.ok()) << record.status().ToString();
    const auto expected = bytes(size(i), i);
    ASSERT_TRUE(std::equal(record->begin(), record->end(), expected.begin(), expected.end()));
    reader.Pop();
  }
}

TEST(RingTest, WhatIsNoRecordIsAnError) {
  const auto segment = shm::Segment::Create().value();
  shm::RingReader reader(segment->ring(0), segment->data(0));
  segment->ring(0)->tail = 64;  // a record of zero bytes
  EXPECT_FALSE(reader.Front().ok());
  const uint64_t too_long = 1000;
  std::memcpy(segment->data(0)->data(), &too_long, sizeof(too_long));
  EXPECT_FALSE(reader.Front().ok());
  segment->ring(0)->tail = uint64_t{1} << 60;
  EXPECT_FALSE(reader.Front().ok());
}

TEST(OfferTableTest, ARevokedOfferIsKnownToTheReader) {
  const auto segment = shm::Segment::Create().value();
  shm::OfferTable& offers = segment->offers(0);
  EXPECT_FALSE(offers.StartReading(5));
  EXPECT_TRUE(offers.Offer(5));
  EXPECT_FALSE(offers.Offer(5 + shm::kSlots)) << "the slot is taken";
  EXPECT_TRUE(offers.StartReading(5));
  EXPECT_FALSE(offers.StartReading(5));
  EXPECT_TRUE(offers.EndReading(5));
  EXPECT_TRUE(offers.Offer(5 + shm::kSlots));
  EXPECT_TRUE(offers.StartReading(5 + shm::kSlots));
  offers.Revoke(5 + shm::kSlots);
  EXPECT_FALSE(offers.EndReading(5 + shm::kSlots));
}

}  // namespace
}  // namespace lockstep::net::internal
