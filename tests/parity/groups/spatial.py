"""Padding arithmetic and layout helpers shared by the pooling and convolution groups."""

import tensorflow as tf


def resolve_padding(padding, sizes, kernel, strides, dilations=(1, 1), explicit=None):
    """[(top, bottom), (left, right)] by TensorFlow's rule: the odd element at the bottom/right."""
    if padding == "VALID":
        return [(0, 0), (0, 0)]
    if padding == "EXPLICIT":
        return [tuple(explicit[:2]), tuple(explicit[2:])]
    result = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations):
        total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        result.append((total // 2, total - total // 2))
    return result


def tensorflow_padding(padding, explicit):
    if padding != "EXPLICIT":
        return padding
    return [[0, 0], list(explicit[:2]), list(explicit[2:]), [0, 0]]


def order(shape_nhwc, data_format):
    return list(shape_nhwc) if data_format == "NHWC" else [shape_nhwc[i] for i in (0, 3, 1, 2)]


def tf_to_nhwc(x, data_format):
    return x if data_format == "NHWC" else tf.transpose(x, [0, 2, 3, 1])


def tf_from_nhwc(y, data_format):
    return y if data_format == "NHWC" else tf.transpose(y, [0, 3, 1, 2])


def torch_to_nchw(x, data_format):
    return x.permute(0, 3, 1, 2) if data_format == "NHWC" else x


def torch_from_nchw(y, data_format):
    return y.permute(0, 2, 3, 1) if data_format == "NHWC" else y
