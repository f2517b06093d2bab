"""A share of the conformance run, and that it would notice if a recording were wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from gradviz.graph.model import Graph, Node
from tests.conformance.comparison import differences
from tests.conformance.known_graph import KnownGraph
from tests.conformance.runs import Run, run_plain, run_recorded, run_watched
from tests.conformance.sample import Prepared, Sample

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.timeout(3600)  # a minute of one core, of which nineteen other programs may leave a twentieth
def test_every_operator_and_module_of_torch_is_recorded_as_torch_computes_it() -> None:
    """The first sample of each, in dtypes that take turns: to make all of them takes longer than to record these."""
    # In a process of its own: to load torch's test inputs changes settings, and warns.
    command = [sys.executable, "-m", "tests.conformance", "operators", "modules", "--first"]
    result = subprocess.run([*command, "--jobs", "1"], cwd=REPOSITORY, capture_output=True, text=True)

    assert result.returncode == 0, result.stdout + result.stderr
    counts = re.findall(r"(\d+) of \d+ .* samples passed, 0 failed", result.stdout)
    operators, modules = map(int, counts)
    assert operators > 500
    assert modules > 100


def _prepare() -> Prepared:
    generator = torch.Generator().manual_seed(1)
    leaves = [torch.randn(3, generator=generator).requires_grad_() for _ in range(2)]
    return Prepared(leaves, lambda: (leaves[0] * leaves[1]).exp().softmax(0))


@pytest.fixture(scope="module")
def a_product() -> tuple[Graph, KnownGraph, Run]:
    """A recorded graph, and what torch says of the same computation."""
    sample = Sample("mul", "mul", _prepare)
    _, capture = run_recorded(sample)
    _, known = run_watched(sample)
    return capture.graphs[0], known, run_plain(sample)


def test_a_right_recording_differs_in_nothing(a_product: tuple[Graph, KnownGraph, Run]) -> None:
    assert list(differences(*a_product)) == []


def _without_saved(node: Node) -> Node:
    return replace(node, saved=node.saved[1:])


def _with_other_edges(node: Node) -> Node:
    return replace(node, edges=node.edges[::-1])


def _with_another_maximum(node: Node) -> Node:
    assert node.arrived[0] is not None
    return replace(node, arrived=(replace(node.arrived[0], maximum=7.0), *node.arrived[1:]))


def _with_other_values(node: Node) -> Node:
    figures = node.gradients[0]
    assert figures is not None and figures.values is not None
    return replace(node, gradients=(replace(figures, values=figures.values[::-1]), *node.gradients[1:]))


def _with_another_name(node: Node) -> Node:
    return replace(node, name="DivBackward0")


def _with_another_argument(node: Node) -> Node:
    return replace(node, attributes=dict.fromkeys(node.attributes, 12))


@pytest.mark.parametrize(
    ("name", "falsify", "told"),
    [
        ("MulBackward0", _without_saved, "saved"),
        ("MulBackward0", _with_other_edges, "the leaf's gradient"),
        ("ExpBackward0", _with_another_maximum, "has maximum"),
        ("MulBackward0", _with_other_values, "other values"),
        ("MulBackward0", _with_another_name, "instead of MulBackward0"),
        ("SoftmaxBackward0", _with_another_argument, "attribute dim"),
    ],
)
def test_a_wrong_recording_is_noticed(
    a_product: tuple[Graph, KnownGraph, Run], name: str, falsify: Callable[[Node], Any], told: str
) -> None:
    graph, known, run = a_product
    nodes = tuple(falsify(node) if node.name == name else node for node in graph.nodes)

    assert told in "\n".join(differences(replace(graph, nodes=nodes), known, run))
