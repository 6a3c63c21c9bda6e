// Status in replies: the one place where an error becomes bytes and comes back, code, message and
// every frame of context (origin task, op). Messages may be of any length: they travel in the body
// of a reply, never in the trailer of the transport.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::cluster::internal {

// What a reply consists of: the status, and behind it the body of a success.
std::string EncodeReply(const Result<std::string>& result);

// The other way. INTERNAL for what is no reply.
Result<std::string> DecodeReply(std::string_view bytes);

// The status alone, for messages that carry one among others.
std::string EncodeStatus(const Status& status);
// `bytes` holds an encoded status and nothing else; INTERNAL for what does not.
Status DecodeStatus(std::string_view bytes);

}  // namespace lockstep::cluster::internal
