"""Sums of kept memory: each storage counts once, and every grouping has the same total."""

from __future__ import annotations

import pytest

from gradviz.analysis.memory.allocator_balance import balances
from gradviz.analysis.memory.kept_memory import changed_since, kept_bytes, memory_of
from gradviz.analysis.memory.memory_cells import cells_by_line, cells_of
from gradviz.analysis.memory.memory_document import memory_document
from gradviz.analysis.memory.memory_groups import by_dtype, by_line, by_module, by_operation
from gradviz.analysis.memory.remedies import (
    forwards_kept_at_once,
    halved_by_autocast,
    large_for_small_views,
    saved_twice,
)
from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import Graph
from gradviz.graph.saved_tensors import AllocatorReading, SavedTensor, TorchObjects
from tests.builders import GraphBuilder, facts
from tests.unit.analysis.memory_graphs import relu_and_square, saved, stack_of_blocks


def test_a_shared_storage_is_counted_once_and_parameters_apart() -> None:
    memory = memory_of(relu_and_square())

    assert (memory.saved_bytes, memory.parameter_bytes, memory.input_bytes) == (800, 80, 400)


def test_a_line_counts_what_it_keeps_first_and_reports_what_it_shares() -> None:
    first, second = by_line(memory_of(relu_and_square()))

    assert (first.key, first.bytes, first.shared_bytes) == (("train.py", 3), 800, 0)
    assert (second.key, second.bytes, second.shared_bytes) == (("train.py", 4), 0, 400)


def test_memory_that_several_nodes_of_a_box_hold_is_counted_once_and_parameters_not_at_all() -> None:
    builder = GraphBuilder()
    shared, weight = builder.storage(4000), builder.storage(80, "parameter")
    last = builder.leaf("w")
    for _ in range(4):
        last = builder.operation("Mul", last, saved=[saved("self", shared, 4000), saved("other", weight, 80)])
    builder.root(last)
    graph = builder.build()

    assert kept_bytes(graph, range(len(graph.nodes))) == 4000
    assert kept_bytes(graph, [last]) == 4000


@pytest.mark.parametrize("graph", [relu_and_square(), stack_of_blocks(3)])
def test_every_grouping_adds_up_to_the_same_total(graph: Graph) -> None:
    memory = memory_of(graph)
    modules = by_module(graph, memory)

    sums = [sum(group.bytes for group in groups(memory)) for groups in (by_line, by_operation, by_dtype)]
    sums += [sum(module.own_bytes for module in modules), cells_of(graph, memory).bytes, cells_by_line(memory).bytes]

    assert set(sums) == {memory.saved_bytes}


def test_numbered_modules_of_one_class_are_merged_on_request() -> None:
    graph = stack_of_blocks(3)
    memory = memory_of(graph)

    one_by_one = by_module(graph, memory)
    merged = by_module(graph, memory, merge_numbered=True)

    assert [module.path for module in one_by_one] == ["model", "model.h.0", "model.h.1", "model.h.2"]
    assert [(module.path, module.calls, module.bytes) for module in merged] == [
        ("model", 1, 15_000),
        ("model.h.*", 3, 15_000),
    ]


def test_a_small_view_differs_from_several_views_that_cover_everything() -> None:
    builder = GraphBuilder()
    small, split = builder.storage(9000), builder.storage(9000)
    leaf = builder.leaf("w")
    builder.operation("Pow", leaf, saved=[saved("self", small, 12, source=0)])
    builder.operation(
        "Bmm", leaf, saved=[SavedTensor(f"part{n}", facts(n), 3000, split, source=0, source_nr=n) for n in range(3)]
    )
    builder.root(2)

    (found,) = large_for_small_views(memory_of(builder.build()))

    assert (found.held_by[0].operation, found.seen_bytes) == ("PowBackward0", 12)


def test_several_calls_of_a_model_that_wait_for_one_backward_are_reported() -> None:
    builder = GraphBuilder()
    calls = [builder.scope("model", "Net") for _ in range(3)]
    for scope in calls:
        builder.operation("Tanh", builder.leaf("w"), saved=[saved("result", builder.storage(100), 100)], scope=scope)
    builder.root(1)
    graph = builder.build()

    assert forwards_kept_at_once(graph, memory_of(graph)) == [("model", 3, 300, False)]


def test_calls_of_a_cell_that_use_the_result_of_another_differ_from_independent_ones() -> None:
    builder = GraphBuilder()
    state = builder.leaf("state")
    for scope in [builder.scope("cell", "RNNCell") for _ in range(3)]:
        kept = [saved("result", builder.storage(100), 100)]
        inside = builder.operation("Tanh", state, saved=kept, scope=scope)
        state = builder.operation("Mul", inside, builder.leaf("mask"))
    builder.root(state)
    graph = builder.build()

    assert forwards_kept_at_once(graph, memory_of(graph)) == [("cell", 3, 300, True)]


