// Stream: messages to one peer and back, over one call of gRPC, whichever end began it.
//
// Thread-safe. At most one Read and one Write are under way. Events come on gRPC's threads, those
// of reading and those of writing each one at a time, and with no lock held; they must not block. A
// stream lives until gRPC is done with it, however its owner lets go.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "lockstep/base/status.h"

namespace lockstep::net::grpc_link {

inline constexpr char kMethod[] = "/lockstep.net.Link/Connect";
// Of a message, so that a stranger can make nobody keep more.
inline constexpr int kMaxMessageBytes = (int{512} << 10) + 4096;
// Of gRPC's reads, its window per stream and its frames: the defaults are for small messages.
inline constexpr int kReadChunkBytes = 64 << 10;
inline constexpr int kLookaheadBytes = 4 << 20;
inline constexpr int kHttpFrameBytes = 1 << 20;

class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  // What Read asked for.
  virtual void OnMessage(const grpc::ByteBuffer& message) = 0;
  // What Write began is on its way.
  virtual void OnWritten() = 0;
  // The last event: the other end ended the stream, or the connection is lost.
  virtual void OnEnded(const Status& why) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Who has the events from now on; nobody if null: then the stream is emptied and ends.
  virtual void Follow(std::shared_ptr<StreamEvents> events) = 0;
  virtual void Read() = 0;
  // `through`: OnWritten comes only when the system has taken it and everything before it.
  virtual void Write(grpc::ByteBuffer message, bool through) = 0;
  // Ends the stream behind what was written; no Write is under way. `why` reaches the other end if
  // this is the end that accepted.
  virtual void End(const Status& why) = 0;
  // Ends it at once.
  virtual void Cancel() = 0;
};

// Connects; events may come before this returns.
std::shared_ptr<Stream> Connect(std::shared_ptr<grpc::Channel> channel,
                                std::shared_ptr<StreamEvents> events);

// A stream that a peer began: what CreateReactor answers, and its other face.
struct AcceptedStream {
  grpc::ServerGenericBidiReactor* reactor;
  std::shared_ptr<Stream> stream;
};

AcceptedStream AcceptStream(grpc::GenericCallbackServerContext* context);

}  // namespace lockstep::net::grpc_link
