"""Five models, each as a module that computes its loss, from the tiny to one whose step takes over a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn


class Model(NamedTuple):
    """A module that gives a scalar loss, and what it is called with."""

    loss: nn.Module
    inputs: tuple[torch.Tensor, ...]

    def step(self) -> None:
        """One training step without an optimizer."""
        self.loss.zero_grad()
        self.loss(*self.inputs).backward()


class _TinyMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).pow(2).mean()  # type: ignore[no-any-return]


class _GPT2(nn.Module):
    def __init__(self, width: int, length: int) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        super().__init__()
        config = GPT2Config(
            n_embd=width, n_head=width // 64, n_positions=length, vocab_size=500, bos_token_id=0, eos_token_id=0
        )
        self.gpt: Any = GPT2LMHeadModel(config)

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.gpt(input_ids=tokens, labels=tokens).loss


class _Bottleneck(nn.Module):
    def __init__(self, channels: int, inner: int, out: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        is_same = channels == out and stride == 1
        self.shortcut = nn.Identity() if is_same else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(x) + self.shortcut(x))


class _ResNet(nn.Module):
    """Bottlenecks as in ResNet-50."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
        channels = 64
        for inner, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for block in range(blocks):
                layers.append(_Bottleneck(channels, inner, 4 * inner, stride if block == 0 else 1))
                channels = 4 * inner
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.layers(pictures).logsumexp(1).sum()  # type: ignore[no-any-return]


class _RNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNNCell(16, 32)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        hidden = torch.zeros(4, 32)
        for step in steps:
            hidden = self.cell(step, hidden)
        return hidden.sum()


MODELS: dict[str, Callable[[], Model]] = {
    "tiny MLP": lambda: Model(_TinyMLP(), (torch.ones(4, 8),)),
    "GPT-2 12x64": lambda: Model(_GPT2(64, 64), (torch.randint(0, 500, (1, 64)),)),
    "GPT-2 12x512": lambda: Model(_GPT2(512, 128), (torch.randint(0, 500, (4, 128)),)),
    "ResNet-50": lambda: Model(_ResNet(), (torch.randn(4, 3, 64, 64),)),
    "RNN 1,000": lambda: Model(_RNN(), (torch.randn(1_000, 4, 16),)),
}
"""GPT-2 of 12 layers and a width; ResNet-50 for pictures of 64 x 64; an RNN of 1,000 steps."""


def model(name: str) -> Model:
    """The model of that name, on one thread: threads that wait for each other measure what else the machine does."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return MODELS[name]()
