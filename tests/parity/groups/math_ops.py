"""Reductions, element-wise arithmetic with broadcasting, selection, clipping, matrix products."""

import numpy as np
import tensorflow as tf
import torch

from parity_case import Inputs, run_case


def _reductions():
    result = []
    functions = {
        "Sum": tf.reduce_sum,
        "Mean": tf.reduce_mean,
        "Max": tf.reduce_max,
        "Min": tf.reduce_min,
        "Prod": tf.reduce_prod,
    }
    for kind, function in functions.items():
        for axes, keepdims in (
            ([0], False),
            ([1], True),
            ([0, 2], False),
            ([1, 2], True),
            ([-1], False),
            ([0, 1, 2], False),
        ):
            label = "_".join(str(a) for a in axes).replace("-", "minus_")
            name = f"reduce_{kind.lower()}_axes_{label}" + "_keepdims" * keepdims
            r = Inputs(name)
            x = (
                r.distinct(2, 3, 4)
                if kind in ("Max", "Min")
                else r.floats(2, 3, 4, low=-1.5, high=1.5)
            )
            result.append(
                run_case(
                    name,
                    "tensorflow",
                    "Reduce" + kind,
                    {"axes": axes, "keepdims": keepdims},
                    {"x": x},
                    lambda x, f=function, a=axes, k=keepdims: {"y": f(x, a, k)},
                    ("x",),
                )
            )
    ties = np.array([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [-1.0, -2.0, -1.0, -2.0]])
    for kind in ("Max", "Min"):
        result.append(
            run_case(
                f"reduce_{kind.lower()}_ties",
                "tensorflow",
                "Reduce" + kind,
                {"axes": [1], "keepdims": False},
                {"x": ties},
                lambda x, f=functions[kind]: {"y": f(x, [1])},
                ("x",),
                note="the gradient is split equally between ties",
            )
        )
    zeros = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0], [1.5, -2.0, 0.5]])
    result.append(
        run_case(
            "reduce_prod_zeros",
            "tensorflow",
            "ReduceProd",
            {"axes": [1], "keepdims": False},
            {"x": zeros},
            lambda x: {"y": tf.reduce_prod(x, [1])},
            ("x",),
        )
    )
    for axis in (0, 1, -1):
        x = Inputs(f"argmax_{axis}").floats(4, 5)
        result.append(
            run_case(
                f"argmax_axis_{axis}".replace("-", "minus_"),
                "tensorflow",
                "ArgMax",
                {"axis": axis},
                {"x": x},
                lambda x, a=axis: {"y": tf.argmax(x, a)},
            )
        )
    result.append(
        run_case(
            "argmax_ties",
            "tensorflow",
            "ArgMax",
            {"axis": 1},
            {"x": ties},
            lambda x: {"y": tf.argmax(x, 1)},
            note="the first of equal values",
        )
    )
    return result


def _binary():
    functions = {
        "Add": tf.add,
        "Sub": tf.subtract,
        "Mul": tf.multiply,
        "Div": tf.divide,
        "Maximum": tf.maximum,
        "Minimum": tf.minimum,
    }
    shapes = (([3, 4], [3, 4]), ([3, 4], [4]), ([3, 1, 4], [2, 1]), ([2, 3], []), ([1], [2, 2]))
    result = []
    for op, function in functions.items():
        for a_shape, b_shape in shapes:
            label = lambda s: "x".join(str(v) for v in s) or "scalar"
            name = f"{op.lower()}_{label(a_shape)}_{label(b_shape)}"
            r = Inputs(name)
            b = r.floats(*b_shape, low=0.5, high=2.5) if op == "Div" else r.floats(*b_shape)
            result.append(
                run_case(
                    name,
                    "tensorflow",
                    op,
                    {},
                    {"a": r.floats(*a_shape), "b": b},
                    lambda a, b, f=function: {"y": f(a, b)},
                    ("a", "b"),
                )
            )
    a, b = np.array([1.0, 2.0, 2.0, -1.0]), np.array([1.0, 3.0, 2.0, -2.0])
    for op in ("Maximum", "Minimum"):
        result.append(
            run_case(
                f"{op.lower()}_ties",
                "tensorflow",
                op,
                {},
                {"a": a, "b": b},
                lambda a, b, f=functions[op]: {"y": f(a, b)},
                ("a", "b"),
                note="where a equals b the whole gradient goes to a",
            )
        )
    r = Inputs("pow")
    result.append(
        run_case(
            "pow",
            "tensorflow",
            "Pow",
            {},
            {"a": r.floats(3, 4, low=0.25, high=3), "b": r.floats(4, low=-2, high=3)},
            lambda a, b: {"y": tf.pow(a, b)},
            ("a", "b"),
        )
    )
    result.append(
        run_case(
            "pow_zero_and_negative_base",
            "tensorflow",
            "Pow",
            {},
            {"a": np.array([0.0, -1.5, 2.0, 0.0, -2.0]), "b": np.array([2.0, 2.0, 0.0, 1.0, 3.0])},
            lambda a, b: {"y": tf.pow(a, b)},
            ("a", "b"),
            note="the gradient of b takes log(a) as 0 where a <= 0",
        )
    )
    return result


