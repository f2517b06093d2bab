"""The shapes of repetitions that are drawn once and differ in nothing else: ``[1, 1 to 512]``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gradviz.graph.model import Node, TensorFacts
from gradviz.rendering.words.box_words import lies_where_shapes_differ, operations_in, repetitions
from gradviz.rendering.words.common_words import RANGE, listed, range_words, shape_words
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.model import Item


def shapes_through(tensors: Sequence[TensorFacts | None]) -> str:
    """One shape for all tensors, with the range of each size that differs: ``[2, 16 to 268, 8]``."""
    known = [tensor for tensor in tensors if tensor is not None]
    if not known or len({len(tensor.shape) for tensor in known}) > 1:
        return shape_words(known[0]) if known else ""
    sizes = zip(*(tensor.shape for tensor in known), strict=True)
    return shape_words(replace(known[0], shape=tuple(map(_through, sizes))))


def _through(sizes: tuple[int | str, ...]) -> int | str:
    """The smallest and the largest size, the other way round if the sizes only fall."""
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(set(sizes)) == 1:
        return sizes[0]
    return range_words(numbers, str) if len(numbers) == len(sizes) else f"{sizes[0]} → {sizes[-1]}"


def is_of_several(shape: str) -> bool:
    """Whether the words of a shape are those of shapes that differ."""
    return RANGE in shape or " → " in shape


def operation_shapes(facts: SubjectFacts, item: Item, node: Node) -> str:
    """The shape of the output of an operation or a leaf, in all repetitions."""
    index = next((index for index, tensor in enumerate(node.outputs) if tensor), None)
    if index is None:
        return ""
    if len(item.nodes) < 2 or not lies_where_shapes_differ(facts, item):
        return _result_shapes(facts.result_of(item, node))
    return shapes_through([other.outputs[index] for other in _alike(facts, item, node) if index < len(other.outputs)])


def _result_shapes(node: Node) -> str:
    """``[8, 64]``; for several outputs ``3 × [8, 64]``, or their number if they differ."""
    shapes = [shape_words(tensor) for tensor in node.outputs if tensor]
    if len(shapes) < 2:
        return "".join(shapes)
    return f"{len(shapes)} × {shapes[0]}" if len(set(shapes)) == 1 else f"{len(shapes)} outputs"


def constant_shapes(facts: SubjectFacts, item: Item) -> str:
    """The shape of a constant, in all repetitions."""
    chosen = item.constants if lies_where_shapes_differ(facts, item) else item.constants[:1]
    return shapes_through([facts.graph.constants[index].tensor for index in chosen])


def carried_shapes(facts: SubjectFacts, source: Item, repetitions_back: int) -> str:
    """The shape of what an operation hands on to later repetitions: the last ones hand nothing on."""
    leaving = facts.node_leaving(source)
    if leaving is None or source.kind != "node" or not lies_where_shapes_differ(facts, source):
        return ""
    alike = sorted(_alike(facts, source, facts.graph.nodes[leaving[0]]), key=lambda node: node.id)
    return shapes_through([node.output(leaving[1]) for node in alike[: len(alike) - repetitions_back]])


def leaving_shapes(facts: SubjectFacts, item: Item) -> str:
    """The shape of the output of a folded box, in all repetitions."""
    leaving = facts.node_leaving(item)
    series = _series(facts, item) if leaving and lies_where_shapes_differ(facts, item) else []
    for nodes in series:
        if leaving and facts.graph.nodes[leaving[0]] in (nodes[0], nodes[-1]):
            return shapes_through([node.outputs[leaving[1]] for node in nodes if leaving[1] < len(node.outputs)])
    return shape_words(facts.tensor_leaving(item))


def differing_shapes(facts: SubjectFacts, item: Item) -> Iterator[str]:
    """For a repeated box, the shapes that differ between repetitions, one on each line."""
    parameters = [facts.graph.nodes[leaf] for leaf in item.parameters]
    for what, series in (("results", _series(facts, item)), ("parameters", _in_turns(parameters, item.repeat))):
        changes = [f"{_title(facts, nodes[0])} {shapes}" for nodes in series if (shapes := _change(nodes))]
        if changes:
            yield f"{what} in all repetitions: {listed(changes)}"


def _title(facts: SubjectFacts, node: Node) -> str:
    if node.is_leaf:
        return node.names[0].rpartition(".")[2] if node.names else node.kind
    return facts.operation_title(node)


def _change(nodes: list[Node]) -> str:
    """The shapes of the first outputs of several nodes; empty if all are equal."""
    shapes = shapes_through([node.outputs[0] for node in nodes if node.outputs])
    return shapes if is_of_several(shapes) else ""


def _series(facts: SubjectFacts, item: Item) -> list[list[Node]]:
    """For each operation of one repetition, the same operation of all repetitions."""
    series = _in_turns(operations_in(facts, item), repetitions(facts, item))
    return series if all(nodes[0].name == nodes[-1].name for nodes in series) else []


def _in_turns(nodes: list[Node], repeat: int) -> list[list[Node]]:
    """Nodes of several repetitions, grouped by their position in each; empty if the repetitions differ in length."""
    length, rest = divmod(len(nodes), repeat)
    return [] if rest else [nodes[index::length] for index in range(length)]


def _alike(facts: SubjectFacts, item: Item, node: Node) -> list[Node]:
    """Of the nodes that an item represents, one for each repetition; the other ones are merged views."""
    others = (facts.graph.nodes[other] for other in item.nodes)
    return [other for other in others if other.name == node.name]
