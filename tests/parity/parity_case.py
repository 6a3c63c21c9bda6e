"""Builds parity cases: inputs that float32 holds exactly, outputs and gradients of a framework.

Inputs are multiples of 1/64 or coarser, so every reader starts from the same numbers.
Frameworks compute in float64 where they can ("computed_in" says which), so that a stored value is
the true one to nine digits.
"""

import zlib

import numpy as np
import tensorflow as tf
import torch


class Inputs:
    """Random arrays that depend on the case name only; floats are multiples of 1 / grid."""

    def __init__(self, case_name, grid=64):
        self._rng = np.random.default_rng(zlib.crc32(case_name.encode()))
        self._grid = grid

    def floats(self, *shape, low=-2.0, high=2.0):
        return np.round(self._rng.uniform(low, high, shape) * self._grid) / self._grid

    def ints(self, *shape, low=0, high=10):
        return self._rng.integers(low, high, shape, dtype=np.int64)

    def distinct(self, *shape):
        """Values without ties, for gradients of maxima."""
        count = int(np.prod(shape))
        return (self._rng.permutation(count).reshape(shape) - count // 2) / self._grid

    def probabilities(self, rows, columns):
        """Rows that sum to one exactly, in multiples of 1/64."""
        cuts = np.sort(self._rng.integers(0, 65, (rows, columns - 1)), axis=1)
        edges = np.concatenate([np.zeros((rows, 1)), cuts, np.full((rows, 1), 64)], axis=1)
        return np.diff(edges, axis=1) / 64.0


def array_entry(name, array):
    array = np.asarray(array)
    if array.dtype == np.bool_:
        return {
            "name": name,
            "dtype": "bool",
            "shape": list(array.shape),
            "data": [int(v) for v in array.ravel()],
        }
    if np.issubdtype(array.dtype, np.integer):
        return {
            "name": name,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "data": [int(v) for v in array.ravel()],
        }
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name}: value that is not finite")
    if array.size >= 300:
        raise ValueError(f"{name}: {array.size} elements, at most 299 are allowed")
    return {
        "name": name,
        "dtype": "float32",
        "shape": list(array.shape),
        "data": [_short(v) for v in array.ravel()],
    }


def _short(value):
    value = float(f"{float(value):.9g}")
    return int(value) if value == int(value) and abs(value) < 1e9 else value


def _entries(arrays):
    return [array_entry(name, value) for name, value in arrays.items()]


def plain_case(name, framework, op, attrs, inputs, outputs, **extra):
    """A case whose outputs are already known arrays (no gradients)."""
    case = {"name": name, "framework": framework, "op": op, "attrs": attrs, **extra}
    case["inputs"] = _entries(inputs)
    case["outputs"] = _entries(outputs)
    return case


def _is_float(array):
    return np.issubdtype(np.asarray(array).dtype, np.floating)


def tensorflow_run(function, inputs, wrt, upstream, dtype):
    """Returns (outputs, gradients) by name; `function` takes and returns tensors by name."""
    tensors = {k: tf.constant(v, dtype if _is_float(v) else None) for k, v in inputs.items()}
    with tf.GradientTape() as tape:
        for name in wrt:
            tape.watch(tensors[name])
        outputs = function(**tensors)
        if wrt:
            loss = [
                tf.reduce_sum(outputs[k] * tf.constant(v, dtype))
                for k, v in upstream(outputs).items()
            ]
    gradients = tape.gradient(loss, [tensors[n] for n in wrt]) if wrt else []
    gradients = [
        np.zeros_like(inputs[n]) if g is None else tf.convert_to_tensor(g).numpy()
        for n, g in zip(wrt, gradients)
    ]
    return {k: v.numpy() for k, v in outputs.items()}, dict(zip(wrt, gradients))


def torch_run(function, inputs, wrt, upstream, dtype):
    kind = getattr(torch, dtype)
    tensors = {k: torch.tensor(v, dtype=kind if _is_float(v) else None) for k, v in inputs.items()}
    for name in wrt:
        tensors[name].requires_grad_(True)
    outputs = function(**tensors)
    if wrt:
        sum(
            (outputs[k] * torch.tensor(v, dtype=kind)).sum() for k, v in upstream(outputs).items()
        ).backward()
    gradients = {
        n: np.zeros_like(inputs[n]) if tensors[n].grad is None else tensors[n].grad.numpy()
        for n in wrt
    }
    return {k: v.detach().numpy() for k, v in outputs.items()}, gradients


_RUNNERS = {"tensorflow": tensorflow_run, "torch": torch_run}


def run_case(
    name,
    framework,
    op,
    attrs,
    inputs,
    function,
    wrt=(),
    upstream_of=("y",),
    dtype="float64",
    check_with=None,
    check_tolerance=1e-9,
    grid=64,
    **extra,
):
    """Runs `function` and records outputs, and gradients of sum(dy * y) for the inputs in `wrt`.

    `check_with` = (framework, function) computes the same thing elsewhere and must agree, so that a
    mistake in a hand-made conversion (layout, padding) does not become the truth.
    """
    source = Inputs(name + "/dy", grid)
    drawn = {}

    def upstream(outputs):
        for key in upstream_of:
            if key not in drawn:
                drawn[key] = source.floats(*tuple(outputs[key].shape))
        return drawn

    outputs, gradients = _RUNNERS[framework](function, inputs, list(wrt), upstream, dtype)
    if check_with is not None:
        other_outputs, other_gradients = _RUNNERS[check_with[0]](
            check_with[1], inputs, list(wrt), upstream, "float64"
        )
        for key, value in {
            **other_outputs,
            **{"d" + k: v for k, v in other_gradients.items()},
        }.items():
            mine = outputs[key] if key in outputs else gradients[key[1:]]
            np.testing.assert_allclose(
                mine,
                value,
                rtol=check_tolerance,
                atol=check_tolerance,
                err_msg=f"{name}: {key} differs between frameworks",
            )
        extra = {**extra, "agrees_with": check_with[0]}
    case = plain_case(name, framework, op, attrs, inputs, outputs, computed_in=dtype, **extra)
    if wrt:
        case["grad_outputs"] = _entries(drawn)
        case["grad_inputs"] = _entries(gradients)
    return case
