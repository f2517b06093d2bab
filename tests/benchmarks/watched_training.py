"""What `gradviz.watch` with every=100 adds to a training step of GPT-2 with 12 layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from tests.benchmarks.measuring import Row

EVERY = 100
_BLOCK = 5
"""Steps in a row of each kind."""


def measure() -> Iterator[Row]:
    yield from _rows("GPT-2 12x64", _Training(64, batch=1, length=64), turns=20)
    yield from _rows("GPT-2 12x512", _Training(512, batch=4, length=128), turns=4)


def _rows(name: str, training: _Training, turns: int) -> Iterator[Row]:
    """Of a run, one step in a hundred is measured. All kinds are timed on one model: two would differ by themselves."""
    plain, between, measured = _times(training, turns)
    added = ((between - plain) * (EVERY - 1) + (measured - plain)) / EVERY
    yield Row(f"{name}: plain", plain)
    yield Row(f"{name}: watched, between measured steps", between, _percent(between - plain, plain))
    yield Row(f"{name}: watched, a measured step", measured, _percent(measured - plain, plain))
    yield Row(f"{name}: watched, every={EVERY}", plain + added, _percent(added, plain))


def _times(training: _Training, turns: int) -> tuple[float, float, float]:
    """Medians of a plain step, of one between measured steps, and of a measured one."""
    import gradviz

    plain, between, measured = [], [], []
    for turn in range(turns + 1):
        times = [_seconds(training.step) for _ in range(_BLOCK)]
        with TemporaryDirectory() as folder, gradviz.watch(training.model, every=2 * _BLOCK, to=f"{folder}/a.gradviz"):
            first = _seconds(training.step)
            reads_the_first = _seconds(training.step)
            watched = [_seconds(training.step) for _ in range(_BLOCK)]
        if turn:
            plain += times
            between += watched
            measured.append(first + reads_the_first - median(watched))
    return median(plain), median(between), median(measured)


def _seconds(action: Callable[[], object]) -> float:
    """Of the processor, on one thread: three in a hundred are less than what other programs take from the clock."""
    start = process_time()
    action()
    return process_time() - start


def _percent(added: float, plain: float) -> str:
    return f"{added / plain:+.2%}"


class _Training:
    """A model and its optimizer."""

    def __init__(self, width: int, *, batch: int, length: int) -> None:
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.set_num_threads(1)
        config = GPT2Config(
            n_embd=width, n_head=width // 64, n_positions=length, vocab_size=500, bos_token_id=0, eos_token_id=0
        )
        self.model: Any = GPT2LMHeadModel(config)
        self._optimizer = torch.optim.AdamW(self.model.parameters())
        self._tokens = torch.randint(0, config.vocab_size, (batch, length))

    def step(self) -> None:
        self._optimizer.zero_grad()
        self.model(input_ids=self._tokens, labels=self._tokens).loss.backward()
        self._optimizer.step()
