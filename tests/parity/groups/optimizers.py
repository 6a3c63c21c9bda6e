"""Optimizers: five steps with a changing rate; parameter and slots after each step."""

import numpy as np
import tensorflow as tf
import torch

from parity_case import Inputs, plain_case

RATES = [0.1, 0.05, 0.2, 0.01, 0.1]


def _start():
    r = Inputs("optimizers")
    grads = r.floats(5, 10)
    grads[:, 4] = 0.0
    grads[2:4, 7] = 0.0
    return r.floats(10), grads


def _case(name, framework, op, attrs, step, slots, formula, start=None, **extra):
    """`step(var, slots, grad, rate, t)` advances float64 arrays; t counts from 1."""
    var, grads = _start() if start is None else start
    inputs = {"param": var, "grads": grads, "learning_rates": np.array(RATES)}
    state = {k: np.full(var.shape, v) for k, v in slots.items()}
    history = {"param": [], **{k: [] for k in slots}}
    for t, (grad, rate) in enumerate(zip(grads, RATES), start=1):
        var, state = step(var, state, grad, rate, t)
        history["param"].append(var)
        for key, value in state.items():
            history[key].append(value)
    attrs = {**attrs, **{"initial_" + k: v for k, v in slots.items()}}
    return plain_case(
        name,
        framework,
        op,
        attrs,
        inputs,
        {k: np.stack(v) for k, v in history.items()},
        computed_in="float64",
        formula=formula,
        **extra
    )


def _with_variables(apply):
    """Wraps a tf.raw_ops.ResourceApply* call that updates resource variables in place."""

    def step(var, state, grad, rate, t):
        variables = {"var": tf.Variable(var, dtype="float64")}
        variables.update({k: tf.Variable(v, dtype="float64") for k, v in state.items()})
        f64 = lambda value: tf.constant(value, "float64")
        apply({k: v.handle for k, v in variables.items()}, f64, f64(grad), f64(rate), t)
        return variables["var"].numpy(), {k: variables[k].numpy() for k in state}

    return step


def _simple_cases():
    raw = tf.raw_ops

    def descent(h, f64, g, lr, t):
        raw.ResourceApplyGradientDescent(var=h["var"], alpha=lr, delta=g)

    def momentum(nesterov):
        def apply(h, f64, g, lr, t):
            raw.ResourceApplyMomentum(
                var=h["var"],
                accum=h["accum"],
                lr=lr,
                grad=g,
                momentum=f64(0.9),
                use_nesterov=nesterov,
            )

        return apply

    def adagrad(h, f64, g, lr, t):
        raw.ResourceApplyAdagrad(var=h["var"], accum=h["accum"], lr=lr, grad=g)

    def adagrad_epsilon(h, f64, g, lr, t):
        raw.ResourceApplyAdagradV2(var=h["var"], accum=h["accum"], lr=lr, epsilon=f64(0.01), grad=g)

    return [
        _case(
            "gradient_descent",
            "tensorflow",
            "GradientDescent",
            {},
            _with_variables(descent),
            {},
            "var -= lr * g",
        ),
        _case(
            "momentum",
            "tensorflow",
            "Momentum",
            {"momentum": 0.9, "nesterov": False},
            _with_variables(momentum(False)),
            {"accum": 0.0},
            "accum = momentum * accum + g; var -= lr * accum",
        ),
        _case(
            "momentum_nesterov",
            "tensorflow",
            "Momentum",
            {"momentum": 0.9, "nesterov": True},
            _with_variables(momentum(True)),
            {"accum": 0.0},
            "accum = momentum * accum + g; var -= lr * (g + momentum * accum)",
        ),
        _case(
            "adagrad",
            "tensorflow",
            "Adagrad",
            {"epsilon": 0.0},
            _with_variables(adagrad),
            {"accum": 0.1},
            "accum += g^2; var -= lr * g / sqrt(accum)",
        ),
        _case(
            "adagrad_epsilon",
            "tensorflow",
            "Adagrad",
            {"epsilon": 0.01},
            _with_variables(adagrad_epsilon),
            {"accum": 0.1},
            "accum += g^2; var -= lr * g / (sqrt(accum) + epsilon)",
        ),
    ]


