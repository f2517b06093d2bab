"""What each level of recording adds to one training step of five models, beside anomaly mode and torchlens.

Each model is measured in a process of its own, and torchlens in a further one, since it replaces functions of torch.
Every way's time on the processor is shown as a multiple of that of the plain step of the same process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.benchmarks.measuring import REPOSITORY, duration, medians_in_turns

TURNS = {"tiny MLP": 200, "GPT-2 12x64": 15, "RNN 1,000": 11}
"""Of the others seven."""
TORCHLENS_TURNS = 3
TORCHLENS_LIMIT = 300
"""Seconds."""

MODELS = ("tiny MLP", "GPT-2 12x64", "GPT-2 12x512", "ResNet-50", "RNN 1,000")
PLAIN, ANOMALY, RECORDED = "plain", "anomaly mode, its default", "and with saved tensors: all of it"
WAYS = (
    "recorded, structure only",
    "with lines and modules",
    "and with gradients on every edge",
    RECORDED,
    "anomaly mode without NaN check",
    ANOMALY,
    "with every torch call, as by check",
    "with fingerprints, as by diff",
)


def measure() -> Iterator[str]:
    """The table, line by line; models are columns."""
    yield _line("one training step", MODELS)
    found = {model: _in_a_process_of_its_own(model, "ways") for model in MODELS}
    yield _line(PLAIN, [duration(found[model][PLAIN]) for model in MODELS])
    for way in WAYS:
        yield _line(way, [f"{found[model][way] / found[model][PLAIN]:.2f} x" for model in MODELS])
    lens = {model: _in_a_process_of_its_own(model, "torchlens", TORCHLENS_LIMIT) for model in MODELS}
    yield _line("torchlens, forward and backward", [_times_or_failure(lens[model]) for model in MODELS])
    yield _line("extra of all / extra of anomaly mode", [f"{_share(found[model]):.2f}" for model in MODELS])
    for model in MODELS:
        if "failure" in lens[model]:
            yield f"  torchlens and {model}: {lens[model]['failure']}"


def _line(what: str, cells: Any) -> str:
    return f"  {what:<37}" + "".join(f"{cell:>14}" for cell in cells)


def _share(found: Mapping[str, float]) -> float:
    return (found[RECORDED] - found[PLAIN]) / (found[ANOMALY] - found[PLAIN])


def _times_or_failure(found: Mapping[str, Any]) -> str:
    return "failed" if "failure" in found else f"{found['torchlens'] / found[PLAIN]:.2f} x"


def _in_a_process_of_its_own(model: str, what: str, limit: float | None = None) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.recorded_step", model, what]
    try:
        result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failure": f"took more than {limit} s for {TORCHLENS_TURNS + 1} steps"}
    if result.returncode != 0:
        if what == "ways":
            raise RuntimeError(result.stderr)
        return {"failure": result.stderr.strip().rpartition("\n")[2]}
    figures: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])  # torchlens prints, too
    return figures


def _ways(model: str) -> dict[str, float]:
    from gradviz.recording.run.recording_plan import RecordingPlan
    from tests.benchmarks.models import model as made

    step = made(model).step
    lines, everything = RecordingPlan(keep_going=True, gradients=False), RecordingPlan(keep_going=True)
    rivals: dict[str, Callable[[], object]] = {
        PLAIN: step,
        WAYS[0]: lambda: _walked(step),
        WAYS[1]: lambda: _recorded(step, lines, saved_tensors=False),
        WAYS[2]: lambda: _recorded(step, everything, saved_tensors=False),
        RECORDED: lambda: _recorded(step, everything),
        WAYS[4]: lambda: _with_anomaly_mode(step, check_nan=False),
        ANOMALY: lambda: _with_anomaly_mode(step, check_nan=True),
        WAYS[6]: lambda: _recorded(step, replace(everything, calls=True)),
        WAYS[7]: lambda: _recorded(step, replace(everything, calls=True, fingerprints=True)),
    }
    return medians_in_turns(rivals, turns=TURNS.get(model, 7), clock=time.process_time)


def _with_anomaly_mode(step: Callable[[], object], *, check_nan: bool) -> None:
    import torch

    with torch.autograd.set_detect_anomaly(True, check_nan=check_nan):
        step()


def _walked(step: Callable[[], object]) -> None:
    """The backward call is noticed and its graph is walked; nobody watches the forward."""
    from gradviz.recording.backward.backward_watch import BackwardWatch
    from gradviz.recording.walk.graph_walker import walk
    from gradviz.recording.walk.roots import root_of

    def walk_and_run(request: Any, run: Callable[[], Any]) -> Any:
        walk(root.grad_fn for value in request.roots if (root := root_of(value, None)) is not None)
        return run()

    watch = BackwardWatch(walk_and_run, note_inner=lambda _: None)
    watch.start()
    try:
        step()
    finally:
        watch.stop()


def _recorded(step: Callable[[], object], plan: Any, *, saved_tensors: bool = True) -> None:
    from gradviz.recording.recorder import Recorder
    from gradviz.recording.walk.saved_tensor_reader import SavedTensorReader

    def nothing(_: Any, classes: list[Any]) -> list[tuple[()]]:
        return [()] * len(classes)

    with nullcontext() if saved_tensors else patch.object(SavedTensorReader, "of_walk", nothing):
        recorder = Recorder(plan)
        recorder.start()
        try:
            step()
        finally:
            recorder.stop()


def _torchlens(model: str) -> dict[str, float]:
    """Its counterpart of a recorded step: the forward is traced, and the gradient of every operation is kept."""
    from tests.benchmarks.models import model as made

    own = made(model)
    # Before torchlens replaces anything.
    plain = medians_in_turns({PLAIN: own.step}, turns=7, clock=time.process_time)[PLAIN]
    import torchlens  # type: ignore[import-not-found,unused-ignore]

    def step() -> None:
        own.loss.zero_grad()
        options = torchlens.options.CaptureOptions(save_grads=True)
        trace = torchlens.trace(own.loss, own.inputs, capture=options)
        trace.log_backward(trace[trace.output_layers[0]].out)

    return {PLAIN: plain, **medians_in_turns({"torchlens": step}, turns=TORCHLENS_TURNS, clock=time.process_time)}


if __name__ == "__main__":
    print(json.dumps((_torchlens if sys.argv[2] == "torchlens" else _ways)(sys.argv[1])))
