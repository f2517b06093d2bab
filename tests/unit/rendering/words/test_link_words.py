"""The words beside links and in their tooltips."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import Graph, HeldTensor
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.rendering.words.item_words import item_texts
from gradviz.rendering.words.link_words import LinkText, link_texts
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.folding import FoldOptions, fold
from tests.builders import GraphBuilder, facts, graph_of


def words_of(graph: Graph, **options: object) -> dict[tuple[str, str], LinkText]:
    """The words of every link, by the titles of the items that it joins."""
    view = fold(graph, FoldOptions(**options))  # type: ignore[arg-type]
    capture = Capture(Program("train.py"))
    subject = SubjectFacts(capture, graph, view)
    texts = item_texts(subject)
    found = link_texts(subject, LinkGradients(subject), texts)
    return {
        (texts[link.source].title, texts[link.target].title): text for link, text in zip(view.links, found, strict=True)
    }


def held(name: str, output_nr: int = 0) -> HeldTensor:
    return HeldTensor(names=(name,), output_nr=output_nr)


def test_a_link_does_not_repeat_the_shape_of_its_source() -> None:
    found = words_of(graph_of("x -> Mul -> Sum -> loss"))
    assert [text.label for text in found.values()] == ["", "", ""]
    assert "[2, 3] float32 on cpu" in found["mul", "sum"].tooltip


def test_a_link_through_views_shows_the_shape_that_arrives() -> None:
    builder = GraphBuilder()
    product = builder.operation("Mul", builder.leaf("x", kind="input"), shape=(6, 4))
    view = builder.operation("View", product, shape=(2, 12), line=3)
    builder.nodes[view] = replace(builder.nodes[view], held=(held("flat"),))
    builder.root(builder.operation("Sum", view, shape=()))
    text = words_of(builder.build())["mul", "sum"]
    assert text.label == "flat [2, 12]"
    assert "through ViewBackward0" in text.tooltip


def test_a_view_that_the_target_makes_for_itself_is_part_of_the_target() -> None:
    builder = GraphBuilder()
    product = builder.operation("Mul", builder.leaf("x", kind="input"), shape=(2, 3, 4))
    view = builder.operation("View", product, shape=(6, 4), forward_call="torch.matmul", line=3)
    builder.root(builder.operation("Mm", view, shape=(6, 5), forward_call="torch.matmul", line=3))
    assert words_of(builder.build())["mul", "matmul"].label == ""


def test_links_name_which_of_several_outputs_they_carry() -> None:
    builder = GraphBuilder()
    halves = builder.operation("Split", builder.leaf("x", kind="input"))
    outputs, names = (facts(2, 3), facts(2, 5)), (held("left", 0),)
    builder.nodes[halves] = replace(builder.nodes[halves], outputs=outputs, held=names)
    builder.root(builder.operation("Add", builder.operation("Sin", (halves, 0)), builder.operation("Cos", (halves, 1))))
    found = words_of(builder.build())
    assert found["split", "sin"].label == "left [2, 3]"
    assert found["split", "cos"].label == "output 1 [2, 5]"
    assert "output 1 of SplitBackward0" in found["split", "cos"].tooltip


def test_a_link_that_carries_two_outputs_names_both() -> None:
    builder = GraphBuilder()
    parts = builder.operation("Unbind", builder.leaf("x", kind="input"))
    builder.nodes[parts] = replace(builder.nodes[parts], outputs=(facts(4), facts(4)), held=(held("width"),))
    builder.root(builder.operation("Mul", (parts, 0), (parts, 1), shape=(4,)))
    assert words_of(builder.build())["unbind", "mul"].label == "width, output 1"


def test_the_transpose_of_a_weight_is_not_mentioned() -> None:
    builder = GraphBuilder()
    transposed = builder.operation("T", builder.leaf("weight", (4, 8)), shape=(8, 4))
    builder.root(builder.operation("Mm", builder.leaf("x", kind="input"), transposed))
    assert words_of(builder.build())["weight", "mm"].label == ""


def test_several_edges_between_two_items_are_counted() -> None:
    builder = GraphBuilder()
    x = builder.leaf("x", kind="input")
    builder.root(builder.operation("Mul", x, x))
    assert "stands for 2 edges" in words_of(builder.build())["x", "mul"].tooltip


def test_a_link_from_data_says_that_no_gradient_flows_there() -> None:
    found = words_of(graph_of("{mask} -> Mul; x -> Mul -> loss"))
    assert found["mask", "mul"].tooltip == ("mask → mul", "no gradient flows here")