def _rmsprop_cases():
    raw = tf.raw_ops

    def plain(momentum, epsilon):
        def apply(h, f64, g, lr, t):
            raw.ResourceApplyRMSProp(
                var=h["var"],
                ms=h["ms"],
                mom=h["mom"],
                lr=lr,
                rho=f64(0.9),
                momentum=f64(momentum),
                epsilon=f64(epsilon),
                grad=g,
            )

        return _with_variables(apply)

    def centered(h, f64, g, lr, t):
        raw.ResourceApplyCenteredRMSProp(
            var=h["var"],
            mg=h["mg"],
            ms=h["ms"],
            mom=h["mom"],
            lr=lr,
            rho=f64(0.9),
            momentum=f64(0.5),
            epsilon=f64(1e-3),
            grad=g,
        )

    formula = (
        "ms = rho * ms + (1 - rho) * g^2; mom = momentum * mom + lr * g / sqrt(ms + epsilon); "
        "var -= mom"
    )
    attrs = {"rho": 0.9, "centered": False}
    return [
        _case(
            "rmsprop",
            "tensorflow",
            "RMSProp",
            {**attrs, "momentum": 0.0, "epsilon": 1e-10},
            plain(0.0, 1e-10),
            {"ms": 1.0, "mom": 0.0},
            formula,
            note="tf.compat.v1.train.RMSPropOptimizer starts ms at one",
        ),
        _case(
            "rmsprop_momentum",
            "tensorflow",
            "RMSProp",
            {**attrs, "momentum": 0.5, "epsilon": 1e-3},
            plain(0.5, 1e-3),
            {"ms": 1.0, "mom": 0.0},
            formula,
        ),
        _case(
            "rmsprop_ms_from_zero",
            "tensorflow",
            "RMSProp",
            {**attrs, "momentum": 0.5, "epsilon": 1e-3},
            plain(0.5, 1e-3),
            {"ms": 0.0, "mom": 0.0},
            formula,
        ),
        _case(
            "rmsprop_centered",
            "tensorflow",
            "RMSProp",
            {"rho": 0.9, "centered": True, "momentum": 0.5, "epsilon": 1e-3},
            _with_variables(centered),
            {"mg": 0.0, "ms": 1.0, "mom": 0.0},
            "mg = rho * mg + (1 - rho) * g; ms = rho * ms + (1 - rho) * g^2; "
            "mom = momentum * mom + lr * g / sqrt(ms - mg^2 + epsilon); var -= mom",
        ),
    ]


def _adam_step(beta1, beta2, epsilon):
    def apply(h, f64, g, lr, t):
        tf.raw_ops.ResourceApplyAdam(
            var=h["var"],
            m=h["m"],
            v=h["v"],
            beta1_power=f64(beta1**t),
            beta2_power=f64(beta2**t),
            lr=lr,
            beta1=f64(beta1),
            beta2=f64(beta2),
            epsilon=f64(epsilon),
            grad=g,
        )

    return _with_variables(apply)


def _keras_adamw(name, attrs):
    """Keras' AdamW: decoupled decay, then TensorFlow's Adam form (epsilon-hat)."""
    var, _ = _start()
    variable = tf.keras.Variable(var, dtype="float64")
    # Keras would keep the rate in float32, whose rounding shows in the ninth digit.
    previous = tf.keras.backend.floatx()
    tf.keras.backend.set_floatx("float64")
    optimizer = tf.keras.optimizers.AdamW(
        learning_rate=RATES[0],
        weight_decay=attrs["weight_decay"],
        beta_1=attrs["beta1"],
        beta_2=attrs["beta2"],
        epsilon=attrs["epsilon"],
    )
    optimizer.build([variable])

    def step(_, state, grad, rate, t):
        optimizer.learning_rate = rate
        optimizer.apply([tf.constant(grad, "float64")], [variable])
        return variable.numpy(), {
            "m": optimizer._momentums[0].numpy(),
            "v": optimizer._velocities[0].numpy(),
        }

    case = _case(
        name,
        "tensorflow",
        "AdamW",
        {**attrs, "epsilon_form": "epsilon_hat"},
        step,
        {"m": 0.0, "v": 0.0},
        "var -= lr * weight_decay * var; then Adam's update with epsilon outside the corrected "
        "root: var -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)",
        note="keras.optimizers.AdamW",
    )
    tf.keras.backend.set_floatx(previous)
    return case


def _torch_adamw(name, attrs):
    var, _ = _start()
    parameter = torch.nn.Parameter(torch.tensor(var))
    optimizer = torch.optim.AdamW(
        [parameter],
        lr=RATES[0],
        betas=(attrs["beta1"], attrs["beta2"]),
        eps=attrs["epsilon"],
        weight_decay=attrs["weight_decay"],
    )

    def step(_, state, grad, rate, t):
        optimizer.param_groups[0]["lr"] = rate
        parameter.grad = torch.tensor(grad)
        optimizer.step()
        slots = optimizer.state[parameter]
        return (
            parameter.detach().numpy().copy(),
            {"m": slots["exp_avg"].numpy().copy(), "v": slots["exp_avg_sq"].numpy().copy()},
        )

    return _case(
        name,
        "torch",
        "AdamW",
        {**attrs, "epsilon_form": "torch"},
        step,
        {"m": 0.0, "v": 0.0},
        "var -= lr * weight_decay * var; m = beta1 * m + (1 - beta1) * g; "
        "v = beta2 * v + (1 - beta2) * g^2; "
        "var -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)",
        note="torch.optim.AdamW",
    )


