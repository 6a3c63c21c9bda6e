#include "lockstep/net/link_kind.h"

#include <fmt/format.h>

namespace lockstep::net {

std::string_view LinkKindName(LinkKind kind) {
  switch (kind) {
    case LinkKind::kSelf:
      return "self";
    case LinkKind::kSim:
      return "sim";
    case LinkKind::kShm:
      return "shm";
    case LinkKind::kUcx:
      return "ucx";
    case LinkKind::kGrpc:
      return "grpc";
  }
  return "unknown";
}

Result<LinkKind> ParseLinkKind(std::string_view name) {
  for (const LinkKind kind : {LinkKind::kShm, LinkKind::kUcx, LinkKind::kGrpc}) {
    if (name == LinkKindName(kind)) {
      return kind;
    }
  }
  return InvalidArgument(fmt::format("unknown transport '{}': allowed are shm, ucx, grpc", name));
}

}  // namespace lockstep::net
