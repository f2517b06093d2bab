"""What each level of recording adds to one training step of five models, beside torch's own anomaly mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.benchmarks.measuring import Row, medians_in_turns, times_as_long

TURNS = 7

Step = Callable[[], object]


def measure() -> Iterator[Row]:
    for model, make in MODELS.items():
        found = medians_in_turns(_rivals(make()), turns=TURNS)
        plain, anomaly = found["plain"], found["anomaly mode"] - found["plain"]
        for way, seconds in found.items():
            remark = times_as_long(seconds, plain)
            if way.startswith("recorded"):
                remark += f", {(seconds - plain) / anomaly:.2f} x the extra of anomaly mode"
            yield Row(f"{model}: {way}", seconds, remark)


def _rivals(step: Step) -> dict[str, Step]:
    from gradviz.recording.plan import RecordingPlan

    def with_anomaly_mode(check_nan: bool) -> None:
        import torch

        with torch.autograd.set_detect_anomaly(True, check_nan=check_nan):
            step()

    lines_only = RecordingPlan(keep_going=True, gradients=False)
    return {
        "plain": step,
        "anomaly mode without NaN check": lambda: with_anomaly_mode(False),
        "anomaly mode": lambda: with_anomaly_mode(True),
        "recorded, structure only": lambda: _walked(step),
        "recorded, lines and modules": lambda: _recorded(step, lines_only),
        "recorded, gradients on every edge": lambda: _recorded(step, RecordingPlan(keep_going=True)),
    }


def _walked(step: Step) -> None:
    """The backward call is noticed and its graph is walked; nobody watches the forward."""
    from gradviz.recording.backward_watch import BackwardWatch
    from gradviz.recording.graph_walker import walk
    from gradviz.recording.roots import root_of

    def walk_and_run(request: Any, run: Callable[[], Any]) -> Any:
        walk(root.grad_fn for value in request.roots if (root := root_of(value, None)) is not None)
        return run()

    watch = BackwardWatch(walk_and_run, note_inner=lambda: None)
    watch.start()
    try:
        step()
    finally:
        watch.stop()


def _recorded(step: Step, plan: Any) -> None:
    from gradviz.recording.recorder import Recorder

    recorder = Recorder(plan)
    recorder.start()
    try:
        step()
    finally:
        recorder.stop()


def _tiny_mlp() -> Step:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    return _step_of(model, lambda: model(torch.ones(4, 8)).pow(2).mean())


def _gpt2(width: int, *, batch: int, length: int) -> Step:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_embd=width, n_head=width // 64, n_positions=length, vocab_size=500, bos_token_id=0, eos_token_id=0
    )
    model: Any = GPT2LMHeadModel(config)
    tokens = torch.randint(0, config.vocab_size, (batch, length))
    return _step_of(model, lambda: model(input_ids=tokens, labels=tokens).loss)


def _resnet() -> Step:
    """Bottlenecks as in ResNet-50, for pictures of 64 x 64."""
    import torch
    from torch import nn

    class Bottleneck(nn.Module):
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

    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)]
    channels = 64
    for inner, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, inner, 4 * inner, stride if block == 0 else 1))
            channels = 4 * inner
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))
    pictures = torch.randn(4, 3, 64, 64)
    return _step_of(model, lambda: model(pictures).logsumexp(1).sum())


def _rnn() -> Step:
    import torch
    from torch import nn

    cell, steps = nn.RNNCell(16, 32), torch.randn(1_000, 4, 16)

    def loss() -> torch.Tensor:
        hidden = torch.zeros(4, 32)
        for step in steps:
            hidden = cell(step, hidden)
        return hidden.sum()

    return _step_of(cell, loss)


def _step_of(model: Any, loss: Callable[[], Any]) -> Step:
    import torch

    # Threads that wait for each other measure what else the machine is doing.
    torch.set_num_threads(1)

    def step() -> None:
        model.zero_grad()
        loss().backward()

    return step


MODELS: dict[str, Callable[[], Step]] = {
    "tiny MLP": _tiny_mlp,
    "GPT-2 12x64": lambda: _gpt2(64, batch=1, length=64),
    "GPT-2 12x512": lambda: _gpt2(512, batch=4, length=128),
    "ResNet-50 64x64": _resnet,
    "RNN, 1,000 steps": _rnn,
}
