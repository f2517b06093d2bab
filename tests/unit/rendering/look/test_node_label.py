"""What is drawn on an item: nothing twice, and no word cut where a shorter one would do."""

from __future__ import annotations

from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import Node
from gradviz.rendering.look.node_label import NodeLabel, node_label_of, node_labels_of
from gradviz.rendering.words.item_words import ItemText, item_texts
from gradviz.rendering.words.setting_words import setting_words
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.folding import FoldOptions, fold
from gradviz.view.model import Item
from tests.builders import GraphBuilder, graph_of


def label_of(text: ItemText) -> NodeLabel:
    return node_label_of(graph_of("w -> Add -> loss"), Item(1, "node", node=1), text)


def words_of(node_label: NodeLabel) -> list[str]:
    return [line.text for line in node_label.lines]


def test_value_and_gradient_are_shortened_each_for_itself_and_keep_their_arrows() -> None:
    down, up = ("[-1.01, -1.18, -1.12, -0.311, …]", "[0.000125, -0.125, -0.5, 3.5e-07, …]")
    assert words_of(label_of(ItemText("mul", numbers=f"↓ {down}  ↑ {up}")))[1:] == [f"↓ {down}", f"↑ {up}"]
    long = "[" + ", ".join(["-0.000123456"] * 4) + "]"
    assert words_of(label_of(ItemText("mul", numbers=f"↓ {long}  ↑ 1")))[1:] == [
        "↓ [-0.000123456, -0.000123456, …]",
        "↑ 1",
    ]


def test_a_list_of_operations_that_does_not_fit_becomes_a_shorter_list() -> None:
    label = label_of(ItemText("LSTM, Linear, LayerNorm, … 3 more", badge="×12 · 85.1M params"))
    assert label.lines[0].text == "LSTM, Linear, … 4 more"


def test_a_subtitle_that_repeats_the_title_and_a_line_that_the_box_around_says_are_not_drawn() -> None:
    builder = GraphBuilder()
    model, line = builder.scope("model", "Net"), builder.line(12)
    first = builder.operation("Relu", builder.leaf("w"), scope=model, call_site=line)
    second = builder.operation("Addmm", first, scope=model, call_site=line, forward_call="torch.nn.functional.linear")
    builder.root(second)
    graph = builder.build()
    view = fold(graph, FoldOptions())
    texts = item_texts(SubjectFacts(Capture(Program("train.py")), graph, view))
    drawn = {text.title: label for text, label in zip(texts, node_labels_of(graph, view, texts), strict=True)}
    assert drawn["model"].lines[0].aside == "Net · line 12"
    assert words_of(drawn["relu"]) == ["relu", "[2, 3]"]
    assert words_of(drawn["linear"]) == ["linear", "AddmmBackward0", "[2, 3]"]
    assert all("line 12" in " ".join(text.tooltip) or text.line for text in texts if text.title in ("relu", "linear"))


def test_the_number_of_an_operation_is_beside_its_title() -> None:
    for name, call, shown in (
        ("Mul", "torch.Tensor.mul", "3"),
        ("Rsub", "torch.Tensor.__rsub__", "3 - …"),
        ("Pow", "torch.Tensor.__rpow__", "3 ** …"),
    ):
        assert setting_words(Node(0, f"{name}Backward0", forward_call=call, number=3)) == shown
