"""Pairs of small programs with one planted difference. The text after ``# HERE`` says what is to be named first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import gradviz

Step = Callable[[], Any]


def recorded(step: Step) -> gradviz.Recording:
    """The recording of one step from a fixed seed."""
    torch.manual_seed(0)
    with gradviz.record(fingerprints=True) as recording:
        step().backward()
    return recording


class Attention(nn.Module):
    def __init__(self, *, is_scaled: bool = True) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.is_scaled = is_scaled

    def forward(self, x: torch.Tensor) -> Any:
        scores = self.query(x) @ self.key(x).transpose(-2, -1)
        if self.is_scaled:
            scores = scores / 4.0
        weights = scores.softmax(-1)
        return weights @ self.value(x)


class Block(nn.Module):
    def __init__(
        self,
        *,
        eps: float = 1e-5,
        approximate: str = "none",
        is_scaled: bool = True,
        is_post_norm: bool = False,
        dropout: float = 0.0,
        is_transposed: bool = False,
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16, eps=eps)
        self.attention = Attention(is_scaled=is_scaled)
        self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 16)
        self.act = nn.GELU(approximate)
        self.is_post_norm, self.dropout = is_post_norm, dropout
        if is_transposed:
            with torch.no_grad():
                self.up.weight.copy_(self.up.weight.t().clone())

    def forward(self, x: torch.Tensor) -> Any:
        x = self.norm(x + self.attention(x)) if self.is_post_norm else x + self.attention(self.norm(x))
        hidden = self.act(self.up(x))
        if self.dropout:
            hidden = F.dropout(hidden, self.dropout)
        return x + self.down(hidden)


class ByHand(nn.Module):
    """The same block with other names, in other hands."""

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(16, eps=eps)
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.c_fc, self.c_proj = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, hidden: torch.Tensor) -> Any:
        normed = self.ln_1(hidden)
        scores = torch.matmul(self.q(normed), self.k(normed).transpose(-2, -1)) / 4.0
        hidden = hidden + torch.matmul(torch.softmax(scores, dim=-1), self.v(normed))
        return hidden + self.c_proj(F.gelu(self.c_fc(hidden)))


def block_step(**options: Any) -> Step:
    """A step of one block."""

    def step() -> Any:
        model = Block(**options)
        return model(torch.randn(2, 5, 16)).square().mean()

    return step


def by_hand_step(eps: float = 1e-5) -> Any:
    """A step of the port."""
    model = ByHand(eps)
    return model(torch.randn(2, 5, 16)).square().mean()


def autocast_step() -> Any:
    """A step of the block in which one part runs in bfloat16."""
    model = Block()
    x = torch.randn(2, 5, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model(x).float().square().mean()


def compiled_step(backend: str = "aot_eager", **options: Any) -> Step:
    """The block, compiled."""

    def step() -> Any:
        model = Block(**options)
        x = torch.randn(2, 5, 16)
        return torch.compile(model, backend=backend)(x).square().mean()

    return step


def seeded_step(seed: int) -> Step:
    """The block, seeded again before its data are drawn."""

    def step() -> Any:
        model = Block()
        torch.manual_seed(seed)
        data = torch.randn(2, 5, 16)
        return model(data).square().mean()

    return step


def shuffled_step(seed: int) -> Step:
    """Data are shuffled with a generator of their own."""

    def step() -> Any:
        model = Block()
        order = torch.randperm(8, generator=torch.Generator().manual_seed(seed))
        return model(torch.randn(8, 5, 16)[order]).square().mean()

    return step


def index_add_step(*, is_reversed: bool) -> Step:
    """The same numbers, added up in another order, as threads of a GPU do."""

    def step() -> Any:
        weight = nn.Parameter(torch.randn(2_000))
        index = torch.zeros(2_000, dtype=torch.long)
        total = torch.zeros(1).index_add(0, index, weight.flip(0) if is_reversed else weight)
        return (total * total).sum()

    return step


def threads_step(threads: int) -> Step:
    """A long sum; with another number of threads it is added up in other parts."""

    def step() -> Any:
        weight = nn.Parameter(torch.randn(1_000_003))
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return (weight * weight).mean() + weight.sum()
        finally:
            torch.set_num_threads(before)

    return step


def workers_step(order: Sequence[int]) -> Step:
    """Threads of the program compute parts, which are added up in the order in which the threads end."""

    def step() -> Any:
        weights = [nn.Parameter(torch.randn(100)) for _ in order]
        parts: list[torch.Tensor] = []
        for index in order:
            worker = Thread(target=lambda index=index: parts.append(weights[index].exp()))
            worker.start()
            worker.join()
        rows = torch.arange(100).repeat(len(order))
        return torch.zeros(100).index_add(0, rows, torch.cat(parts)).square().mean()

    return step


class HandWrittenLayer(nn.Module):
    """The layer of BERT as somebody writes it who does not know the one of Hugging Face."""

    def __init__(self, width: int, inner: int, heads: int, eps: float) -> None:
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.mix = nn.Linear(width, width)
        self.after_attention, self.after_mlp = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> Any:
        def split(each: torch.Tensor) -> torch.Tensor:
            return each.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.to_q(x)), split(self.to_k(x)), split(self.to_v(x))
        scores = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5
        mixed = torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2).flatten(-2)
        x = self.after_attention(self.mix(mixed) + x)
        return self.after_mlp(self.narrow(F.gelu(self.wide(x))) + x)

    def copy_from(self, layer: nn.Module) -> None:
        """Take the weights of the layer of Hugging Face."""
        names = {
            "to_q": "attention.self.query",
            "to_k": "attention.self.key",
            "to_v": "attention.self.value",
            "mix": "attention.output.dense",
            "after_attention": "attention.output.LayerNorm",
            "wide": "intermediate.dense",
            "narrow": "output.dense",
            "after_mlp": "output.LayerNorm",
        }
        for own, other in names.items():
            self.get_submodule(own).load_state_dict(layer.get_submodule(other).state_dict())


def initialised_step(limit: float) -> Step:
    """A weight with values from another range."""

    def step() -> Any:
        layer = nn.Linear(16, 16)
        nn.init.uniform_(layer.weight, -limit, limit)
        return layer(torch.randn(4, 16)).square().mean()

    return step


class LastBits(torch.autograd.Function):
    """Multiplies by a number that the recording does not see among the arguments of a torch function."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.from_numpy(x.detach().numpy() * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None
