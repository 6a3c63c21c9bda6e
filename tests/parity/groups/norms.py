"""Normalisations: batch (training and inference), layer and group norm, with gradients."""

import numpy as np
import tensorflow as tf
import torch
import torch.nn.functional as F

from parity_case import Inputs, run_case

_BATCH_NORM_TRAINING = (
    "mean and biased variance over all axes but channels; y = (x - mean) / sqrt(var + epsilon) * "
    "scale + offset; moving_mean = momentum * moving_mean + (1 - momentum) * mean; moving_variance "
    "likewise, with the UNBIASED variance (var * n / (n - 1))"
)


def _to_nhwc(x, data_format):
    return x if data_format == "NHWC" else tf.transpose(x, [0, 2, 3, 1])


def _from_nhwc(y, data_format):
    return y if data_format == "NHWC" else tf.transpose(y, [0, 3, 1, 2])


def _batch_norm_training(name, shape_nhwc, data_format, epsilon=1e-3, momentum=0.99):
    r = Inputs(name)
    channels = shape_nhwc[3]
    shape = shape_nhwc if data_format == "NHWC" else [shape_nhwc[i] for i in (0, 3, 1, 2)]
    inputs = {
        "x": r.floats(*shape),
        "scale": r.floats(channels, low=0.5, high=2),
        "offset": r.floats(channels),
        "moving_mean": r.floats(channels),
        "moving_variance": r.floats(channels, low=0.5, high=2),
    }

    def in_tensorflow(x, scale, offset, moving_mean, moving_variance):
        x_nhwc = _to_nhwc(x, data_format)
        # The op is asked for the moving averages; the batch statistics come from tf.nn.moments.
        result = tf.raw_ops.FusedBatchNormV3(
            x=x_nhwc,
            scale=scale,
            offset=offset,
            mean=moving_mean,
            variance=moving_variance,
            epsilon=epsilon,
            exponential_avg_factor=1 - momentum,
            is_training=True,
        )
        mean, variance = tf.nn.moments(x_nhwc, [0, 1, 2])
        return {
            "y": _from_nhwc(result.y, data_format),
            "batch_mean": mean,
            "batch_variance": variance,
            "moving_mean": result.batch_mean,
            "moving_variance": result.batch_variance,
        }

    def in_torch(x, scale, offset, moving_mean, moving_variance):
        x_nchw = x.permute(0, 3, 1, 2) if data_format == "NHWC" else x
        mean, variance = moving_mean.clone(), moving_variance.clone()
        y = F.batch_norm(x_nchw, mean, variance, scale, offset, True, 1 - momentum, epsilon)
        return {
            "y": y.permute(0, 2, 3, 1) if data_format == "NHWC" else y,
            "moving_mean": mean,
            "moving_variance": variance,
        }

    return run_case(
        name,
        "tensorflow",
        "BatchNorm",
        {
            "epsilon": epsilon,
            "momentum": momentum,
            "training": True,
            "data_format": data_format,
            "moving_variance": "unbiased",
        },
        inputs,
        in_tensorflow,
        ("x", "scale", "offset"),
        dtype="float32",
        check_with=("torch", in_torch),
        check_tolerance=1e-5,
        formula=_BATCH_NORM_TRAINING,
    )


def _batch_norm_inference(name, shape_nhwc, data_format, epsilon=1e-3):
    r = Inputs(name)
    channels = shape_nhwc[3]
    shape = shape_nhwc if data_format == "NHWC" else [shape_nhwc[i] for i in (0, 3, 1, 2)]
    inputs = {
        "x": r.floats(*shape),
        "scale": r.floats(channels, low=0.5, high=2),
        "offset": r.floats(channels),
        "moving_mean": r.floats(channels),
        "moving_variance": r.floats(channels, low=0.5, high=2),
    }

    def in_tensorflow(x, scale, offset, moving_mean, moving_variance):
        result = tf.raw_ops.FusedBatchNormV3(
            x=_to_nhwc(x, data_format),
            scale=scale,
            offset=offset,
            mean=moving_mean,
            variance=moving_variance,
            epsilon=epsilon,
            is_training=False,
        )
        return {"y": _from_nhwc(result.y, data_format)}

    def in_torch(x, scale, offset, moving_mean, moving_variance):
        x_nchw = x.permute(0, 3, 1, 2) if data_format == "NHWC" else x
        y = F.batch_norm(x_nchw, moving_mean, moving_variance, scale, offset, False, 0.0, epsilon)
        return {"y": y.permute(0, 2, 3, 1) if data_format == "NHWC" else y}

    return run_case(
        name,
        "tensorflow",
        "BatchNorm",
        {"epsilon": epsilon, "training": False, "data_format": data_format},
        inputs,
        in_tensorflow,
        ("x", "scale", "offset"),
        dtype="float32",
        check_with=("torch", in_torch),
        check_tolerance=1e-5,
        formula="y = (x - moving_mean) / sqrt(moving_variance + epsilon) * scale + offset",
    )


