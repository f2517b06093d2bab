"""What recording adds to a training step on the GPU; printed, not asserted."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.benchmarks.measuring import duration, medians_in_turns
from tests.benchmarks.models import MODELS, Model
from tests.cuda.device import DEVICE

NAMES = {"GPT-2 12x512": "GPT-2 of width 512", "ResNet-50": "ResNet-50"}
TURNS = 20 if DEVICE == "cuda" else 1


def lines() -> Iterator[str]:
    """One for each model."""
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "the processor, a dry run"
    yield f"\na training step on {name}, alone and recorded with gradients on every edge and saved tensors"
    for key, words in NAMES.items():
        torch.manual_seed(0)
        plain, recorded = _measured(MODELS[key]())
        yield f"  {words:<20} {duration(plain):>10} {duration(recorded):>10}  {recorded / plain:.2f} x"


def _measured(model: Model) -> tuple[float, float]:
    from gradviz.recording.recorder import Recorder
    from gradviz.recording.run.recording_plan import RecordingPlan

    moved = Model(model.loss.to(DEVICE), tuple(tensor.to(DEVICE) for tensor in model.inputs))

    def step() -> None:
        moved.step()
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    def recorded() -> None:
        recorder = Recorder(RecordingPlan(keep_going=True))
        recorder.start()
        try:
            step()
        finally:
            recorder.stop()

    found = medians_in_turns({"plain": step, "recorded": recorded}, turns=TURNS)
    return found["plain"], found["recorded"]
