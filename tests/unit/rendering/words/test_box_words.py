"""The words on boxes of functions and lines, and on items for repetitions of different sizes."""

from __future__ import annotations

from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import CallSite, Graph
from gradviz.rendering.words.item_words import ItemText, item_texts
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.build import ViewOptions, view_of
from gradviz.view.folding import FoldOptions
from tests.builders import GraphBuilder

SOURCES = {"/home/me/train.py": {4: "    return torch.tanh(x @ w)", 20: "h = step(x)"}}


def boxes(graph: Graph, group_by: str | None = None, **options: object) -> list[ItemText]:
    viewed = view_of(graph, ViewOptions(group_by=group_by, fold=FoldOptions(**options)))  # type: ignore[arg-type]
    texts = item_texts(SubjectFacts(Capture(Program("train.py"), sources=SOURCES), viewed.graph, viewed.view))
    return [text for text, item in zip(texts, viewed.view.items, strict=True) if item.kind == "box"]


def called_step() -> Graph:
    builder = GraphBuilder()
    caller = builder.line(20, file="/home/me/train.py")
    builder.call_sites.append(CallSite("/home/me/train.py", 4, "step", caller))
    last = builder.operation("Mm", builder.leaf("w"), call_site=1)
    last = builder.operation("Tanh", last, call_site=1)
    builder.root(builder.operation("Sum", last, call_site=builder.line(21)))
    return builder.build()


def test_the_box_of_a_function_says_its_name_and_the_line_that_called_it() -> None:
    (step,) = boxes(called_step(), "function")
    assert (step.title, step.subtitle, step.path) == ("step()", "called at train.py:20", "step()")
    assert step.tooltip[0] == "made in step(), called at train.py:20: h = step(x)"


def test_the_box_of_a_line_is_its_source_text() -> None:
    (line,) = boxes(called_step(), "line")
    assert (line.title, line.subtitle) == ("h = step(x)", "train.py:20")
    assert line.tooltip[0] == "made while train.py:20 ran: h = step(x)"


def widening_layers(count: int) -> Graph:
    builder = GraphBuilder()
    model, last = builder.scope("net", "Net"), builder.leaf("x", (2, 8), kind="input")
    for number in range(count):
        block = builder.scope(f"net.{number}", "Block", model)
        layer = builder.scope(f"net.{number}.fc", "Linear", block, parameter_count=64 + 8 * number)
        weight = builder.leaf(f"net.{number}.fc.weight", (8, 8 + number))
        made = builder.operation("Mm", last, weight, scope=layer, shape=(2, 8 + number))
        last = builder.operation("Relu", made, scope=block, shape=(2, 8 + number))
    builder.root(builder.operation("Sum", last, shape=()))
    return builder.build()


def test_a_box_for_repetitions_of_different_sizes_says_what_differs() -> None:
    _, blocks, layer = boxes(widening_layers(80))
    assert blocks.subtitle == "Block · shapes differ"
    assert blocks.tooltip[2:5] == (
        "80 alike but for shapes, one after the other; the first is shown",
        "results in all repetitions: mm [2, 8 to 87], relu [2, 8 to 87]",
        "parameters in all repetitions: weight [8, 8 to 87]",
    )
    assert layer.badge == "64 to 696 params"


def test_a_folded_box_for_repetitions_of_different_sizes_shows_the_shapes_of_its_output() -> None:
    blocks = boxes(widening_layers(80), depth=1)[1]
    assert blocks.shape == "[2, 8 to 87]"


def test_everything_inside_has_the_shapes_of_the_first_to_the_last() -> None:
    graph = widening_layers(80)
    viewed = view_of(graph, ViewOptions(fold=FoldOptions(depth=9)))
    texts = item_texts(SubjectFacts(Capture(Program("train.py")), viewed.graph, viewed.view))
    shapes = {text.title: text.shape for text in texts}
    assert [shapes[title] for title in ("weight", "mm", "relu", "sum")] == [
        "[8, 8 to 87]", "[2, 8 to 87]", "[2, 8 to 87]", "scalar",
    ]  # fmt: skip


def test_a_loop_within_a_loop_is_named_by_one_of_its_repetitions() -> None:
    builder = GraphBuilder()
    last = builder.leaf("x", kind="input")
    for _ in range(20):
        for _ in range(5):
            last = builder.operation("Cos", builder.operation("Sin", last))
        last = builder.operation("Exp", last)
    builder.root(last)
    assert [(box.title, box.badge) for box in boxes(builder.build())][1] == ("sin, cos", "×5")
