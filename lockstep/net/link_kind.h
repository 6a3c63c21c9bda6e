// The kinds of links between two tasks.
#pragma once

#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::net {

enum class LinkKind {
  kSelf,  // a task to itself
  kSim,   // tasks of one process, for tests
  kShm,   // processes of one host
  kUcx,   // hosts of a trusted network
  kGrpc,  // hosts, with mutual TLS
};

// "self", "sim", "shm", "ucx", "grpc".
std::string_view LinkKindName(LinkKind kind);
// Of "shm", "ucx" and "grpc", which users may choose from.
Result<LinkKind> ParseLinkKind(std::string_view name);

}  // namespace lockstep::net
