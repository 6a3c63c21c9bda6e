"""Learning-rate schedules: the rate at the listed steps."""

import numpy as np
import tensorflow as tf

from parity_case import plain_case


def _case(name, op, attrs, schedule, steps, formula):
    # Keras computes schedules in float32.
    rates = np.array([float(schedule(np.int64(s))) for s in steps])
    return plain_case(
        name,
        "tensorflow",
        op,
        attrs,
        {"step": np.array(steps, dtype=np.int64)},
        {"learning_rate": rates},
        computed_in="float32",
        formula=formula,
    )


def cases():
    s = tf.keras.optimizers.schedules
    steps = [0, 1, 5, 10, 11, 25, 50, 75, 99, 100, 101, 250]
    exponential = (
        "initial * rate^(step / decay_steps), step / decay_steps rounded down when staircase"
    )
    polynomial = (
        "s = min(step, decay_steps); (initial - end) * (1 - s / decay_steps)^power + end; with "
        "cycle decay_steps is multiplied by max(1, ceil(step / decay_steps)) and s = step"
    )
    cosine = (
        "initial * ((1 - alpha) * (1 + cos(pi * min(step, decay_steps) / decay_steps)) / 2 + alpha)"
    )
    result = [
        _case(
            "piecewise_constant",
            "PiecewiseConstant",
            {"boundaries": [10, 50], "values": [0.5, 0.25, 0.1]},
            s.PiecewiseConstantDecay([10, 50], [0.5, 0.25, 0.1]),
            steps,
            "values[i] for the first i with step <= boundaries[i], else the last",
        ),
    ]
    for staircase in (False, True):
        result.append(
            _case(
                "exponential" + "_staircase" * staircase,
                "Exponential",
                {"initial": 0.1, "decay_steps": 25, "rate": 0.9, "staircase": staircase},
                s.ExponentialDecay(0.1, 25, 0.9, staircase),
                steps,
                exponential,
            )
        )
    for power, end, cycle in ((1.0, 0.0, False), (2.0, 0.01, False), (1.0, 0.01, True)):
        result.append(
            _case(
                f"polynomial_power_{power:g}" + "_cycle" * cycle,
                "Polynomial",
                {"initial": 0.1, "end": end, "decay_steps": 100, "power": power, "cycle": cycle},
                s.PolynomialDecay(0.1, 100, end, power, cycle),
                steps,
                polynomial,
            )
        )
    for alpha in (0.0, 0.1):
        result.append(
            _case(
                f"cosine_alpha_{alpha:g}",
                "Cosine",
                {"initial": 0.1, "decay_steps": 100, "alpha": alpha},
                s.CosineDecay(0.1, 100, alpha),
                steps,
                cosine,
            )
        )
    result.append(
        _case(
            "cosine_after_linear_warmup",
            "Cosine",
            {
                "initial": 0.1,
                "decay_steps": 100,
                "alpha": 0.0,
                "warmup_steps": 10,
                "warmup_start": 0.0,
            },
            s.CosineDecay(0.0, 100, 0.0, warmup_target=0.1, warmup_steps=10),
            steps,
            "step < warmup_steps: warmup_start + (initial - warmup_start) * step / warmup_steps; "
            "then the schedule at step - warmup_steps",
        )
    )
    return result
