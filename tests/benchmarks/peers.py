"""What other tools take up to an SVG on the disk, for the same graphs: processor time, torch and the model left out.

Each works in a process of its own, as most of them call functions of themselves for every operation, or replace those
of torch. torchview and torchlens draw the forward calls of modules; torchviz and `draw_backward` of torchlens what
backward walks, as gradviz does. TensorBoard and Netron draw nothing here: what is measured is the file that each of
them opens in a browser, made by tracing the forward. Anomaly mode has no picture: it is a step with and without it.
"""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.measuring import REPOSITORY

REPEATS = 3
"""Of what takes less than `REPEATED_BELOW` seconds: their median is told."""
REPEATED_BELOW = 12.0
LIMIT = 60
"""Seconds of processor time for one picture; `dot`, which all but gradviz call, has as many for itself."""

_RAISED = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception))\b", re.MULTILINE)

Action = Callable[[Any, Any, str], object]
"""With a module that gives a loss, its input, and where the picture is to be, without its suffix."""


def measure() -> Iterator[str]:
    yield f"  {'':<22}" + "".join(f"{name:>24}" for name in GRAPHS)
    for peer in PEERS:
        yield f"  {peer:<22}" + "".join(f"{_told(peer, graph):>24}" for graph in GRAPHS)


def _told(peer: str, graph: str) -> str:
    """Seconds and megabytes, or what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, complaint = _seconds(peer, graph, folder)
        if complaint:
            return complaint
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if _is_opened(file))
        if seconds < REPEATED_BELOW:
            seconds = median([seconds, *(_seconds(peer, graph, folder)[0] for _ in range(REPEATS - 1))])
        taken = f"{max(0.0, seconds - _least(graph)):.1f} s"
        return f"{taken}, {size / 1e6:.2f} MB" if size else taken


def _is_opened(file: Path) -> bool:
    """Whether somebody looks at it; `dot` leaves its source beside its picture."""
    return file.suffix in (".svg", ".html", ".pt") or ".tfevents." in file.name


@cache
def _least(graph: str) -> float:
    """Of a process that only makes the model."""
    return median(_seconds("nothing", graph, "")[0] for _ in range(REPEATS))


def _seconds(peer: str, graph: str, folder: str) -> tuple[float, str]:
    """Of the process and those that it started; and why there is no picture."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tests.benchmarks.peers", peer, graph, f"{folder}/graph"]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, preexec_fn=_limit)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if ran.returncode == 0:
        return seconds, ""
    raised = _RAISED.findall(ran.stderr)
    stops = (signal.SIGXCPU, signal.SIGKILL)
    was_stopped = -ran.returncode in stops or any(stop.name in ran.stderr for stop in stops)
    return seconds, f"over {LIMIT} s" if was_stopped else raised[-1] if raised else f"ended with {ran.returncode}"


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30))


def _torchviz(model: Any, given: Any, file: str) -> object:
    import torchviz

    return torchviz.make_dot(model(given), params=dict(model.named_parameters())).render(file, format="svg")


def _torchview(model: Any, given: Any, file: str) -> object:
    import torchview

    drawn = torchview.draw_graph(model, input_data=(given,), depth=99, expand_nested=True, hide_module_functions=False)
    return drawn.visual_graph.render(file, format="svg")


def _torchlens(model: Any, given: Any, file: str) -> object:
    import torchlens

    return torchlens.trace(model, given).draw(vis_outpath=file, vis_save_only=True, vis_fileformat="svg")


def _torchlens_backward(model: Any, given: Any, file: str) -> object:
    import torchlens

    trace = torchlens.trace(model, given, capture=torchlens.options.CaptureOptions(save_grads=True))
    trace.log_backward(trace[trace.output_layers[0]].out)
    return trace.draw_backward(vis_outpath=file, vis_save_only=True, vis_fileformat="svg")


def _tensorboard(model: Any, given: Any, file: str) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(file) as writer:
        writer.add_graph(model, given)


def _netron(model: Any, given: Any, file: str) -> None:
    import torch

    torch.jit.trace(model, given).save(f"{file}.pt")  # type: ignore[no-untyped-call]


def _anomaly_mode(model: Any, given: Any, _file: str) -> None:
    import torch

    with torch.autograd.detect_anomaly(check_nan=True):
        model(given).backward()


def _gradviz(suffix: str) -> Action:
    def action(model: Any, given: Any, file: str) -> object:
        import gradviz

        return gradviz.inspect(model(given)).save(f"{file}.{suffix}")

    return action


PEERS: dict[str, Action] = {
    "torchviz": _torchviz,
    "torchview": _torchview,
    "torchlens": _torchlens,
    "torchlens, backward": _torchlens_backward,
    "TensorBoard": _tensorboard,
    "Netron": _netron,
    "anomaly mode": _anomaly_mode,
    "gradviz, SVG": _gradviz("svg"),
    "gradviz, page": _gradviz("html"),
}


def _gpt2() -> tuple[Any, Any]:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gpt: Any = GPT2LMHeadModel(GPT2Config(n_embd=96, n_head=4, n_positions=64, vocab_size=500))

        def forward(self, tokens: Any) -> Any:
            return self.gpt(input_ids=tokens, labels=tokens).loss

    return Loss(), torch.randint(0, 500, (2, 16))


def _deep() -> tuple[Any, Any]:
    import torch
    from torch import nn

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(64, nhead=4, dim_feedforward=128, batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, num_layers=96, enable_nested_tensor=False)

        def forward(self, given: Any) -> Any:
            return self.layers(given).square().mean()

    return Loss(), torch.randn(2, 16, 64)


def _chain() -> tuple[Any, Any]:
    import torch

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, given: Any) -> Any:
            value = given * self.weight
            for step in range(100_000):
                value = value.tanh() if step % 3 else value + 1
            return value.sum()

    return Loss(), torch.ones(3)


GRAPHS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "GPT-2, 12 layers": _gpt2,
    "transformer, 96 layers": _deep,
    "100,000 operations": _chain,
}


def _work(peer: str, graph: str, file: str) -> None:
    model, given = GRAPHS[graph]()
    if peer != "nothing":
        PEERS[peer](model, given, file)


if __name__ == "__main__":
    _work(*sys.argv[1:])