def _unary():
    r = Inputs("unary")
    positive = np.concatenate([r.floats(8, low=0.1, high=4), [0.015625, 1.0, 100.0]])
    any_sign = np.concatenate([r.floats(8), [0.0, 10.0, -10.0]])
    table = [
        ("Rsqrt", tf.math.rsqrt, positive),
        ("Sqrt", tf.sqrt, positive),
        ("Log", tf.math.log, positive),
        ("Exp", tf.exp, any_sign),
        ("Square", tf.square, any_sign),
        ("Abs", tf.abs, any_sign),
        ("Neg", tf.negative, any_sign),
    ]
    return [
        run_case(op.lower(), "tensorflow", op, {}, {"x": x}, lambda x, f=f: {"y": f(x)}, ("x",))
        for op, f, x in table
    ]


def _clipping():
    x = np.array([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])
    r = Inputs("clip")
    grads = {"a": r.floats(3, 2), "b": r.floats(4)}

    def by_global_norm(norm):
        def run(a, b):
            (ca, cb), total = tf.clip_by_global_norm([a, b], norm)
            return {"a_clipped": ca, "b_clipped": cb, "global_norm": total}

        return run

    return [
        run_case(
            "clip_by_value",
            "tensorflow",
            "Clip",
            {"min": -1.0, "max": 1.0},
            {"x": x},
            lambda x: {"y": tf.clip_by_value(x, -1.0, 1.0)},
            ("x",),
            note="the gradient passes at the bounds themselves",
        ),
        run_case(
            "clip_by_norm",
            "tensorflow",
            "ClipByNorm",
            {"norm": 1.0},
            {"x": x},
            lambda x: {"y": tf.clip_by_norm(x, 1.0)},
        ),
        run_case(
            "clip_by_norm_below",
            "tensorflow",
            "ClipByNorm",
            {"norm": 100.0},
            {"x": x},
            lambda x: {"y": tf.clip_by_norm(x, 100.0)},
        ),
        run_case(
            "clip_by_global_norm",
            "tensorflow",
            "ClipByGlobalNorm",
            {"norm": 1.0},
            grads,
            by_global_norm(1.0),
        ),
        run_case(
            "clip_by_global_norm_below",
            "tensorflow",
            "ClipByGlobalNorm",
            {"norm": 100.0},
            grads,
            by_global_norm(100.0),
        ),
    ]


def _selection():
    r = Inputs("selection")
    condition = r.ints(3, 4, high=2).astype(bool)
    table, indices = r.floats(5, 3), np.array([[4, 0], [2, 4]], dtype=np.int64)
    gather = lambda axis: lambda params, indices: {"y": tf.gather(params, indices, axis=axis)}
    one_hot = lambda on, off: lambda indices: {
        "y": tf.one_hot(indices, 4, on_value=on, off_value=off, dtype=tf.float64)
    }
    return [
        run_case(
            "where",
            "tensorflow",
            "Where",
            {},
            {"condition": condition, "a": r.floats(3, 4), "b": r.floats(3, 4)},
            lambda condition, a, b: {"y": tf.where(condition, a, b)},
            ("a", "b"),
        ),
        run_case(
            "where_broadcast",
            "tensorflow",
            "Where",
            {},
            {"condition": condition[:, :1], "a": r.floats(4), "b": r.floats(3, 4)},
            lambda condition, a, b: {"y": tf.where(condition, a, b)},
            ("a", "b"),
        ),
        run_case(
            "gather_axis_0_repeated",
            "tensorflow",
            "Gather",
            {"axis": 0},
            {"params": table, "indices": indices},
            gather(0),
            ("params",),
        ),
        run_case(
            "gather_axis_1",
            "tensorflow",
            "Gather",
            {"axis": 1},
            {"params": table, "indices": np.array([2, 0, 2, 1], dtype=np.int64)},
            gather(1),
            ("params",),
        ),
        run_case(
            "one_hot",
            "tensorflow",
            "OneHot",
            {"depth": 4, "on_value": 1.0, "off_value": 0.0},
            {"indices": np.array([0, 3, 1, -1, 4], dtype=np.int64)},
            one_hot(1.0, 0.0),
            note="an index outside [0, depth) gives a row of off_value",
        ),
        run_case(
            "one_hot_on_off",
            "tensorflow",
            "OneHot",
            {"depth": 4, "on_value": 0.75, "off_value": -0.25},
            {"indices": np.array([[0, 3], [1, 2]], dtype=np.int64)},
            one_hot(0.75, -0.25),
        ),
    ]


def _matmul():
    result = []
    for batch_a, batch_b in (([], []), ([2], [2]), ([2, 1], [3]), ([3], [1]), ([2], [])):
        for transpose_a in (False, True):
            for transpose_b in (False, True):
                label = lambda s: "x".join(str(v) for v in s) or "none"
                name = (
                    f"matmul_batch_{label(batch_a)}_{label(batch_b)}"
                    + "_ta" * transpose_a
                    + "_tb" * transpose_b
                )
                r = Inputs(name, grid=4)
                a = r.floats(*batch_a, *([5, 3] if transpose_a else [3, 5]))
                b = r.floats(*batch_b, *([4, 5] if transpose_b else [5, 4]))
                result.append(
                    run_case(
                        name,
                        "tensorflow",
                        "MatMul",
                        {"transpose_a": transpose_a, "transpose_b": transpose_b},
                        {"a": a, "b": b},
                        lambda a, b, ta=transpose_a, tb=transpose_b: {"y": tf.matmul(a, b, ta, tb)},
                        ("a", "b"),
                        grid=4,
                        check_with=(
                            "torch",
                            lambda a, b, ta=transpose_a, tb=transpose_b: {
                                "y": torch.matmul(a.mT if ta else a, b.mT if tb else b)
                            },
                        ),
                    )
                )
    return result


def cases():
    return _reductions() + _binary() + _unary() + _clipping() + _selection() + _matmul()
