"""Pooling: SAME, VALID and explicit padding, both border rules of the average, with gradients."""

import numpy as np
import tensorflow as tf
import torch
import torch.nn.functional as F

from groups import spatial
from parity_case import Inputs, run_case

_GRID = 4


def _attrs(kernel, strides, padding, data_format, explicit, **extra):
    attrs = {
        "ksize": kernel,
        "strides": strides,
        "padding": padding,
        "data_format": data_format,
        **extra,
    }
    if explicit is not None:
        attrs["explicit_paddings"] = explicit
    return attrs


def _torch_pad(x, pads, value):
    (top, bottom), (left, right) = pads
    return F.pad(x, (left, right, top, bottom), value=value)


def max_pool(
    name, shape_nhwc, kernel, strides, padding, data_format="NHWC", explicit=None, ties=False
):
    r = Inputs(name, _GRID)
    shape = spatial.order(shape_nhwc, data_format)
    x = r.ints(*shape, low=0, high=3) * 0.5 if ties else r.distinct(*shape)
    pads = spatial.resolve_padding(padding, shape_nhwc[1:3], kernel, strides, explicit=explicit)

    def in_tensorflow(x):
        y = tf.nn.max_pool2d(
            spatial.tf_to_nhwc(x, data_format),
            kernel,
            strides,
            spatial.tensorflow_padding(padding, explicit),
        )
        return {"y": spatial.tf_from_nhwc(y, data_format)}

    def in_torch(x):
        padded = _torch_pad(spatial.torch_to_nchw(x, data_format), pads, float("-inf"))
        return {"y": spatial.torch_from_nchw(F.max_pool2d(padded, kernel, strides), data_format)}

    return run_case(
        name,
        "tensorflow",
        "MaxPool",
        _attrs(kernel, strides, padding, data_format, explicit),
        {"x": x},
        in_tensorflow,
        ("x",),
        check_with=("torch", in_torch),
        grid=_GRID,
        formula="padding never wins; the gradient goes to the first maximum of a window in row-"
        "major order",
    )


def avg_pool(
    name, shape_nhwc, kernel, strides, padding, include_pad, data_format="NHWC", explicit=None
):
    x = Inputs(name, _GRID).floats(*spatial.order(shape_nhwc, data_format))
    pads = spatial.resolve_padding(padding, shape_nhwc[1:3], kernel, strides, explicit=explicit)

    def in_tensorflow(x):
        y = tf.nn.avg_pool2d(spatial.tf_to_nhwc(x, data_format), kernel, strides, padding)
        return {"y": spatial.tf_from_nhwc(y, data_format)}

    def in_torch(x):
        nchw = spatial.torch_to_nchw(x, data_format)
        y = F.avg_pool2d(_torch_pad(nchw, pads, 0.0), kernel, strides)
        if not include_pad:
            y = y / F.avg_pool2d(_torch_pad(torch.ones_like(nchw), pads, 0.0), kernel, strides)
        return {"y": spatial.torch_from_nchw(y, data_format)}

    def in_torch_directly(x):
        nchw = spatial.torch_to_nchw(x, data_format)
        y = F.avg_pool2d(
            nchw, kernel, strides, padding=(pads[0][0], pads[1][0]), count_include_pad=include_pad
        )
        return {"y": spatial.torch_from_nchw(y, data_format)}

    native = padding != "EXPLICIT" and (not include_pad or padding == "VALID")
    symmetric = all(a == b and 2 * a <= k for (a, b), k in zip(pads, kernel))
    check = in_torch if native else in_torch_directly if symmetric else None
    return run_case(
        name,
        "tensorflow" if native else "torch",
        "AvgPool",
        _attrs(kernel, strides, padding, data_format, explicit, count_include_pad=include_pad),
        {"x": x},
        in_tensorflow if native else in_torch,
        ("x",),
        check_with=("torch", check) if check else None,
        grid=_GRID,
        formula="sum of the window / window size (count_include_pad) or / elements of the window "
        "that lie inside the input",
    )


