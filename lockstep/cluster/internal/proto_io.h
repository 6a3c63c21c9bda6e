// Messages of control.proto to and from bodies of calls.
#pragma once

#include <fmt/format.h>
#include <google/protobuf/message_lite.h>

#include <limits>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::cluster::internal {

// RESOURCE_EXHAUSTED beyond protobuf's limit of 2 GiB.
inline Result<std::string> ToBytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  if (!message.SerializeToString(&bytes)) {
    return ResourceExhausted(fmt::format("a {} of {} bytes; messages may have 2 GiB",
                                         message.GetTypeName(), message.ByteSizeLong()));
  }
  return bytes;
}

template <class Message>
Result<Message> FromBytes(std::string_view bytes) {
  Message message;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument(
        fmt::format("{} bytes that are no {}", bytes.size(), message.GetTypeName()));
  }
  return message;
}

}  // namespace lockstep::cluster::internal
