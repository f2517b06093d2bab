"""A lost gradient is visible in every format; its flag is loud only where it is lost."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gradviz.capture.capture import Capture, Program
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph
from gradviz.rendering.formats import FORMATS, Format, Subject
from gradviz.rendering.words.item_words import item_texts
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.folding import FoldOptions, fold
from tests.builders import GraphBuilder, graph_of
from tests.unit.analysis.test_gradient_origins import FINE, NAN, ZERO, with_flow

PICTURES = ("svg", "dot", "mermaid", "tree")


def marks(graph: Graph, depth: int | None = None) -> dict[str, str]:
    view = fold(graph, FoldOptions(depth=depth))
    texts = item_texts(SubjectFacts(Capture(Program("train.py")), graph, view))
    return {text.title: f"{text.flag.level}: {text.flag.words}" for text in texts if text.flag is not None}


def dead_sign() -> Graph:
    flow = {"Sum": (FINE, [FINE]), "Sign": (FINE, [ZERO]), "Mul": (ZERO, [ZERO]), "w": (ZERO, [])}
    return with_flow("w -> net/Mul -> net/Sign -> Sum -> loss", flow)


def test_the_node_that_makes_zeros_has_a_loud_flag_and_the_following_nodes_a_quiet_one() -> None:
    assert marks(dead_sign()) == {
        "sign": "warning: gradient becomes 0",
        "mul": "quiet: gradient 0",
        "w": "quiet: gradient 0",
    }


def test_a_closed_box_says_what_happens_inside() -> None:
    assert marks(dead_sign(), depth=0) == {"net": "warning: gradient becomes 0 inside"}


def test_nan_is_louder_than_zero() -> None:
    flow = {"Sum": (FINE, [FINE]), "Log": (FINE, [NAN]), "w": (NAN, [])}
    graph = with_flow("w -> net/Log -> Sum -> loss", flow)
    assert marks(graph) == {"log": "alarm: gradient becomes NaN", "w": "quiet: gradient NaN"}


def test_a_leaf_whose_branches_cancel_says_so() -> None:
    graph = with_flow("w -> Sub -> loss; w -> Sub", {"Sub": (FINE, [FINE, FINE]), "w": (ZERO, [])})
    assert marks(graph) == {"w": "warning: branches sum to 0"}


def test_gradients_that_are_fine_have_no_flag() -> None:
    graph = graph_of("w -> Sum -> loss")
    assert marks(graph) == marks(with_flow("w -> Sum -> loss", {"Sum": (FINE, [FINE]), "w": (FINE, [])})) == {}


@pytest.mark.parametrize("chosen", [each for each in FORMATS if each.name in PICTURES], ids=lambda each: each.name)
def test_every_format_to_look_at_shows_where_the_gradient_is_lost(chosen: Format) -> None:
    graph = dead_sign()
    subject = Subject(Capture(Program("train.py"), (graph,)), graph, fold(graph))
    content = chosen.renderer().render(subject)
    assert isinstance(content, str)
    assert content.count("✗ gradient becomes 0") == 1


def test_a_zero_from_the_first_state_of_a_loop_is_quiet_and_one_from_data_used_every_time_is_loud() -> None:
    def flags(data: str) -> set[str]:
        builder = GraphBuilder()
        line, state = builder.line(3), builder.constant("h0")
        w = builder.leaf("w")
        last = builder.operation("Mul", builder.operation("Sigmoid", w), call_site=line, constants=[state])
        for _ in range(2):
            given = [state] if data == "always" else []
            last = builder.operation("Mul", builder.operation("Tanh", last), call_site=line, constants=given)
        builder.root(last)
        graph = builder.build()
        first = next(node.id for node in graph.nodes if node.name == "MulBackward0")
        nodes = [
            replace(
                node,
                arrived=(ZERO if node.id < first else FINE,),
                gradients=tuple(ZERO if node.id <= first else FINE for _ in node.edges),
            )
            for node in graph.nodes
        ]
        view = fold(replace(graph, nodes=tuple(nodes)), FoldOptions())
        texts = item_texts(SubjectFacts(Capture(Program("train.py")), replace(graph, nodes=tuple(nodes)), view))
        return {f"{text.flag.level}: {text.flag.words}" for text in texts if text.flag is not None}

    assert "quiet: gradient 0: first state" in flags("at first")
    assert any(flag.startswith("warning: gradient becomes 0") for flag in flags("always"))


@pytest.mark.parametrize(("of_weight", "expected"), [(FINE, {}), (ZERO, {"net": "warning: gradient becomes 0 inside"})])
def test_a_box_is_marked_for_a_weight_that_gets_zero_in_total_and_not_for_one_of_its_uses(
    of_weight: TensorFigures, expected: dict[str, str]
) -> None:
    builder = GraphBuilder()
    net, w = builder.scope("net", "RNN"), builder.leaf("w")
    uses = [builder.operation("T", w, kind="view", scope=net) for _ in range(2)]
    builder.root(builder.operation("Sum", builder.operation("Mm", *uses, scope=net)))
    graph = builder.build()
    flow = {w: (of_weight, []), uses[0]: (ZERO, [ZERO]), uses[1]: (of_weight, [of_weight])}
    nodes = [
        replace(node, arrived=(flow[node.id][0],), gradients=tuple(flow[node.id][1]))
        if node.id in flow
        else replace(node, arrived=(FINE,), gradients=(ZERO, of_weight) if node.name == "MmBackward0" else (FINE,))
        for node in graph.nodes
    ]
    found = marks(replace(graph, nodes=tuple(nodes)), depth=0)
    assert {title: flag for title, flag in found.items() if title == "net"} == expected


def test_parts_of_a_sequence_that_are_not_used_afterwards_are_quiet() -> None:
    builder = GraphBuilder()
    steps = [builder.operation("Tanh", builder.leaf(f"w{number}")) for number in range(3)]
    builder.root(builder.operation("Select", builder.operation("Stack", *steps)))
    graph = builder.build()
    stack = next(node for node in graph.nodes if node.name == "StackBackward0")
    unused = {edge.target for edge in stack.edges[:2] if edge is not None}
    unused |= {edge.target for node in unused for edge in graph.nodes[node].edges if edge is not None}
    nodes = [
        replace(
            node,
            arrived=(ZERO if node.id in unused else FINE,),
            gradients=(ZERO, ZERO, FINE)
            if node is stack
            else tuple(ZERO if node.id in unused else FINE for _ in node.edges),
        )
        for node in graph.nodes
    ]
    graph = replace(graph, nodes=tuple(nodes))
    texts = item_texts(SubjectFacts(Capture(Program("train.py")), graph, fold(graph, FoldOptions())))
    flags = {f"{text.flag.level}: {text.flag.words}" for text in texts if text.flag is not None}
    assert "quiet: gradient 0 to 2 of 3 parts" in flags
    assert not any(flag.startswith("warning") for flag in flags)
