// Attribute values as messages of graph.proto, and the checks of text that reader and writer share.
#pragma once

#include <string_view>

#include "lockstep/graph/attr.h"
#include "lockstep/graph/serialize.h"

namespace lockstep::proto {
class AttrValue;
}  // namespace lockstep::proto

namespace lockstep::internal {

// Longer than `max_bytes` is RESOURCE_EXHAUSTED, a control character INVALID_ARGUMENT.
Status CheckText(std::string_view text, size_t max_bytes);

// Fails for what AttrFromProto would refuse whatever the limits.
Status AttrToProto(const AttrValue& value, proto::AttrValue& message);

// Errors name the field within the value.
Result<AttrValue> AttrFromProto(const proto::AttrValue& message, const ParseLimits& limits);

}  // namespace lockstep::internal
