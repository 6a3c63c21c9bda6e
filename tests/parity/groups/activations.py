"""Activations with gradients, at values that include zero and large ones of both signs."""

import numpy as np
import tensorflow as tf
import torch
import torch.nn.functional as F

from parity_case import Inputs, run_case

_EDGES = np.array(
    [
        0.0,
        1.0,
        -1.0,
        0.015625,
        -0.015625,
        3.0,
        -3.0,
        10.0,
        -10.0,
        40.0,
        -40.0,
        100.0,
        -100.0,
        1000.0,
        -1000.0,
    ]
)


def _both(name, op, attrs, in_tensorflow, in_torch, x, **extra):
    return run_case(
        name,
        "tensorflow",
        op,
        attrs,
        {"x": x},
        lambda x: {"y": in_tensorflow(x)},
        ("x",),
        check_with=("torch", lambda x: {"y": in_torch(x)}),
        **extra
    )


def _torch_first(name, op, attrs, in_torch, in_tensorflow, x, **extra):
    """For ops whose constants TensorFlow holds in float32 even when it computes in float64."""
    return run_case(
        name,
        "torch",
        op,
        attrs,
        {"x": x},
        lambda x: {"y": in_torch(x)},
        ("x",),
        check_with=("tensorflow", lambda x: {"y": in_tensorflow(x)}),
        check_tolerance=1e-7,
        **extra
    )


def cases():
    x = np.concatenate([_EDGES, Inputs("activations").floats(12, low=-4, high=4)])
    matrix = Inputs("softmax").floats(4, 6, low=-4, high=4)
    rank_3 = Inputs("softmax_3").floats(2, 4, 3, low=-4, high=4)
    large = np.array(
        [
            [1000.0, 999.0, -1000.0],
            [0.0, 0.0, 0.0],
            [-1000.0, -1000.0, -1000.0],
            [100.0, -100.0, 50.0],
        ]
    )
    result = [
        _both("relu", "Relu", {}, tf.nn.relu, F.relu, x, note="gradient at 0 is 0"),
        _torch_first(
            "leaky_relu",
            "LeakyRelu",
            {"alpha": 0.2},
            lambda v: F.leaky_relu(v, 0.2),
            lambda v: tf.nn.leaky_relu(v, 0.2),
            x,
            note="gradient at 0 is alpha",
        ),
        _both("elu", "Elu", {"alpha": 1.0}, tf.nn.elu, F.elu, x, note="gradient at 0 is 1"),
        _torch_first(
            "gelu_erf",
            "Gelu",
            {"approximate": False},
            F.gelu,
            lambda v: tf.nn.gelu(v, False),
            x,
            formula="x / 2 * (1 + erf(x / sqrt(2)))",
        ),
        _torch_first(
            "gelu_tanh",
            "Gelu",
            {"approximate": True},
            lambda v: F.gelu(v, approximate="tanh"),
            lambda v: tf.nn.gelu(v, True),
            x,
            formula="x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))",
        ),
        _both("silu", "Silu", {}, tf.nn.silu, F.silu, x),
        _both("sigmoid", "Sigmoid", {}, tf.nn.sigmoid, torch.sigmoid, x),
        _both("tanh", "Tanh", {}, tf.nn.tanh, torch.tanh, x),
        # PyTorch switches to the identity above a threshold, hence its tolerance.
        _both("softplus", "Softplus", {}, tf.nn.softplus, lambda v: F.softplus(v, threshold=40), x),
    ]
    for suffix, values, axis in (
        ("", matrix, -1),
        ("_axis_1_of_3", rank_3, 1),
        ("_large", large, -1),
    ):
        result.append(
            _both(
                "softmax" + suffix,
                "Softmax",
                {"axis": axis},
                lambda v, a=axis: tf.nn.softmax(v, a),
                lambda v, a=axis: F.softmax(v, a),
                values,
            )
        )
        result.append(
            _both(
                "log_softmax" + suffix,
                "LogSoftmax",
                {"axis": axis},
                lambda v, a=axis: tf.nn.log_softmax(v, a),
                lambda v, a=axis: F.log_softmax(v, a),
                values,
            )
        )
    return result
