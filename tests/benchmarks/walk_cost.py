"""What a graph costs against the least that any walk of it must do, up to a million nodes.

``bare`` collects the nodes and nothing else, as a plain Python program would; ``bare, no collector`` is the same while
Python's garbage collector is paused; ``walk`` puts the nodes in order and numbers their edges; ``build`` is all that
happens at a backward call: walk and model, with names, shapes and attributes. gradviz pauses the collector itself.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from tests.benchmarks.measuring import REPOSITORY, Row

SIZES = (10_000, 100_000, 1_000_000)
WAYS = ("bare", "bare, no collector", "walk", "build")
TURNS = 3


def measure() -> Iterator[Row]:
    for size in SIZES:
        found: dict[str, list[tuple[float, int]]] = {way: [] for way in WAYS}
        for _ in range(TURNS):
            for way, figures in found.items():
                figures.append(_in_a_process_of_its_own(way, size))
        plain, least = (median(seconds for seconds, _ in found[way]) for way in WAYS[:2])
        for way, figures in found.items():
            seconds, memory = median(each for each, _ in figures), median(each for _, each in figures)
            remark = (
                f"{seconds / size * 1e6:.2f} us and {memory / size:,.0f} bytes a node, {seconds / plain:.1f} x bare"
            )
            remark += f", {seconds / least:.1f} x bare without the collector"
            yield Row(f"{way} of {size:,} nodes", seconds, remark)


def _in_a_process_of_its_own(way: str, size: int) -> tuple[float, int]:
    """Seconds and bytes. Wrappers of nodes stay once they are made: a graph is walked for the first time only once."""
    command = [sys.executable, "-m", "tests.benchmarks.walk_cost", way, str(size)]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    seconds, memory = json.loads(result.stdout)
    return seconds, memory


def _print_figures_of_one_walk(way: str, size: int) -> None:
    loss = _graph(size)
    actions = {"bare": _bare_walk, "bare, no collector": _bare_walk, "walk": _walk, "build": _build}
    action = actions[way](loss)
    next(action)
    gc.collect()
    if way == "bare, no collector":
        gc.disable()
    before, start = _peak_memory(), time.perf_counter()
    kept = next(action)
    print(json.dumps([time.perf_counter() - start, _peak_memory() - before]), flush=True)
    # A deep graph cannot be freed after a bare walk: it would overflow the C stack. So all of it is kept to the end.
    assert kept
    os._exit(0)


def _graph(size: int) -> Any:
    """A chain of multiplications and additions with two leaves."""
    import torch

    x = weight = torch.full((1,), 0.5, requires_grad=True)
    bias = torch.ones(1, requires_grad=True)
    for _ in range((size - 2) // 2):
        x = x * weight + bias
    return x


# The ways are generators: up to their first yield they prepare, up to the second they do what is measured.


def _bare_walk(loss: Any) -> Iterator[Any]:
    yield None
    seen = {loss.grad_fn}
    waiting = [loss.grad_fn]
    while waiting:
        for follower, _ in waiting.pop().next_functions:
            if follower is not None and follower not in seen:
                seen.add(follower)
                waiting.append(follower)
    yield seen


def _walk(loss: Any) -> Iterator[Any]:
    from gradviz.recording.walk.graph_walker import walk

    yield None
    yield walk([loss.grad_fn])


def _build(loss: Any) -> Iterator[Any]:
    from gradviz.recording.recorder import Recorder
    from gradviz.recording.run.recording_plan import RecordingPlan

    recorder = Recorder(RecordingPlan(root="loss"))
    yield None
    recorder.record_root({"loss": loss})
    yield recorder


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    _print_figures_of_one_walk(sys.argv[1], int(sys.argv[2]))
