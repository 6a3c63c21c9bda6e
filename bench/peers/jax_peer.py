"""The benchmark models and their training step in JAX: one jitted function, arguments donated."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

VERSION = jax.__version__


class Parameters:
    """Draws initial values and remembers them under names."""

    def __init__(self):
        self.values = {}
        self.averages = {}
        self._random = np.random.default_rng(1)

    def conv(self, name, channels_in, channels, size, bias=False):
        std = (2 / (size * size * channels_in)) ** 0.5
        self._draw(name + "/w", (size, size, channels_in, channels), std)
        if bias:
            self._draw(name + "/b", (channels,), 0.0)

    def batch_norm(self, name, channels):
        self._draw(name + "/scale", (channels,), 0.0, 1.0)
        self._draw(name + "/offset", (channels,), 0.0)
        self.averages[name + "/mean"] = jnp.zeros(channels)
        self.averages[name + "/variance"] = jnp.ones(channels)

    def dense(self, name, count_in, count, std):
        self._draw(name + "/w", (count_in, count), std)
        self._draw(name + "/b", (count,), 0.0)

    def _draw(self, name, shape, std, mean=0.0):
        draw = self._random.normal(mean, std, shape) if std else np.full(shape, mean)
        self.values[name] = jnp.asarray(draw, jnp.float32)


def _conv(p, name, x, stride):
    w = p[name + "/w"]
    pad = w.shape[0] // 2
    y = lax.conv_general_dilated(
        x,
        w.astype(x.dtype),
        (stride, stride),
        [(pad, pad), (pad, pad)],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return y + p[name + "/b"].astype(x.dtype) if name + "/b" in p else y


def _batch_norm(p, averages, name, x):
    wide = x.astype(jnp.float32)
    mean = wide.mean((0, 1, 2))
    variance = jnp.square(wide).mean((0, 1, 2)) - jnp.square(mean)
    averages[name + "/mean"] = 0.9 * averages[name + "/mean"] + 0.1 * mean
    averages[name + "/variance"] = 0.9 * averages[name + "/variance"] + 0.1 * variance
    factor = p[name + "/scale"] * lax.rsqrt(variance + 1e-3)
    return (wide * factor + (p[name + "/offset"] - mean * factor)).astype(x.dtype)


def _dense(p, name, x):
    return x @ p[name + "/w"].astype(x.dtype) + p[name + "/b"].astype(x.dtype)


def _max_pool(x, size, stride, pad):
    return lax.reduce_window(
        x,
        -jnp.inf,
        lax.max,
        (1, size, size, 1),
        (1, stride, stride, 1),
        [(0, 0), (pad, pad), (pad, pad), (0, 0)],
    )


_STAGES = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))


def _blocks():
    for stage, (channels_in, channels, stride) in enumerate(_STAGES):
        yield f"block{stage}a", channels_in, channels, stride
        yield f"block{stage}b", channels, channels, 1


def resnet18_parameters(p):
    p.conv("stem", 3, 64, 7)
    p.batch_norm("stem_bn", 64)
    for name, channels_in, channels, stride in _blocks():
        p.conv(name + "/conv1", channels_in, channels, 3)
        p.batch_norm(name + "/bn1", channels)
        p.conv(name + "/conv2", channels, channels, 3)
        p.batch_norm(name + "/bn2", channels)
        if stride != 1 or channels_in != channels:
            p.conv(name + "/conv3", channels_in, channels, 1)
            p.batch_norm(name + "/bn3", channels)
    p.dense("head", 512, 1000, 0.02)


def resnet18(p, averages, x):
    y = jax.nn.relu(_batch_norm(p, averages, "stem_bn", _conv(p, "stem", x, 2)))
    y = _max_pool(y, 3, 2, 1)
    for name, channels_in, channels, stride in _blocks():
        z = _batch_norm(p, averages, name + "/bn1", _conv(p, name + "/conv1", y, stride))
        z = _conv(p, name + "/conv2", jax.nn.relu(z), 1)
        z = _batch_norm(p, averages, name + "/bn2", z)
        if stride != 1 or channels_in != channels:
            y = _batch_norm(p, averages, name + "/bn3", _conv(p, name + "/conv3", y, stride))
        y = jax.nn.relu(z + y)
    return _dense(p, "head", y.mean((1, 2)))


def mnist_cnn_parameters(p):
    p.conv("conv1", 1, 32, 3, bias=True)
    p.conv("conv2", 32, 64, 3, bias=True)
    p.dense("dense1", 64 * 7 * 7, 128, 0.025)
    p.dense("dense2", 128, 10, 0.1)


def mnist_cnn(p, averages, x):
    y = _max_pool(jax.nn.relu(_conv(p, "conv1", x, 1)), 2, 2, 0)
    y = _max_pool(jax.nn.relu(_conv(p, "conv2", y, 1)), 2, 2, 0)
    y = jax.nn.relu(_dense(p, "dense1", y.reshape(y.shape[0], -1)))
    return _dense(p, "dense2", y)


# parameters, model, input shape, classes, learning rate, momentum
MODELS = {
    "resnet18": (resnet18_parameters, resnet18, (224, 224, 3), 1000, 0.1, 0.9),
    "mnist_cnn": (mnist_cnn_parameters, mnist_cnn, (28, 28, 1), 10, 0.01, 0.9),
    "softmax": (
        lambda p: p.dense("softmax", 784, 10, 0.03),
        lambda p, averages, x: _dense(p, "softmax", x),
        (784,),
        10,
        0.5,
        0.0,
    ),
}


def make_step(name, batch, mode, dtype):
    draw, model, shape, classes, rate, momentum = MODELS[name]
    compute_dtype = jnp.bfloat16 if dtype == "bf16" else jnp.float32
    parameters = Parameters()
    draw(parameters)
    random = np.random.default_rng(2)
    x = jnp.asarray(random.standard_normal((batch, *shape), dtype=np.float32))
    labels = jnp.asarray(random.integers(0, classes, batch), jnp.int32)

    def loss_of(values, averages, x, labels):
        averages = dict(averages)
        logits = model(values, averages, x.astype(compute_dtype)).astype(jnp.float32)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
        return -chosen.mean(), averages

    def train(state, x, labels):
        values, slots, averages = state
        (loss, averages), gradients = jax.value_and_grad(loss_of, has_aux=True)(
            values, averages, x, labels
        )
        if momentum:
            slots = jax.tree.map(lambda s, g: momentum * s + g, slots, gradients)
            gradients = slots
        values = jax.tree.map(lambda v, g: v - rate * g, values, gradients)
        return (values, slots, averages), loss

    jitted = jax.jit(train, donate_argnums=0)
    slots = jax.tree.map(jnp.zeros_like, parameters.values) if momentum else {}
    state = [(parameters.values, slots, parameters.averages)]

    def step():
        state[0], loss = jitted(state[0], x, labels)
        return float(loss)

    return step
