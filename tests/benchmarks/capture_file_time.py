"""Writing and reading the capture of a large graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from gradviz.capture.capture import Capture, Program
from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.model import CallSite, Edge, Graph, ModuleScope, Node, Root, TensorFacts
from tests.benchmarks.measuring import Row, medians_in_turns


def measure() -> Iterator[Row]:
    for size in (20_000, 200_000):
        capture = _chain(size)
        data = write_capture(capture)
        rivals: dict[str, Callable[[], object]] = {
            "write": partial(write_capture, capture),
            "read": partial(read_capture, data, ""),
        }
        found = medians_in_turns(rivals, turns=3)
        for what, seconds in found.items():
            yield Row(f"{what} a capture of {size:,} nodes", seconds, f"{len(data) / 1e6:.1f} MB")


def _chain(size: int) -> Capture:
    graph = Graph(
        nodes=tuple(_node(number) for number in range(size)),
        roots=(Root(size - 1, name="loss"),),
        scopes=tuple(ModuleScope(f"model.h.{number}", "Block") for number in range(100)),
        call_sites=tuple(CallSite("train.py", number + 1) for number in range(100)),
    )
    return Capture(Program("train.py"), graphs=(graph,))


def _node(number: int) -> Node:
    return Node(
        id=number,
        name="AddmmBackward0",
        sequence_nr=number,
        edges=(Edge(number - 1), None, Edge(max(0, number - 12))) if number else (),
        outputs=(TensorFacts((8, 64 + number % 7), "float32"),),
        forward_call="torch.nn.functional.linear",
        call_site=number % 100,
        scope=number % 100,
        attributes={"alpha": 1.0, "dim": -1},
    )
