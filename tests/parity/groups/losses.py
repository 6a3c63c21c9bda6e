"""Losses: one value a sample (or an element where attrs.reduction is "none"), with gradients."""

import numpy as np
import tensorflow as tf
import torch.nn.functional as F

from parity_case import Inputs, run_case


def _dense(name, logits, labels, smoothing=0.0, wrt=("logits",)):
    def in_tensorflow(logits, labels):
        loss = tf.keras.losses.categorical_crossentropy(
            labels, logits, from_logits=True, label_smoothing=smoothing
        )
        if smoothing == 0.0:
            loss = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return {"loss": loss}

    def in_torch(logits, labels):
        return {
            "loss": F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="none")
        }

    return run_case(
        name,
        "tensorflow",
        "SoftmaxCrossEntropyWithLogits",
        {"label_smoothing": smoothing},
        {"logits": logits, "labels": labels},
        in_tensorflow,
        wrt,
        ("loss",),
        check_with=("torch", in_torch),
        formula="q = labels * (1 - s) + s / classes; loss_i = -sum_c q_ic * log_softmax(x_i)_c",
    )


def _sparse(name, logits, labels, smoothing=0.0, ignored=None, reduction="none"):
    def in_tensorflow(logits, labels):
        return {
            "loss": tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        }

    def in_torch(logits, labels):
        return {
            "loss": F.cross_entropy(
                logits,
                labels,
                ignore_index=-100 if ignored is None else ignored,
                label_smoothing=smoothing,
                reduction="mean" if reduction != "none" else "none",
            )
        }

    attrs = {"label_smoothing": smoothing, "reduction": reduction}
    if ignored is not None:
        attrs["ignored_label"] = ignored
    plain = smoothing == 0.0 and ignored is None and reduction == "none"
    return run_case(
        name,
        "tensorflow" if plain else "torch",
        "SparseSoftmaxCrossEntropyWithLogits",
        attrs,
        {"logits": logits, "labels": labels},
        in_tensorflow if plain else in_torch,
        ("logits",),
        ("loss",),
        check_with=("torch", in_torch) if plain else None,
        formula="as SoftmaxCrossEntropyWithLogits with one-hot labels; an ignored label has loss 0 "
        "and gradient 0; mean_over_not_ignored = sum(loss) / count(labels != ignored_label)",
    )


def _sigmoid(name, logits, labels):
    return run_case(
        name,
        "tensorflow",
        "SigmoidCrossEntropyWithLogits",
        {"reduction": "none"},
        {"logits": logits, "labels": labels},
        lambda logits, labels: {"loss": tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)},
        ("logits",),
        ("loss",),
        check_with=(
            "torch",
            lambda logits, labels: {
                "loss": F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
            },
        ),
        formula="loss = max(x, 0) - x * z + log(1 + exp(-|x|))",
    )


def _keras(loss_class, **options):
    return loss_class(reduction=None, dtype="float64", **options)


def _regression(name, op, attrs, predictions, labels, in_torch, in_tensorflow, formula):
    """`in_torch` is element-wise; `in_tensorflow` the mean over the last axis."""
    inputs = {"predictions": predictions, "labels": labels}
    both = ("predictions", "labels")
    return [
        run_case(
            name + "_elementwise",
            "torch",
            op,
            {**attrs, "reduction": "none"},
            inputs,
            lambda predictions, labels: {"loss": in_torch(predictions, labels)},
            both,
            ("loss",),
            formula=formula,
        ),
        run_case(
            name + "_per_sample",
            "tensorflow",
            op,
            {**attrs, "reduction": "mean_last_axis"},
            inputs,
            lambda predictions, labels: {"loss": in_tensorflow(labels, predictions)},
            both,
            ("loss",),
            check_with=(
                "torch",
                lambda predictions, labels: {"loss": in_torch(predictions, labels).mean(-1)},
            ),
            check_tolerance=1e-6,
            formula="mean over the last axis of: " + formula,
        ),
    ]


def cases():
    r = Inputs("losses")
    logits = r.floats(5, 7, low=-4, high=4)
    large = np.array([[100.0, -100.0, 0.0], [1000.0, 999.0, -1000.0], [0.0, 0.0, 0.0]])
    dense = r.probabilities(5, 7)
    sparse = np.array([3, 0, 6, 2, 2], dtype=np.int64)
    with_ignored = np.array([3, -1, 6, -1, 2], dtype=np.int64)
    result = [
        _dense("softmax_cross_entropy", logits, dense),
        _dense("softmax_cross_entropy_one_hot", logits, np.eye(7)[sparse]),
        _dense("softmax_cross_entropy_label_gradient", logits, dense, wrt=("logits", "labels")),
        _dense("softmax_cross_entropy_smoothing", logits, dense, smoothing=0.1),
        _dense("softmax_cross_entropy_large_logits", large, np.eye(3)),
        _sparse("sparse_softmax_cross_entropy", logits, sparse),
        _sparse(
            "sparse_softmax_cross_entropy_large_logits", large, np.array([1, 0, 2], dtype=np.int64)
        ),
        _sparse("sparse_softmax_cross_entropy_smoothing", logits, sparse, smoothing=0.1),
        _sparse("sparse_softmax_cross_entropy_ignored", logits, with_ignored, ignored=-1),
        _sparse("sparse_softmax_cross_entropy_ignored_smoothing", logits, with_ignored, 0.1, -1),
        _sparse(
            "sparse_softmax_cross_entropy_ignored_mean",
            logits,
            with_ignored,
            ignored=-1,
            reduction="mean_over_not_ignored",
        ),
        _sigmoid("sigmoid_cross_entropy", r.floats(4, 5), r.floats(4, 5, low=0, high=1)),
        _sigmoid(
            "sigmoid_cross_entropy_large_logits",
            np.array([100.0, -100.0, 0.0, 1000.0, -1000.0]),
            np.array([0.0, 1.0, 0.5, 1.0, 0.0]),
        ),
    ]
    predictions, labels = r.floats(4, 6), r.floats(4, 6)
    labels[0, 0] = predictions[0, 0]
    labels[1, 1], labels[2, 2] = predictions[1, 1] + 1.0, predictions[2, 2] - 0.5
    result += _regression(
        "mse",
        "MSE",
        {},
        predictions,
        labels,
        lambda p, l: F.mse_loss(p, l, reduction="none"),
        _keras(tf.keras.losses.MeanSquaredError),
        "(predictions - labels)^2",
    )
    for delta in (1.0, 0.5):
        result += _regression(
            f"huber_delta_{delta}",
            "Huber",
            {"delta": delta},
            predictions,
            labels,
            lambda p, l, d=delta: F.huber_loss(p, l, reduction="none", delta=d),
            _keras(tf.keras.losses.Huber, delta=delta),
            "e = predictions - labels; |e| <= delta ? e^2 / 2 : delta * (|e| - delta / 2)",
        )
    return result
