// lockstep models, lockstep ops
#pragma once

#include "lockstep/cli/command.h"

namespace lockstep::cli {

Outcome ListModels();
Outcome ListOps();

}  // namespace lockstep::cli
