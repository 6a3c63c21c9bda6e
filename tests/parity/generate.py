#!/usr/bin/env python3
"""Writes the parity files beside this script with the numbers of other frameworks.

    python3 generate.py [GROUP ...]

Needs numpy, torch and tensorflow. It is run by hand when a case is added: the build and the tests
read the JSON files only. The same package versions write the same files.
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# PyTorch's optimizers would load Triton, whose LLVM cannot share a process with TensorFlow's.
sys.modules["triton"] = None

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import torch  # noqa: E402

from groups import (
    activations,
    conv,
    losses,
    math_ops,
    norms,
    optimizers,
    pooling,
    schedules,
)  # noqa: E402

GROUPS = {
    "losses": losses,
    "optimizers": optimizers,
    "norms": norms,
    "pooling": pooling,
    "conv": conv,
    "activations": activations,
    "math": math_ops,
    "schedules": schedules,
}
VERSIONS = {
    "tensorflow": tf.__version__,
    "torch": torch.__version__.split("+")[0],
    "numpy": np.__version__,
}


def _compact(value):
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _case_lines(case):
    """One line for a scalar field and one for each array, so that diffs stay small."""
    fields = []
    for key, value in case.items():
        if key in ("inputs", "outputs", "grad_outputs", "grad_inputs"):
            arrays = ",\n    ".join(_compact(entry) for entry in value)
            fields.append(f"   {_compact(key)}:[\n    {arrays}]")
        else:
            fields.append(f"   {_compact(key)}:{_compact(value)}")
    return "  {\n" + ",\n".join(fields) + "}"


def write_group(name, folder):
    cases = GROUPS[name].cases()
    names = [case["name"] for case in cases]
    duplicates = sorted({n for n in names if names.count(n) > 1})
    if duplicates:
        raise ValueError(f"{name}: case names used twice: {duplicates}")
    text = (
        '{"generator":"tests/parity/generate.py",\n "frameworks":'
        + _compact(VERSIONS)
        + ',\n "cases":[\n'
        + ",\n".join(_case_lines(case) for case in cases)
        + "\n ]}\n"
    )
    json.loads(text)
    path = folder / f"{name}.json"
    path.write_text(text)
    print(f"{path.name}: {len(cases)} cases, {len(text)} bytes")


def main(arguments):
    unknown = [a for a in arguments if a not in GROUPS]
    if unknown:
        sys.exit(f"unknown group {unknown[0]!r}; known: {', '.join(GROUPS)}")
    for name in arguments or GROUPS:
        write_group(name, pathlib.Path(__file__).resolve().parent)


if __name__ == "__main__":
    main(sys.argv[1:])