def _adam_cases():
    formula = (
        "m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2; "
        "var -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon), t from 1"
    )
    result = []
    for suffix, beta1, beta2, epsilon in (
        ("", 0.9, 0.999, 1e-8),
        ("_large_epsilon", 0.8, 0.95, 1e-2),
    ):
        attrs = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        result.append(
            _case(
                "adam" + suffix,
                "tensorflow",
                "Adam",
                attrs,
                _adam_step(beta1, beta2, epsilon),
                {"m": 0.0, "v": 0.0},
                formula,
            )
        )
        decayed = {**attrs, "weight_decay": 0.1}
        result.append(_keras_adamw("adamw_epsilon_hat" + suffix, decayed))
        result.append(_torch_adamw("adamw_torch" + suffix, decayed))
    return result


def _lars_step(momentum, decay, trust):
    def step(var, state, grad, rate, t):
        w_norm, g_norm = np.linalg.norm(var), np.linalg.norm(grad)
        local = trust * w_norm / (g_norm + decay * w_norm) if w_norm > 0 and g_norm > 0 else 1.0
        velocity = momentum * state["accum"] + rate * local * (grad + decay * var)
        return var - velocity, {"accum": velocity}

    return step


def _lamb_step(beta1, beta2, epsilon, decay):
    def step(var, state, grad, rate, t):
        m = beta1 * state["m"] + (1 - beta1) * grad
        v = beta2 * state["v"] + (1 - beta2) * grad**2
        update = (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + epsilon) + decay * var
        w_norm, u_norm = np.linalg.norm(var), np.linalg.norm(update)
        ratio = w_norm / u_norm if w_norm > 0 and u_norm > 0 else 1.0
        return var - rate * ratio * update, {"m": m, "v": v}

    return step


def _layerwise_cases():
    """No framework ships both, so they follow the papers' formulas in numpy float64."""
    var, grads = _start()
    lars = {"momentum": 0.9, "weight_decay": 0.01, "trust_coefficient": 0.02}
    lars_formula = (
        "local = trust * |w| / (|g| + weight_decay * |w|), 1 where |w| or |g| is 0; "
        "accum = momentum * accum + lr * local * (g + weight_decay * w); w -= accum"
    )
    lamb = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01}
    lamb_formula = (
        "m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2; "
        "u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * w; "
        "w -= lr * |w| / |u| * u, ratio 1 where |w| or |u| is 0"
    )
    lars_note = "You et al. 2017, arXiv:1708.03888, algorithm 1; the papers leave zero norms open"
    lamb_note = "You et al. 2019, arXiv:1904.00962, algorithm 2, phi(z) = z; zero norms: ratio 1"
    lars_args = (lars["momentum"], lars["weight_decay"], lars["trust_coefficient"])
    zero_start, zero_grads = (np.zeros_like(var), grads), (var, np.zeros_like(grads))
    return [
        _case(
            "lars",
            "numpy",
            "LARS",
            lars,
            _lars_step(*lars_args),
            {"accum": 0.0},
            lars_formula,
            note=lars_note,
        ),
        _case(
            "lars_zero_parameter",
            "numpy",
            "LARS",
            lars,
            _lars_step(*lars_args),
            {"accum": 0.0},
            lars_formula,
            zero_start,
            note=lars_note,
        ),
        _case(
            "lars_zero_gradient",
            "numpy",
            "LARS",
            lars,
            _lars_step(*lars_args),
            {"accum": 0.0},
            lars_formula,
            zero_grads,
            note=lars_note,
        ),
        _case(
            "lamb",
            "numpy",
            "LAMB",
            lamb,
            _lamb_step(0.9, 0.999, 1e-6, 0.01),
            {"m": 0.0, "v": 0.0},
            lamb_formula,
            note=lamb_note,
        ),
        _case(
            "lamb_zero_parameter",
            "numpy",
            "LAMB",
            lamb,
            _lamb_step(0.9, 0.999, 1e-6, 0.01),
            {"m": 0.0, "v": 0.0},
            lamb_formula,
            zero_start,
            note=lamb_note,
        ),
    ]


def cases():
    return _simple_cases() + _rmsprop_cases() + _adam_cases() + _layerwise_cases()
