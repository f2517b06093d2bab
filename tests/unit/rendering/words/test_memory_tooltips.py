"""Tooltips say what is kept, how large it is, and which other nodes keep it."""

from __future__ import annotations

from gradviz.graph.model import Graph
from gradviz.graph.saved_tensors import SavedTensor
from gradviz.rendering.words.item_words import item_texts
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.folding import FoldOptions, fold
from tests.builders import GraphBuilder
from tests.captures import small_capture, small_graph
from tests.unit.analysis.memory_graphs import relu_and_square, saved, stack_of_blocks


def kept(graph: Graph, title: str, depth: int | None = None) -> list[str]:
    """The lines about saved tensors in the tooltip of the item with this title."""
    view = fold(graph, FoldOptions(depth=depth))
    (text,) = [text for text in item_texts(SubjectFacts(small_capture(), graph, view)) if text.title == title]
    return [line for line in text.tooltip if line.startswith("saves")]


def test_a_line_for_each_saved_tensor_says_who_keeps_the_same_memory() -> None:
    graph = relu_and_square()
    assert kept(graph, "relu") == ["saves result: [100], 400 B, also kept by PowBackward0"]
    assert kept(graph, "mul") == ["saves self: [100], 400 B, input x", "saves other: [20], 80 B, parameter w"]


def test_a_saved_tensor_without_memory_or_of_unknown_size_says_so() -> None:
    assert kept(small_graph(), "linear")[-1] == "saves result: of unknown size, packed by the hook pack.<locals>.unpack"
    builder = GraphBuilder()
    slots = [SavedTensor("self", bytes=400, state="recomputed"), SavedTensor("other", state="freed")]
    builder.root(builder.operation("Mul", builder.leaf("w"), saved=slots))
    assert kept(builder.build(), "mul") == [
        "saves self: 400 B not kept: checkpointing computes it again",
        "saves other: freed by an earlier backward",
    ]


def test_a_small_view_names_the_size_of_the_storage_that_it_keeps() -> None:
    builder = GraphBuilder()
    large = builder.storage(4000)
    builder.root(builder.operation("Mul", builder.leaf("w"), saved=[saved("self", large, 40)]))
    assert kept(builder.build(), "mul") == ["saves self: [10], 40 B, of a storage of 3.91 KiB"]


def test_a_tensor_that_was_changed_since_it_was_saved_says_so() -> None:
    builder = GraphBuilder()
    slots = [SavedTensor("self", bytes=400, saved_version=1, version=3)]
    builder.root(builder.operation("Mul", builder.leaf("w"), saved=slots))
    assert kept(builder.build(), "mul") == ["saves self: 400 B, changed in place since: version 1 when saved, 3 now"]


def test_very_many_saved_tensors_are_not_all_listed() -> None:
    builder = GraphBuilder()
    slots = [saved(f"tensors[{index}]", builder.storage(4), 4) for index in range(100)]
    builder.root(builder.operation("Cat", builder.leaf("w"), saved=slots))
    lines = kept(builder.build(), "cat")
    assert (len(lines), lines[-1]) == (9, "saves 92 more tensors")


def test_a_folded_box_shows_its_total() -> None:
    assert kept(stack_of_blocks(3), "model", depth=0) == [
        "saves 14.6 KiB for backward, parameters and buffers not counted"
    ]
