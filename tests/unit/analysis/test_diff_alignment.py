"""A graph against itself after a change: exactly what was done is told. Without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from gradviz.analysis.diff.comparison import Side, compare
from gradviz.analysis.diff.difference import Difference
from gradviz.analysis.diff.sequences import common_pairs
from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import Graph
from tests.builders import GraphBuilder

_NAMES = ("Mul", "Add", "Relu", "Exp", "Tanh", "Sin", "Cos", "Log", "Sqrt", "Neg")


@dataclass
class Layer:
    """A module call with operations that follow each other."""

    path: str
    operations: list[str]
    class_name: str = "Block"
    wrapped_in: str | None = None
    lines: list[int] = field(default_factory=list)


def random_layers(random: Random) -> list[Layer]:
    return [
        Layer(f"model.layer_{number}", [random.choice(_NAMES) for _ in range(random.randint(2, 6))])
        for number in range(random.randint(3, 8))
    ]


def drawn(layers: list[Layer]) -> Graph:
    """Layer by layer, each with its own weight, which its first operation takes."""
    builder = GraphBuilder()
    before = builder.leaf("x", kind="input")
    for layer in layers:
        parent = None if layer.wrapped_in is None else builder.scope(layer.wrapped_in, "Wrapper")
        scope = builder.scope(layer.path, layer.class_name, parent)
        weight = builder.leaf(f"{layer.path}.weight")
        for position, name in enumerate(layer.operations):
            inputs = (before, weight) if position == 0 else (before,)
            before = builder.operation(name, *inputs, scope=scope)
    builder.root(before)
    return builder.build()


def difference(one: list[Layer], other: list[Layer]) -> Difference:
    captures = [Capture(Program("net.py"), graphs=(drawn(layers),)) for layers in (one, other)]
    return compare(Side("A", captures[0]), Side("B", captures[1])).difference


def told(found: Difference) -> list[tuple[str, str]]:
    return [(change.kind, change.what) for change in found.changes]


@pytest.mark.parametrize("number", range(20))
def test_a_graph_is_the_same_as_itself(number: int) -> None:
    layers = random_layers(Random(number))
    found = difference(layers, layers)
    assert found.same and not found.changes
    assert found.matched == found.operations_a == found.operations_b


@pytest.mark.parametrize("number", range(20))
def test_an_operation_that_is_inserted_or_removed_is_told_alone(number: int) -> None:
    random = Random(number)
    layers, changed = random_layers(random), random_layers(Random(number))
    layer = random.choice(changed)
    layer.operations.insert(random.randint(0, len(layer.operations)), "Sigmoid")
    inserted, removed = difference(layers, changed), difference(changed, layers)
    assert told(inserted) == [("only_b", "only B has sigmoid")]
    assert told(removed) == [("only_a", "only A has sigmoid")]
    assert not inserted.same and inserted.first is not None and inserted.first.cause == "only_b"


@pytest.mark.parametrize("number", range(20))
def test_an_inserted_layer_is_told_as_one_and_the_rest_belongs_together(number: int) -> None:
    random = Random(number)
    layers = random_layers(random)
    changed = list(layers)
    changed.insert(random.randint(0, len(layers)), Layer("model.extra", ["Sigmoid", "Sigmoid"], "Extra"))
    found = difference(layers, changed)
    assert found.matched == found.operations_a
    assert [what for kind, what in told(found) if kind == "only_b"] == ["only B has model.extra (Extra, 2 operations)"]


@pytest.mark.parametrize("number", range(20))
def test_a_renamed_module_and_one_that_is_wrapped_are_told_and_change_nothing_else(number: int) -> None:
    random = Random(number)
    layers, renamed, wrapped = random_layers(random), random_layers(Random(number)), random_layers(Random(number))
    index = random.randrange(len(layers))
    renamed[index].path = "model.other"
    wrapped[index].wrapped_in = "model.wrapper"
    found = difference(layers, renamed)
    assert found.same
    assert told(found) == [("renamed", f"the module {layers[index].path} is model.other in B")]
    found = difference(layers, wrapped)
    assert found.same and found.matched == found.operations_a
    assert [kind for kind, _ in told(found)] == ["wrapped"]
    assert "model.wrapper (Wrapper)" in found.changes[0].what


def branches(order: list[str]) -> Graph:
    """Branches of one input, made in this order and added up in the order of their names."""
    builder = GraphBuilder()
    source = builder.leaf("x", kind="input")
    made = {name: builder.operation(name, builder.leaf(f"w_{name}"), source) for name in order}
    total = source
    for name in sorted(made):
        total = builder.operation("Add", total, made[name])
    builder.root(total)
    return builder.build()


@pytest.mark.parametrize("number", range(10))
def test_operations_in_another_order_are_moved_and_not_new(number: int) -> None:
    order = list(_NAMES)
    Random(number).shuffle(order)
    captures = [Capture(Program("net.py"), graphs=(branches(names),)) for names in (list(_NAMES), order)]
    found = compare(Side("A", captures[0]), Side("B", captures[1])).difference
    assert found.same and found.matched == found.operations_a == found.operations_b
    assert {kind for kind, _ in told(found)} <= {"moved"}


def test_a_replaced_operation_is_told_as_such() -> None:
    layers = [Layer("model.a", ["Mul", "Relu", "Add"]), Layer("model.b", ["Exp", "Log"])]
    changed = [Layer("model.a", ["Mul", "Tanh", "Add"]), Layer("model.b", ["Exp", "Log"])]
    found = difference(layers, changed)
    assert told(found) == [("replaced", "relu in A, tanh in B")]
    assert found.first is not None and found.first.cause == "operation"


def longest_common(a: list[int], b: list[int]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def test_pairs_of_two_sequences_ascend_and_have_equal_keys() -> None:
    random = Random(0)
    shares = []
    for _ in range(300):
        a = [random.randrange(5) for _ in range(random.randrange(14))]
        b = [random.randrange(5) for _ in range(random.randrange(14))]
        pairs = common_pairs(a, b)
        assert all(a[i] == b[j] for i, j in pairs)
        assert pairs == sorted(pairs) and [j for _, j in pairs] == sorted({j for _, j in pairs})
        shares.append((len(pairs), longest_common(a, b)))
    # Keys that occur once are matched first, so the series may be a little shorter than the longest.
    assert sum(found for found, _ in shares) > 0.95 * sum(longest for _, longest in shares)
