// The end of everything that a process has started. A process that became a subreaper (prctl
// PR_SET_CHILD_SUBREAPER) inherits the children of those of its descendants that end, however they
// detached themselves (setsid, double fork); so killing its children until there are none leaves
// nobody. Only children are killed, whose numbers cannot have gone to somebody else.
#pragma once

#include <chrono>

#include "lockstep/base/deadline.h"
#include "lockstep/base/status.h"

namespace lockstep::cluster {

// What is left to a process that was killed until that counts as an error.
constexpr std::chrono::milliseconds kKillTime{10'000};

// Makes this process the one that inherits.
Status BecomeSubreaper();

// Sends SIGKILL to all children and waits for their end, until there are none. DEADLINE_EXCEEDED if
// some do not end (a process of another user, or one that hangs in the kernel).
Status KillDescendants(const Deadline& deadline);

}  // namespace lockstep::cluster
