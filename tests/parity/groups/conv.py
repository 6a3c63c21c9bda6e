"""Convolutions: filters are [kh, kw, in / groups, out] for both data formats, with gradients."""

import tensorflow as tf
import torch.nn.functional as F

from groups import spatial
from parity_case import Inputs, run_case

_GRID = 4  # Sums of products of such inputs have few digits, which keeps the file small.


def _torch_conv(x, filter, strides, pads, dilations, groups, data_format):
    (top, bottom), (left, right) = pads
    padded = F.pad(spatial.torch_to_nchw(x, data_format), (left, right, top, bottom))
    y = F.conv2d(padded, filter.permute(3, 2, 0, 1), None, strides, 0, dilations, groups)
    return spatial.torch_from_nchw(y, data_format)


def conv(
    name,
    shape_nhwc,
    kernel,
    out,
    strides,
    padding,
    data_format="NHWC",
    dilations=(1, 1),
    groups=1,
    explicit=None,
):
    r = Inputs(name, _GRID)
    channels = shape_nhwc[3]
    inputs = {
        "x": r.floats(*spatial.order(shape_nhwc, data_format)),
        "filter": r.floats(*kernel, channels // groups, out, low=-1, high=1),
    }
    pads = spatial.resolve_padding(padding, shape_nhwc[1:3], kernel, strides, dilations, explicit)
    attrs = {
        "strides": list(strides),
        "padding": padding,
        "data_format": data_format,
        "dilations": list(dilations),
        "groups": groups,
    }
    if explicit is not None:
        attrs["explicit_paddings"] = explicit

    def in_torch(x, filter):
        return {"y": _torch_conv(x, filter, strides, pads, dilations, groups, data_format)}

    def in_tensorflow(x, filter):
        x_nhwc = spatial.tf_to_nhwc(x, data_format)
        y = tf.nn.conv2d(x_nhwc, filter, strides, spatial.tensorflow_padding(padding, explicit))
        return {"y": spatial.tf_from_nhwc(y, data_format)}

    def in_tensorflow_depthwise(x, filter):
        kh, kw, _, out_channels = filter.shape
        by_channel = tf.reshape(filter, [kh, kw, channels, out_channels // channels])
        y = tf.nn.depthwise_conv2d(
            spatial.tf_to_nhwc(x, data_format),
            by_channel,
            [1, *strides, 1],
            spatial.tensorflow_padding(padding, explicit),
        )
        return {"y": spatial.tf_from_nhwc(y, data_format)}

    # TensorFlow's CPU kernels have no gradient for dilated and grouped convolutions in float64.
    plain = tuple(dilations) == (1, 1)
    native = in_tensorflow if plain and groups == 1 else None
    if plain and groups > 1 and groups == channels:
        native = in_tensorflow_depthwise
    return run_case(
        name,
        "tensorflow" if native else "torch",
        "Conv2D",
        attrs,
        inputs,
        native or in_torch,
        ("x", "filter"),
        check_with=("torch", in_torch) if native else None,
        grid=_GRID,
    )


def conv_transpose(
    name, shape_nhwc, kernel, out, strides, padding, output_size, data_format="NHWC"
):
    """filter is [kh, kw, out, in]; output_size is [height, width]."""
    r = Inputs(name, _GRID)
    batch, channels = shape_nhwc[0], shape_nhwc[3]
    inputs = {
        "x": r.floats(*spatial.order(shape_nhwc, data_format)),
        "filter": r.floats(*kernel, out, channels, low=-1, high=1),
    }
    # The transpose of the forward convolution that maps output_size to x's size.
    pads = spatial.resolve_padding(padding, output_size, kernel, strides)

    def in_tensorflow(x, filter):
        y = tf.nn.conv2d_transpose(
            spatial.tf_to_nhwc(x, data_format), filter, [batch, *output_size, out], strides, padding
        )
        return {"y": spatial.tf_from_nhwc(y, data_format)}

    def in_torch(x, filter):
        full = F.conv_transpose2d(
            spatial.torch_to_nchw(x, data_format), filter.permute(3, 2, 0, 1), None, strides
        )
        (top, _), (left, _) = pads
        height, width = output_size
        missing = (max(0, top + height - full.shape[2]), max(0, left + width - full.shape[3]))
        full = F.pad(full, (0, missing[1], 0, missing[0]))
        y = full[:, :, top : top + height, left : left + width]
        return {"y": spatial.torch_from_nchw(y, data_format)}

    return run_case(
        name,
        "tensorflow",
        "Conv2DTranspose",
        {
            "strides": list(strides),
            "padding": padding,
            "data_format": data_format,
            "output_size": list(output_size),
        },
        inputs,
        in_tensorflow,
        ("x", "filter"),
        check_with=("torch", in_torch),
        grid=_GRID,
        formula="the input gradient of the Conv2D with the same filter, strides and padding that "
        "maps output_size to x's size",
    )


def cases():
    one, two = (1, 1), (2, 2)
    return [
        conv("conv_same_3x3_s1", [2, 5, 6, 3], [3, 3], 4, one, "SAME"),
        conv("conv_same_3x3_s2_even", [1, 6, 8, 2], [3, 3], 4, two, "SAME"),
        conv("conv_same_3x3_s2_odd", [1, 5, 7, 3], [3, 3], 4, two, "SAME"),
        conv("conv_same_2x2_s1", [1, 5, 4, 3], [2, 2], 4, one, "SAME"),
        conv("conv_same_7x7_s2", [1, 7, 8, 2], [7, 7], 2, two, "SAME"),
        conv("conv_same_2x3_s1x2", [1, 5, 8, 3], [2, 3], 4, (1, 2), "SAME"),
        conv("conv_valid_3x3_s1", [1, 5, 6, 3], [3, 3], 4, one, "VALID"),
        conv("conv_valid_3x3_s2", [1, 6, 7, 4], [3, 3], 4, two, "VALID"),
        conv("conv_valid_5x5_s1", [1, 6, 7, 3], [5, 5], 2, one, "VALID"),
        conv("conv_same_5x5_s1", [1, 5, 6, 2], [5, 5], 3, one, "SAME"),
        conv("conv_1x1_s1", [2, 3, 4, 5], [1, 1], 6, one, "VALID"),
        conv("conv_1x1_s2", [1, 5, 6, 5], [1, 1], 6, two, "SAME"),
        conv(
            "conv_explicit_symmetric",
            [1, 5, 6, 3],
            [3, 3],
            4,
            two,
            "EXPLICIT",
            explicit=[1, 1, 1, 1],
        ),
        conv(
            "conv_explicit_asymmetric",
            [1, 5, 6, 3],
            [3, 3],
            4,
            one,
            "EXPLICIT",
            explicit=[0, 1, 2, 1],
        ),
        conv("conv_same_3x3_d2", [1, 7, 6, 2], [3, 3], 3, one, "SAME", dilations=two),
        conv("conv_valid_3x3_d2", [1, 7, 8, 2], [3, 3], 3, one, "VALID", dilations=two),
        conv("conv_groups_2", [1, 5, 6, 4], [3, 3], 6, one, "SAME", groups=2),
        conv("conv_groups_2_s2", [1, 6, 6, 4], [3, 3], 6, two, "VALID", groups=2),
        conv("conv_depthwise", [1, 6, 5, 4], [3, 3], 4, one, "SAME", groups=4),
        conv("conv_depthwise_s2", [1, 6, 6, 4], [3, 3], 4, two, "SAME", groups=4),
        conv("conv_depthwise_multiplier_2", [1, 5, 5, 3], [3, 3], 6, one, "VALID", groups=3),
        conv("conv_nchw_same_3x3_s1", [1, 5, 6, 3], [3, 3], 4, one, "SAME", "NCHW"),
        conv("conv_nchw_same_3x3_s2", [1, 6, 7, 3], [3, 3], 4, two, "SAME", "NCHW"),
        conv(
            "conv_nchw_explicit_asymmetric",
            [1, 5, 6, 3],
            [3, 3],
            4,
            one,
            "EXPLICIT",
            "NCHW",
            explicit=[0, 1, 2, 1],
        ),
        conv("conv_nchw_groups_2", [1, 5, 6, 4], [3, 3], 6, one, "SAME", "NCHW", groups=2),
        conv(
            "conv_nchw_depthwise_multiplier_2",
            [1, 5, 5, 3],
            [3, 3],
            6,
            one,
            "SAME",
            "NCHW",
            groups=3,
        ),
        conv_transpose("conv_transpose_same_3x3_s2", [1, 3, 4, 3], [3, 3], 4, two, "SAME", [6, 8]),
        conv_transpose(
            "conv_transpose_same_3x3_s2_odd", [1, 3, 4, 3], [3, 3], 4, two, "SAME", [5, 7]
        ),
        conv_transpose(
            "conv_transpose_valid_3x3_s2", [1, 3, 4, 3], [3, 3], 2, two, "VALID", [7, 9]
        ),
        conv_transpose(
            "conv_transpose_valid_3x3_s2_larger", [1, 3, 4, 3], [3, 3], 2, two, "VALID", [8, 10]
        ),
        conv_transpose("conv_transpose_same_2x2_s2", [2, 3, 2, 3], [2, 2], 4, two, "SAME", [6, 4]),
        conv_transpose("conv_transpose_same_3x3_s1", [1, 4, 5, 3], [3, 3], 4, one, "SAME", [4, 5]),
        conv_transpose(
            "conv_transpose_nchw_same_3x3_s2", [1, 3, 4, 3], [3, 3], 4, two, "SAME", [6, 8], "NCHW"
        ),
    ]
