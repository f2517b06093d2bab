"""What ``gradviz memory`` adds up against what the allocator says, and what reading saved tensors costs."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from tests.benchmarks.measuring import REPOSITORY, Row

MODELS = ("mlp", "gpt2_64", "gpt2_512", "gpt2_512_aot_eager", "gpt2_512_inductor", "resnet50", "rnn")


def measure() -> Iterator[Row]:
    for model in MODELS:
        command = [sys.executable, "-m", "tests.benchmarks.memory_total", model]
        result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        figures = json.loads(result.stdout)
        yield Row(f"{model}: saved tensors read", figures["seconds"], _cost_words(figures))
        yield Row(f"{model}: traced of what the allocator says", float("nan"), _total_words(figures))


def _cost_words(figures: dict[str, Any]) -> str:
    each = figures["seconds"] / max(figures["saved"], 1) * 1e6
    return f"{figures['saved']:,} of {figures['nodes']:,} nodes, {each:.2f} us each"


def _total_words(figures: dict[str, Any]) -> str:
    parts = ", ".join(f"{size / 2**20:.2f} MiB {what}" for what, size in figures["parts"].items())
    rest, retained = figures["parts"]["rest"], figures["retained"]
    return f"{1 - abs(rest) / retained:.2%} of {retained / 2**20:.2f} MiB: {parts}"


def _step(model: str) -> Callable[[], None]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    if model.startswith("gpt2"):
        from transformers import GPT2Config, GPT2LMHeadModel

        width, _, backend = model.removeprefix("gpt2_").partition("_")
        config = GPT2Config(
            n_embd=int(width), n_head=4, n_positions=128, vocab_size=500, bos_token_id=0, eos_token_id=0
        )
        gpt: Any = GPT2LMHeadModel(config)
        if backend:
            gpt = torch.compile(gpt, backend=backend)
        tokens = torch.randint(0, 500, (4, 128))
        return lambda: gpt(input_ids=tokens, labels=tokens).loss.backward()
    if model == "resnet50":
        network = runpy.run_path(str(REPOSITORY / "samples" / "resnet50.py"))["ResNet"]()
        images = torch.randn(8, 3, 64, 64)
        return lambda: network(images).sum().backward()
    if model == "rnn":
        cell = nn.RNNCell(64, 64)
        sequence = torch.randn(1000, 32, 64)

        def unrolled() -> None:
            state = torch.zeros(32, 64)
            for each in sequence:
                state = cell(each, state)
            state.sum().backward()  # type: ignore[no-untyped-call]

        return unrolled
    mlp = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    x = torch.randn(512, 256)
    return lambda: mlp(x).sum().backward()


def _print_figures(model: str) -> None:
    from gradviz.analysis.memory.allocator_balance import balances
    from gradviz.recording.recorder import Recorder
    from gradviz.recording.run.recording_plan import RecordingPlan

    step = _step(model)
    recorder = Recorder(RecordingPlan(backward=3, keep_going=True))
    recorder.start()
    # The first steps set libraries up, and give parameters their gradients.
    for _ in range(3):
        step()
    recorder.stop()
    (graph,) = recorder.capture(model, (), "finished", None).graphs
    balance = next(each for each in balances(graph) if each.reading.device == "cpu")
    parts = {
        "saved": balance.saved,
        "variables": balance.in_variables,
        "torch objects": balance.objects,
        "freed": -balance.reading.freed,
    }
    print(
        json.dumps(
            {
                "seconds": _seconds_of_reading(step),
                "nodes": len(graph.nodes),
                "saved": sum(len(node.saved) for node in graph.nodes),
                "retained": balance.retained,
                "parts": {**parts, "rest": balance.rest},
            }
        )
    )


def _seconds_of_reading(step: Callable[[], None]) -> float:
    """What reading saved tensors takes in one more step."""
    from gradviz.recording.recorder import Recorder
    from gradviz.recording.run.recording_plan import RecordingPlan
    from gradviz.recording.walk.saved_tensor_reader import SavedTensorReader

    spent = 0.0
    read = SavedTensorReader.of_walk

    def timed(reader: SavedTensorReader, classes: Any) -> Any:
        nonlocal spent
        start = time.perf_counter()
        result = read(reader, classes)
        spent += time.perf_counter() - start
        return result

    with patch.object(SavedTensorReader, "of_walk", timed):
        recorder = Recorder(RecordingPlan(keep_going=True))
        recorder.start()
        step()
        recorder.stop()
    return spent


if __name__ == "__main__":
    _print_figures(sys.argv[1])
