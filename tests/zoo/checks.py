"""What must hold for every family: the recording is true, and the picture of it can be read."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from xml.etree import ElementTree

import torch

from gradviz.api import Recording
from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.invariants import check_graph
from gradviz.graph.model import Graph, Node
from tests.zoo.naive_graph import NaiveNode, NaiveTensor
from tests.zoo.training_step import Step

MAX_ITEMS = 120
MAX_LINES_OF_A_TREE = 200


def untruths(step: Step, *, hides_layers: bool) -> Iterator[str]:
    """What the recording of a step says that is not so; `hides_layers` as in `Family`."""
    assert step.recording is not None
    capture = step.recording.capture
    if len(capture.graphs) != 1:
        yield f"{len(capture.graphs)} graphs instead of one"
        return
    told = [sentence for sentence in capture.disclosures if hides_layers and "is not in this graph" in sentence]
    yield from (f"disclosed: {sentence}" for sentence in capture.disclosures if sentence not in told)
    graph = capture.graphs[0]
    check_graph(graph)
    pairs = _pairs(step.walked, graph)
    if isinstance(pairs, str):
        yield pairs
        return
    for naive, node in pairs:
        yield from _saved_slots(naive, node)
        if naive.is_leaf:
            yield from _leaf(naive, node, step.gradients)
    if not told:
        reached = {naive.parameter for naive, _ in pairs}
        missed = [name for name, gradient in step.gradients.items() if gradient is not None and name not in reached]
        yield from (f"model.{name} has a gradient and no leaf" for name in missed)
    known = {name for parameter in capture.parameters for name in parameter.names}
    yield from (f"parameter {name} is not listed" for name in step.gradients if f"model.{name}" not in known)
    if read_capture(write_capture(capture), "zoo") != capture:
        yield "the capture that a file gives back is another one"


def _pairs(walked: list[NaiveNode], graph: Graph) -> list[tuple[NaiveNode, Node]] | str:
    """Each node of the naive walk with the one that was recorded; a sentence where the two graphs are not the same.

    Both are walked in step from the loss, by the places of their edges.
    """
    (root,) = graph.roots
    partner = {0: root.node}
    waiting = [0]
    while waiting:
        place = waiting.pop()
        naive, node = walked[place], graph.nodes[partner[place]]
        if (naive.name, naive.sequence_nr, len(naive.edges)) != (node.name, node.sequence_nr, len(node.edges)):
            return f"node {node.id} is recorded as {node.name} and is {naive.name}"
        for number, (edge, recorded) in enumerate(zip(naive.edges, node.edges, strict=True)):
            if edge is None and recorded is None:
                continue
            if edge is None or recorded is None or edge[1] != recorded.input_nr:
                return f"edge {number} of node {node.id} ({node.name}) is another one"
            if edge[0] not in partner:
                partner[edge[0]] = recorded.target
                waiting.append(edge[0])
            elif partner[edge[0]] != recorded.target:
                return f"edge {number} of node {node.id} ({node.name}) leads elsewhere"
    if not len(partner) == len(set(partner.values())) == len(walked) == len(graph.nodes):
        return f"{len(graph.nodes)} nodes are recorded, and there are {len(walked)}"
    return [(walked[place], graph.nodes[node]) for place, node in partner.items()]


def _saved_slots(naive: NaiveNode, node: Node) -> Iterator[str]:
    listed = {
        saved.slot: NaiveTensor(saved.tensor.shape, saved.tensor.dtype, saved.bytes)
        for saved in node.saved
        if saved.kept_in == "slot" and saved.tensor is not None
    }
    if listed != naive.saved:
        yield f"node {node.id} ({node.name}) is recorded to save {listed}, and saves {naive.saved}"


def _leaf(naive: NaiveNode, node: Node, gradients: dict[str, torch.Tensor | None]) -> Iterator[str]:
    if naive.parameter is None:
        return
    if f"model.{naive.parameter}" not in node.names:
        yield f"model.{naive.parameter} is recorded as {node.names}"
    elif node.kind != "parameter":
        yield f"model.{naive.parameter} is recorded as a leaf of kind {node.kind}"
    gradient = gradients[naive.parameter]
    after = node.leaf_gradient.after if node.leaf_gradient is not None else None
    if gradient is None:
        if after is not None:
            yield f"model.{naive.parameter} is recorded to have a gradient"
    elif after is None or not are_figures_of(after, gradient):
        yield f"figures of the gradient of model.{naive.parameter} are wrong: {after}"


def are_figures_of(figures: TensorFigures, tensor: torch.Tensor) -> bool:
    """Whether these are the figures of a dense tensor: all exact, but for the norm, whose sum has another order."""
    finite = tensor[tensor.isfinite()].double()
    exact = (
        figures.shape == tuple(tensor.shape)
        and figures.count == tensor.numel()
        and figures.zeros == int((tensor == 0).sum())
        and figures.nans == int(tensor.isnan().sum())
        and figures.infs == int(tensor.isinf().sum())
    )
    if not exact or not finite.numel():
        return exact
    norm = float(finite.square().sum().sqrt())
    return (
        figures.minimum == float(finite.min())
        and figures.maximum == float(finite.max())
        and figures.norm is not None
        and math.isclose(figures.norm, norm, rel_tol=1e-4, abs_tol=1e-30)
    )


# -- what is drawn -----------------------------------------------------------------------------------------------


class Drawn:
    """How large a picture and a tree are, and what is wrong with them."""

    def __init__(self, recording: Recording) -> None:
        svg = str(recording.svg())
        self.items = len(set(re.findall(r'data-item="(\d+)"', svg)))
        self.tree_lines = len(str(recording.tree(width=100)).splitlines())
        self.problems: list[str] = []
        ElementTree.fromstring(svg)
        if not _is_dot(recording.dot()):
            self.problems.append("Graphviz does not accept the DOT text")
        if not 3 <= self.items <= MAX_ITEMS:
            self.problems.append(f"{self.items} items are drawn")
        if not 3 <= self.tree_lines <= MAX_LINES_OF_A_TREE:
            self.problems.append(f"the tree has {self.tree_lines} lines")


def _is_dot(text: str) -> bool:
    """Whether Graphviz accepts it; where that is not installed, whether it looks so."""
    if shutil.which("dot") is None:
        return "digraph" in text and text.rstrip().endswith("}")
    run = subprocess.run(["dot", "-Tcanon"], input=text, capture_output=True, encoding="utf-8")
    return run.returncode == 0 and not run.stderr
