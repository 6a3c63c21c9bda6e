"""The benchmark models and their training step in TensorFlow ops (no Keras layers)."""

import os

import numpy as np
import tensorflow as tf

VERSION = tf.__version__


class Net:
    """Trainable float32 variables and the moving averages of the batch norms."""

    def __init__(self, compute_dtype):
        self.compute_dtype = compute_dtype
        self.variables = []
        self._random = np.random.default_rng(1)

    def _variable(self, shape, std=None, value=0.0):
        start = np.full(shape, value) if std is None else self._random.normal(0, std, shape)
        variable = tf.Variable(start.astype(np.float32))
        self.variables.append(variable)
        return variable

    def conv(self, channels_in, channels, size, stride, bias=False):
        w = self._variable(
            [size, size, channels_in, channels], (2 / (size * size * channels_in)) ** 0.5
        )
        b = self._variable([channels]) if bias else None

        def run(x):
            if stride == 2:  # PyTorch's symmetric padding, so that every framework does the same
                pad = [size // 2] * 2
                padding = [[0, 0], pad, pad, [0, 0]]
            else:
                padding = "SAME"
            y = tf.nn.conv2d(x, tf.cast(w, self.compute_dtype), stride, padding)
            return y if b is None else tf.nn.bias_add(y, tf.cast(b, self.compute_dtype))

        return run

    def batch_norm(self, channels):
        scale, offset = self._variable([channels], value=1.0), self._variable([channels])
        mean, variance = tf.Variable(tf.zeros([channels])), tf.Variable(tf.ones([channels]))

        def run(x):
            y, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
                x=x,
                scale=scale,
                offset=offset,
                mean=mean.read_value(),
                variance=variance.read_value(),
                epsilon=1e-3,
                exponential_avg_factor=0.1,
                is_training=True,
            )
            mean.assign(new_mean)
            variance.assign(new_variance)
            return y

        return run

    def dense(self, count_in, count, std):
        w, b = self._variable([count_in, count], std), self._variable([count])
        return lambda x: tf.nn.bias_add(
            tf.matmul(x, tf.cast(w, self.compute_dtype)), tf.cast(b, self.compute_dtype)
        )

    def block(self, channels_in, channels, stride):
        conv1, bn1 = self.conv(channels_in, channels, 3, stride), self.batch_norm(channels)
        conv2, bn2 = self.conv(channels, channels, 3, 1), self.batch_norm(channels)
        shortcut = lambda x: x
        if stride != 1 or channels_in != channels:
            conv3, bn3 = self.conv(channels_in, channels, 1, stride), self.batch_norm(channels)
            shortcut = lambda x: bn3(conv3(x))

        def run(x):
            return tf.nn.relu(bn2(conv2(tf.nn.relu(bn1(conv1(x))))) + shortcut(x))

        return run


def resnet18(net):
    conv, bn = net.conv(3, 64, 7, 2), net.batch_norm(64)
    blocks, channels_in = [], 64
    for stage, channels in enumerate((64, 128, 256, 512)):
        blocks += [net.block(channels_in, channels, 1 if stage == 0 else 2)]
        blocks += [net.block(channels, channels, 1)]
        channels_in = channels
    head = net.dense(512, 1000, 0.02)

    def run(x):
        y = tf.nn.relu(bn(conv(x)))
        # After a ReLU, padding with zeros and with minus infinity are the same.
        y = tf.nn.max_pool2d(tf.pad(y, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "VALID")
        for block in blocks:
            y = block(y)
        return head(tf.reduce_mean(y, [1, 2]))

    return run


def mnist_cnn(net):
    conv1, conv2 = net.conv(1, 32, 3, 1, bias=True), net.conv(32, 64, 3, 1, bias=True)
    dense1, dense2 = net.dense(64 * 7 * 7, 128, 0.025), net.dense(128, 10, 0.1)

    def run(x):
        y = tf.nn.max_pool2d(tf.nn.relu(conv1(x)), 2, 2, "VALID")
        y = tf.nn.max_pool2d(tf.nn.relu(conv2(y)), 2, 2, "VALID")
        return dense2(tf.nn.relu(dense1(tf.reshape(y, [-1, 64 * 7 * 7]))))

    return run


# model, input shape, classes, learning rate, momentum
MODELS = {
    "resnet18": (resnet18, (224, 224, 3), 1000, 0.1, 0.9),
    "mnist_cnn": (mnist_cnn, (28, 28, 1), 10, 0.01, 0.9),
    "softmax": (lambda net: net.dense(784, 10, 0.03), (784,), 10, 0.5, 0.0),
}


def make_step(name, batch, mode, dtype):
    threads = int(os.environ["OMP_NUM_THREADS"])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    build, shape, classes, rate, momentum = MODELS[name]
    compute_dtype = tf.bfloat16 if dtype == "bf16" else tf.float32
    net = Net(compute_dtype)
    forward = build(net)
    random = np.random.default_rng(2)
    x = tf.constant(random.standard_normal((batch, *shape), dtype=np.float32))
    labels = tf.constant(random.integers(0, classes, batch))
    slots = [tf.Variable(tf.zeros_like(v)) for v in net.variables] if momentum else []

    @tf.function(jit_compile=mode == "jit_compile")
    def train(x, labels):
        with tf.GradientTape() as tape:
            logits = tf.cast(forward(tf.cast(x, compute_dtype)), tf.float32)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        gradients = tape.gradient(loss, net.variables)
        for i, (variable, gradient) in enumerate(zip(net.variables, gradients)):
            if momentum:
                tf.raw_ops.ResourceApplyMomentum(
                    var=variable.handle,
                    accum=slots[i].handle,
                    lr=rate,
                    grad=gradient,
                    momentum=momentum,
                )
            else:
                tf.raw_ops.ResourceApplyGradientDescent(
                    var=variable.handle, alpha=rate, delta=gradient
                )
        return loss

    return lambda: float(train(x, labels).numpy())