def _layer_norm(name, shape, axes, epsilon):
    r = Inputs(name)
    normalized = list(shape[-axes:])
    inputs = {
        "x": r.floats(*shape),
        "scale": r.floats(*normalized, low=0.5, high=2),
        "offset": r.floats(*normalized),
    }

    def in_tensorflow(x, scale, offset):
        mean, variance = tf.nn.moments(x, list(range(-axes, 0)), keepdims=True)
        return {"y": tf.nn.batch_normalization(x, mean, variance, offset, scale, epsilon)}

    return run_case(
        name,
        "torch",
        "LayerNorm",
        {"axes": list(range(len(shape) - axes, len(shape))), "epsilon": epsilon},
        inputs,
        lambda x, scale, offset: {"y": F.layer_norm(x, normalized, scale, offset, epsilon)},
        ("x", "scale", "offset"),
        check_with=("tensorflow", in_tensorflow),
        formula="mean and biased variance over axes; y = (x - mean) / sqrt(var + epsilon) * "
        "scale + offset",
    )


def _group_norm(name, shape_nhwc, groups, data_format, epsilon):
    r = Inputs(name)
    channels = shape_nhwc[3]
    shape = shape_nhwc if data_format == "NHWC" else [shape_nhwc[i] for i in (0, 3, 1, 2)]
    inputs = {
        "x": r.floats(*shape),
        "scale": r.floats(channels, low=0.5, high=2),
        "offset": r.floats(channels),
    }

    def in_torch(x, scale, offset):
        x_nchw = x.permute(0, 3, 1, 2) if data_format == "NHWC" else x
        y = F.group_norm(x_nchw, groups, scale, offset, epsilon)
        return {"y": y.permute(0, 2, 3, 1) if data_format == "NHWC" else y}

    def in_tensorflow(x, scale, offset):
        x_nhwc = _to_nhwc(x, data_format)
        n, h, w, c = shape_nhwc
        split = tf.reshape(x_nhwc, [n, h, w, groups, c // groups])
        mean, variance = tf.nn.moments(split, [1, 2, 4], keepdims=True)
        normal = tf.reshape((split - mean) * tf.math.rsqrt(variance + epsilon), [n, h, w, c])
        return {"y": _from_nhwc(normal * scale + offset, data_format)}

    return run_case(
        name,
        "torch",
        "GroupNorm",
        {"groups": groups, "epsilon": epsilon, "data_format": data_format},
        inputs,
        in_torch,
        ("x", "scale", "offset"),
        check_with=("tensorflow", in_tensorflow),
        formula="channels fall into `groups` consecutive groups; mean and biased variance over a "
        "sample's positions and the channels of a group",
    )


def cases():
    return [
        _batch_norm_training("batch_norm_training_nhwc", [3, 2, 3, 4], "NHWC"),
        _batch_norm_training("batch_norm_training_nchw", [3, 2, 3, 4], "NCHW"),
        _batch_norm_training("batch_norm_training_momentum_09", [4, 1, 1, 3], "NHWC", 1e-5, 0.9),
        _batch_norm_inference("batch_norm_inference_nhwc", [2, 2, 3, 3], "NHWC"),
        _batch_norm_inference("batch_norm_inference_nchw", [2, 2, 3, 3], "NCHW"),
        _layer_norm("layer_norm_last_axis", [4, 6], 1, 1e-3),
        _layer_norm("layer_norm_last_axis_rank_3", [2, 3, 8], 1, 1e-5),
        _layer_norm("layer_norm_last_two_axes", [3, 4, 5], 2, 1e-3),
        _group_norm("group_norm_nhwc", [2, 2, 3, 6], 2, "NHWC", 1e-3),
        _group_norm("group_norm_nchw", [2, 2, 3, 6], 3, "NCHW", 1e-5),
    ]