def global_avg_pool(name, shape_nhwc, data_format):
    axes = [1, 2] if data_format == "NHWC" else [2, 3]
    x = Inputs(name, _GRID).floats(*spatial.order(shape_nhwc, data_format))
    return run_case(
        name,
        "tensorflow",
        "GlobalAveragePool",
        {"data_format": data_format, "keepdims": False},
        {"x": x},
        lambda x: {"y": tf.reduce_mean(x, axes)},
        ("x",),
        check_with=("torch", lambda x: {"y": x.mean(axes)}),
        grid=_GRID,
        formula="mean over height and width; y is [batch, channels]",
    )


def cases():
    result = [
        max_pool("maxpool_valid_2x2_s2", [2, 6, 6, 2], [2, 2], [2, 2], "VALID"),
        max_pool("maxpool_valid_2x2_s2_odd", [1, 5, 7, 3], [2, 2], [2, 2], "VALID"),
        max_pool("maxpool_same_2x2_s2_odd", [1, 5, 7, 3], [2, 2], [2, 2], "SAME"),
        max_pool("maxpool_same_3x3_s1", [2, 4, 5, 2], [3, 3], [1, 1], "SAME"),
        max_pool("maxpool_same_3x3_s2", [2, 5, 6, 2], [3, 3], [2, 2], "SAME"),
        max_pool("maxpool_same_3x3_s3", [1, 7, 8, 2], [3, 3], [3, 3], "SAME"),
        max_pool("maxpool_same_2x2_s3_gap", [1, 8, 7, 3], [2, 2], [3, 3], "SAME"),
        max_pool("maxpool_same_2x3_s1x2", [1, 5, 8, 3], [2, 3], [1, 2], "SAME"),
        max_pool(
            "maxpool_explicit_3x3_s2",
            [1, 6, 6, 2],
            [3, 3],
            [2, 2],
            "EXPLICIT",
            explicit=[1, 1, 1, 1],
        ),
        max_pool(
            "maxpool_explicit_asymmetric",
            [1, 5, 6, 2],
            [3, 3],
            [2, 2],
            "EXPLICIT",
            explicit=[0, 1, 2, 1],
        ),
        max_pool("maxpool_ties", [1, 6, 6, 2], [3, 3], [2, 2], "VALID", ties=True),
        max_pool("maxpool_nchw_same_3x3_s2", [2, 5, 6, 2], [3, 3], [2, 2], "SAME", "NCHW"),
        max_pool(
            "maxpool_nchw_explicit_3x3_s2",
            [1, 7, 6, 3],
            [3, 3],
            [2, 2],
            "EXPLICIT",
            "NCHW",
            [1, 1, 1, 1],
        ),
        global_avg_pool("global_average_pool_nhwc", [2, 3, 5, 4], "NHWC"),
        global_avg_pool("global_average_pool_nchw", [2, 3, 5, 4], "NCHW"),
    ]
    for include_pad in (False, True):
        rule = "_include_pad" if include_pad else ""
        result += [
            avg_pool(
                "avgpool_valid_2x2_s2_odd" + rule,
                [1, 5, 7, 3],
                [2, 2],
                [2, 2],
                "VALID",
                include_pad,
            ),
            avg_pool(
                "avgpool_same_2x2_s2_odd" + rule, [1, 5, 7, 3], [2, 2], [2, 2], "SAME", include_pad
            ),
            avg_pool(
                "avgpool_same_3x3_s1" + rule, [2, 4, 5, 2], [3, 3], [1, 1], "SAME", include_pad
            ),
            avg_pool(
                "avgpool_same_3x3_s2" + rule, [2, 5, 6, 2], [3, 3], [2, 2], "SAME", include_pad
            ),
            avg_pool(
                "avgpool_same_3x3_s3" + rule, [1, 7, 8, 2], [3, 3], [3, 3], "SAME", include_pad
            ),
            avg_pool(
                "avgpool_explicit_3x3_s2" + rule,
                [1, 6, 6, 2],
                [3, 3],
                [2, 2],
                "EXPLICIT",
                include_pad,
                explicit=[1, 1, 1, 1],
            ),
            avg_pool(
                "avgpool_explicit_asymmetric" + rule,
                [1, 5, 6, 2],
                [3, 3],
                [2, 2],
                "EXPLICIT",
                include_pad,
                explicit=[0, 1, 2, 1],
            ),
            avg_pool(
                "avgpool_nchw_same_3x3_s2" + rule,
                [2, 5, 6, 2],
                [3, 3],
                [2, 2],
                "SAME",
                include_pad,
                "NCHW",
            ),
        ]
    return result
