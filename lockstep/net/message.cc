#include "lockstep/net/message.h"

#include <fmt/format.h>

namespace lockstep::net {

std::string MessageKey::ToString() const {
  return fmt::format("item {} of step {} in scope {}", item, step, scope);
}

MessageHeader HeaderOf(const Tensor& tensor, uint64_t tag) {
  return {.dtype = tensor.dtype(), .shape = tensor.shape(), .bytes = tensor.bytes(), .tag = tag};
}

}  // namespace lockstep::net
