"""The benchmark models and their training step in PyTorch (1.13 and later)."""

import os

import torch
import torch.nn.functional as F
from torch import nn

VERSION = torch.__version__


class Block(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x), inplace=True)


def resnet18():
    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels_in = 64
    for stage, channels in enumerate((64, 128, 256, 512)):
        layers.append(Block(channels_in, channels, 1 if stage == 0 else 2))
        layers.append(Block(channels, channels, 1))
        channels_in = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def mnist_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 128),
        nn.ReLU(inplace=True),
        nn.Linear(128, 10),
    )


# model, input shape, classes, learning rate, momentum
MODELS = {
    "resnet18": (resnet18, (3, 224, 224), 1000, 0.1, 0.9),
    "mnist_cnn": (mnist_cnn, (1, 28, 28), 10, 0.01, 0.9),
    "softmax": (lambda: nn.Linear(784, 10), (784,), 10, 0.5, 0.0),
}


def _optimizer(model, rate, momentum):
    """The fused update where this PyTorch has one for the CPU, else the multi-tensor one."""
    for option in ({"fused": True}, {"foreach": True}):
        try:
            return torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum, **option)
        except (TypeError, RuntimeError):
            continue
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)


def make_step(name, batch, mode, dtype):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    build, shape, classes, rate, momentum = MODELS[name]
    model = build().train()
    x = torch.randn(batch, *shape)
    labels = torch.randint(0, classes, (batch,))
    if mode.endswith("channels_last"):
        model = model.to(memory_format=torch.channels_last)
        if x.dim() == 4:
            x = x.to(memory_format=torch.channels_last)
    optimizer = _optimizer(model, rate, momentum)

    def loss_of(inputs, targets):
        if dtype == "bf16":
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return F.cross_entropy(model(inputs), targets)
        return F.cross_entropy(model(inputs), targets)

    if mode.startswith("compile"):
        loss_of = torch.compile(loss_of)
    elif mode.startswith("max_autotune"):
        loss_of = torch.compile(loss_of, mode="max-autotune")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
