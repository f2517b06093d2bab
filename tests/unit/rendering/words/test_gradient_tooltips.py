"""Tooltips show the figures of a gradient, in three digits."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.capture.capture import Capture, Program
from gradviz.graph.gradients import BranchShare, LeafGradient, NodeRun, TensorFigures
from gradviz.graph.model import Graph
from gradviz.rendering.words.gradient_tooltips import figures_lines
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.rendering.words.item_words import item_texts
from gradviz.rendering.words.link_words import link_texts
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.folding import FoldOptions, fold
from tests.builders import graph_of, unrolled_rnn
from tests.unit.analysis.memory_graphs import stack_of_blocks
from tests.unit.analysis.test_gradient_origins import FINE, ZERO, with_flow
from tests.unit.rendering.look.test_color_by import fading

WHOLE = TensorFigures(
    shape=(8, 16), norm=0.0312345, mean=-1.23456e-5, minimum=-0.0123456, maximum=0.02, count=128, zeros=16,
    histogram=(1, 0, 40, 71), histogram_from=-5,
)  # fmt: skip


def tooltip(graph: Graph, title: str, depth: int | None = None) -> list[str]:
    capture = Capture(Program("train.py"))
    texts = item_texts(SubjectFacts(capture, graph, fold(graph, FoldOptions(depth=depth))))
    (found,) = (text.tooltip for text in texts if text.title == title)
    return [line for line in found if "grad" in line or "engine" in line or line.startswith(("value", "sizes"))]


def link_tooltip(graph: Graph, place: int) -> tuple[str, ...]:
    view, capture = fold(graph), Capture(Program("train.py"))
    words = SubjectFacts(capture, graph, view)
    return link_texts(words, LinkGradients(words), item_texts(words))[place].tooltip


def with_fields(graph: Graph, name: str, **fields: object) -> Graph:
    nodes = (
        replace(node, **fields) if name in node.names or node.name == f"{name}Backward0" else node
        for node in graph.nodes
    )
    return replace(graph, nodes=tuple(nodes))


def test_a_gradient_is_described_by_its_figures_and_the_sizes_of_its_elements() -> None:
    assert list(figures_lines("gradient", WHOLE)) == [
        "gradient [8, 16]: norm 0.0312, mean -1e-05, from -0.0123 to 0.02, 12.5 % zeros",
        "sizes 1e-5 ▁ ▅█ 1e-1",
    ]


def test_the_mean_has_no_digits_below_the_rounding_of_sums() -> None:
    noisy = replace(WHOLE, mean=1.7e-12)
    assert "mean 0," in next(figures_lines("gradient", noisy))


def test_problems_come_first_and_unknown_figures_are_named() -> None:
    broken = replace(WHOLE, nans=3, infs=1, norm=None, mean=None, minimum=None, maximum=None, histogram=(), zeros=0)
    told = [
        list(figures_lines("gradient", each))
        for each in (broken, ZERO, TensorFigures(is_undefined=True), TensorFigures(unmeasured="sparse"), None)
    ]
    assert told == [
        ["gradient [8, 16]: 3 of 128 NaN, 1 of 128 Inf"],
        ["gradient scalar: all 6 elements 0"],
        ["gradient: none, which counts as zero"],
        ["gradient: not measured, sparse"],
        [],
    ]


def test_small_recorded_gradients_are_written_in_full() -> None:
    kept = TensorFigures(shape=(2,), norm=5.0, mean=3.5, minimum=3.0, maximum=4.0, count=2, values=(3.0, 4.0))
    assert list(figures_lines("gradient", kept))[-1] == "gradient = [3, 4]"
    single = TensorFigures(norm=0.5, mean=-0.5, minimum=-0.5, maximum=-0.5, count=1, values=(-0.5,))
    assert list(figures_lines("gradient", single)) == ["gradient: -0.5"]


def test_a_node_says_when_it_ran_and_what_a_hook_made_of_its_gradient() -> None:
    graph = with_flow("w -> Mul -> loss", {"Mul": (FINE, [FINE]), "w": (FINE, [])})
    graph = with_fields(graph, "Mul", before_hooks=(replace(FINE, norm=2.0),), run=NodeRun(0, seconds=1.0))
    assert tooltip(graph, "mul") == [
        "gradient before the hooks on it scalar: norm 2",
        "gradient after them scalar: norm 1",
        "run by the engine as number 1 of 2",
    ]


def test_a_leaf_says_what_happened_to_its_grad() -> None:
    graph = with_flow("w -> Mul -> loss", {"w": (FINE, [])})
    added = LeafGradient("accumulated", before=replace(FINE, norm=3.0), after=replace(FINE, norm=4.0))
    graph = with_fields(graph, "w", leaf_gradient=added)
    assert ".grad was added to: norm 3 before, 4 after" in tooltip(graph, "w")
    assert ".grad was empty before" in tooltip(with_fields(graph, "w", leaf_gradient=LeafGradient("fresh")), "w")


def test_a_link_says_its_part_of_the_sum_where_branches_meet() -> None:
    graph = with_flow("w -> Sub -> loss; w -> Sub", {"Sub": (FINE, [FINE, FINE]), "w": (FINE, [])})
    shares = (BranchShare(1.5, -0.25), BranchShare(-0.5))
    lines = link_tooltip(with_fields(graph, "Sub", shares=shares), 0)
    assert lines[-5:] == (
        "gradient back scalar: norm 1",
        "its part of the sum: 150 %",
        "cosine to the other branches: -0.25",
        "gradient back scalar: norm 1",
        "its part of the sum: -50 %",
    )


def test_a_link_within_many_repetitions_says_the_gradient_of_the_first_and_the_last() -> None:
    rnn = unrolled_rnn(1000)
    nodes = tuple(replace(node, gradients=(replace(FINE, norm=float(node.id)),) * 2) for node in rnn.nodes)
    graph = replace(rnn, nodes=nodes)
    users = [node.id for node in rnn.nodes if node.name == "AddBackward0"]
    tooltips = [link_tooltip(graph, link) for link in range(len(fold(graph).links))]
    said = f"gradients back along 1,000 edges, norms: {users[0]:.3g} … {users[-1]:.3g}"
    assert said in [line for lines in tooltips for line in lines]
    assert max(map(len, tooltips)) < 20


def test_a_box_shows_the_gradient_of_its_output_for_the_first_and_the_last_repetition() -> None:
    lines = tooltip(fading(stack_of_blocks(3)), "h.0 … h.2", depth=1)
    assert lines[-1] == "gradient, norm: 1e-05 → 0.1, at the first and the last of 3"


def test_small_values_are_on_the_picture_in_both_directions() -> None:
    value = TensorFigures(norm=3.0, count=1, minimum=3.0, maximum=3.0, values=(3.0,))
    graph = with_fields(graph_of("w -> Mul -> loss"), "Mul", values=(value,), arrived=(replace(value, values=(0.5,)),))
    capture = Capture(Program("train.py"))
    numbers = {text.title: text.numbers for text in item_texts(SubjectFacts(capture, graph, fold(graph)))}
    assert numbers == {"w": "", "mul": "↓ 3  ↑ 0.5", "loss": "↓ 3"}
