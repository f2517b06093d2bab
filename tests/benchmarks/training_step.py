"""What recording adds to a training step of GPT-2, and what torch's own anomaly mode adds, which keeps less."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from tests.benchmarks.measuring import REPOSITORY, Row, medians_in_turns, times_as_long

TURNS = 15
PROCESSES = 3


def measure() -> Iterator[Row]:
    found = medians_in_turns(_rivals(), turns=TURNS)
    plain = found["plain"]
    for what, seconds in found.items():
        yield Row(what, seconds, times_as_long(seconds, plain))
    anomaly = found["set_detect_anomaly(check_nan=False)"] - plain
    for what in ("forward recorded", "step recorded, graph built"):
        extra = found[what] - plain
        yield Row(f"extra of: {what}", extra, f"{extra / anomaly:.2f} x the extra of anomaly mode")
    yield from _after_the_last_capture()


def _after_the_last_capture() -> Iterator[Row]:
    times: dict[str, list[float]] = {"untouched": [], "recorded": []}
    for _ in range(PROCESSES):
        for way, seconds in times.items():
            command = [sys.executable, "-m", "tests.benchmarks.training_step", way]
            result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
            seconds.append(float(result.stdout))
    untouched, recorded = median(times["untouched"]), median(times["recorded"])
    yield Row("step in a process without gradviz", untouched)
    yield Row("step after the last wanted capture", recorded, times_as_long(recorded, untouched))


def _rivals() -> dict[str, Callable[[], object]]:
    import torch

    from gradviz.recording.run.recording_plan import RecordingPlan

    step = _step()

    def with_anomaly_mode() -> None:
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            step()

    return {
        "plain": step,
        "set_detect_anomaly(check_nan=False)": with_anomaly_mode,
        "forward recorded": lambda: _recorded(step, RecordingPlan(backward=2, keep_going=True)),
        "step recorded, graph built": lambda: _recorded(step, RecordingPlan(keep_going=True)),
    }


def _step() -> Callable[[], None]:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    # Threads that wait for each other measure what else the machine is doing.
    torch.set_num_threads(1)
    config = GPT2Config(n_embd=96, n_head=4, n_positions=64, vocab_size=500, bos_token_id=0, eos_token_id=0)
    model: Any = GPT2LMHeadModel(config)
    tokens = torch.randint(0, config.vocab_size, (2, 16))

    def step() -> None:
        model.zero_grad()
        model(input_ids=tokens, labels=tokens).loss.backward()

    return step


def _recorded(step: Callable[[], None], plan: Any) -> None:
    from gradviz.recording.recorder import Recorder

    recorder = Recorder(plan)
    recorder.start()
    try:
        step()
    finally:
        recorder.stop()


def _print_time_of_a_step(way: str) -> None:
    step = _step()
    if way == "recorded":
        from gradviz.recording.recorder import Recorder
        from gradviz.recording.run.recording_plan import RecordingPlan

        recorder = Recorder(RecordingPlan(keep_going=True))
        recorder.start()
    # The first step is the one that is recorded; it warms up caches as well and is not counted.
    print(medians_in_turns({"step": step}, turns=TURNS)["step"])


if __name__ == "__main__":
    _print_time_of_a_step(sys.argv[1])