def test_a_cast_that_is_kept_beside_its_source_is_saved_twice() -> None:
    builder = GraphBuilder()
    full, half = builder.storage(400), builder.storage(200)
    exp = builder.operation("Exp", builder.leaf("w"), shape=(100,), saved=[saved("result", full, 400, source=1)])
    cast = builder.operation("ToCopy", exp, line=7, shape=(100,))
    builder.root(builder.operation("Pow", cast, saved=[saved("self", half, 200, source=cast, dtype="float16")]))

    (copy,) = saved_twice(builder.build())

    assert (copy.bytes, copy.operation, copy.line) == (200, "ToCopyBackward0", 7)


def test_autocast_does_not_halve_what_it_keeps_in_float32() -> None:
    builder = GraphBuilder()
    shared, free = builder.storage(400), builder.storage(600)
    leaf = builder.leaf("w")
    product = builder.operation("Addmm", leaf, saved=[saved("mat1", free, 600)])
    relu = builder.operation("Relu", product, saved=[saved("result", shared, 400, source=2)])
    builder.root(builder.operation("LogSoftmax", relu, saved=[saved("result", shared, 400)]))

    assert halved_by_autocast(builder.build()) == 300


def test_only_tensors_that_were_written_to_after_they_were_saved_count_as_changed() -> None:
    builder = GraphBuilder()
    storage = builder.storage(400)
    kept = SavedTensor("self", facts(100), 400, storage, saved_version=1, version=1)
    changed = SavedTensor("other", facts(100), 400, storage, saved_version=1, version=2)
    builder.root(builder.operation("Mul", builder.leaf("w"), line=3, saved=[kept, changed]))

    (found,) = changed_since(builder.build())

    assert (found.operation, found.slot, found.saved_version, found.version) == ("MulBackward0", "other", 1, 2)
    assert (found.file, found.line) == ("train.py", 3)


def test_what_two_slots_see_of_one_tensor_counts_once_and_of_two_tensors_twice() -> None:
    builder = GraphBuilder()
    one, two, opaque = builder.storage(800), builder.storage(800), builder.storage(800)
    leaf = builder.leaf("w")
    builder.operation("Mul", leaf, saved=[saved("self", one, 400, source=0), saved("other", one, 400, source=0)])
    builder.operation("Mul", leaf, saved=[saved("self", two, 400, source=0), saved("other", two, 400, source=1)])
    builder.root(builder.operation("Pow", leaf, saved=[SavedTensor(name, None, 300, opaque) for name in ("a", "b")]))

    uses = memory_of(builder.build()).storages

    assert [use.seen_bytes for use in uses] == [400, 800, 600]
    assert [(use.shape, use.dtype) for use in uses] == [((100,), "float32"), ((100,), "float32"), ((), "?")]


def test_cells_by_line_lie_in_their_line_and_that_in_its_file() -> None:
    whole = cells_by_line(memory_of(relu_and_square()))

    (file,) = whole.inside
    (line,) = file.inside
    assert (file.name, file.bytes, file.storages) == ("train.py", 800, 2)
    assert (line.name, line.title, line.file, line.line) == ("train.py:3", "line 3", "train.py", 3)
    assert sorted(cell.name for cell in line.inside) == ["MulBackward0.self", "ReluBackward0.result"]


def test_a_line_counts_each_storage_that_it_keeps_first_once() -> None:
    first, second = by_line(memory_of(relu_and_square()))

    assert (first.storages, second.storages) == (2, 0)


def test_the_document_names_the_line_that_keeps_the_memory() -> None:
    graph = relu_and_square()
    capture = Capture(Program("train.py"), graphs=(graph,), sources={"train.py": {3: "  y = (w * x).relu()"}})

    first, second = memory_document(capture, graph).by_line

    assert (first.file, first.line, first.text, first.bytes) == ("train.py", 3, "y = (w * x).relu()", 800)
    assert (second.line, second.text, second.shared_bytes) == (4, "", 400)


def test_the_allocator_is_explained_part_by_part() -> None:
    builder = GraphBuilder()
    kept, old = builder.storage(1000), builder.storage(700, made_before=True)
    builder.storage(10, "intermediate", "loss")
    node = builder.operation("Exp", builder.leaf("w"), saved=[saved("result", kept, 1000), saved("self", old, 700)])
    builder.root(node)
    reading = AllocatorReading("cpu", "malloc", before=5000, after=6400, freed=50, block=512)
    graph = builder.build()
    graph = Graph(graph.nodes, graph.roots, storages=graph.storages, allocators=(reading,))

    (balance,) = balances(graph)

    assert (balance.retained, balance.saved, balance.in_variables, balance.rounding) == (1400, 1000, 10, 24 + 502)
    assert balance.rest == 1400 + 50 - 1000 - 10 - 24 - 502


def test_torchs_own_objects_are_part_of_what_the_allocator_gave_out() -> None:
    objects = (TorchObjects("nodes", 3, 500), TorchObjects("views", 2, 50))
    reading = AllocatorReading("cpu", "malloc", before=0, after=2000, objects=objects)

    (balance,) = balances(Graph(allocators=(reading,)))

    assert (balance.objects, balance.rest) == (1600, 400)
