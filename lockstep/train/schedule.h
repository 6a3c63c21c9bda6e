// Learning-rate schedules: the rate at a step as a pure function, so that a resumed run goes on
// where it was.
#pragma once

#include <cstdint>

#include "lockstep/train/config.h"

namespace lockstep::train {

// The rate of step `step`, counted from 0, in a run of `total_steps` (0: unknown, which cosine and
// polynomial schedules without decay_steps refuse behind the warm-up). During the first
// warmup_steps it rises linearly, (step + 1) / warmup_steps of the base rate; the schedule itself
// counts from the end of the warm-up. Formulas, with p = min(step / decay_steps, 1) and the end
// rate e: TensorFlow's tf.keras.optimizers.schedules.
//   constant     base
//   piecewise    values[number of boundaries b with step > b]
//   cosine       e + (base - e) * (1 + cos(pi p)) / 2
//   polynomial   e + (base - e) * (1 - p)^power
//   exponential  base * decay_rate^(step / decay_steps), the exponent rounded down if staircase
Result<double> LearningRateAt(const OptimizerConfig& optimizer, int64_t step, int64_t total_steps);

}  // namespace lockstep::train
