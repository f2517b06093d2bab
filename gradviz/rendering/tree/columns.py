"""The columns of the tree, in one table: to add a column, add a line.

The operation is not in the table: it is the tree itself, and always first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gradviz.errors import BadInput, near_matches
from gradviz.graph.model import TensorFacts
from gradviz.rendering.look.palette import ROLE_STYLES, role_of
from gradviz.rendering.words.box_words import box_path, parameter_count
from gradviz.rendering.words.common_words import count_words, element_count
from gradviz.rendering.words.gradient_words import arrived_by_repetition, gradient_words
from gradviz.rendering.words.item_words import ItemText
from gradviz.rendering.words.memory_words import kept_words
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.rendering.words.value_words import value_words
from gradviz.view.model import Item

OPERATION = "operation"
GRADIENT_STYLES = {"0": "yellow", "none": "yellow", "NaN": "bold red", "Inf": "bold red", "NaN, Inf": "bold red"}
NARROWEST_OPERATION = 24


@dataclass(frozen=True, slots=True)
class RowFacts:
    """An item, and the facts about it."""

    item: Item
    text: ItemText
    facts: SubjectFacts


@dataclass(frozen=True, slots=True)
class Column:
    """A column beside the operation."""

    name: str
    summary: str
    words: Callable[[RowFacts], str]
    narrowest: int
    """A column that would be narrower is left out."""
    weight: int
    """If there is no space for all columns, those of the smallest weight are shortened first."""
    is_number: bool = False
    keeps_end: bool = False
    """If the words do not fit, their beginning is cut."""
    styles: Mapping[str, str] = field(default_factory=dict)
    """The rich styles of words that must stand out."""


def _shape(of: RowFacts) -> str:
    return of.text.shape


def _dtype(of: RowFacts) -> str:
    tensor = _tensor(of)
    return tensor.dtype if tensor else ""


def _device(of: RowFacts) -> str:
    tensor = _tensor(of)
    return tensor.device if tensor else ""


def _module(of: RowFacts) -> str:
    if of.item.kind == "box":
        return box_path(of.facts, of.item)
    node = None if of.item.node is None else of.facts.graph.nodes[of.item.node]
    if node is not None and node.scope is not None:
        return of.facts.graph.scopes[node.scope].path
    return of.facts.enclosing_path(of.item)


def _parameters(of: RowFacts) -> str:
    if of.item.kind == "box":
        count = parameter_count(of.facts, of.item)
    elif role_of(of.item, of.facts.graph) == "parameter":
        count = element_count([_tensor(of)])
    else:
        return ""
    return count_words(count) if count else ""


def _saved(of: RowFacts) -> str:
    return kept_words(of.facts.graph, of.item.nodes)


def _gradient(of: RowFacts) -> str:
    return gradient_words(of.facts, of.item)


def _value(of: RowFacts) -> str:
    graph, item = of.facts.graph, of.item
    if item.constant is not None:
        return value_words(graph.constants[item.constant].value)
    if item.root is not None:
        root = graph.roots[item.root]
        return value_words(next(iter(graph.nodes[root.node].values[root.output_nr : root.output_nr + 1]), None))
    if item.node is None or len(arrived_by_repetition(of.facts, item)) > 1:
        return ""
    # If views were merged into an operation, the last one has the value that it shows.
    given = (graph.nodes[node].values for node in sorted(item.nodes, reverse=True))
    return "; ".join(filter(None, map(value_words, next(filter(None, given), ()))))


def _function(of: RowFacts) -> str:
    node = None if of.item.node is None else of.facts.graph.nodes[of.item.node]
    site = of.facts.common_call_site(of.item) if of.item.kind == "box" else node.call_site if node else None
    found = of.facts.own_site(site)
    return "" if found is None or found.function.startswith("<") else f"{found.function}()"


def _nodes(of: RowFacts) -> str:
    return f"{len(of.item.nodes):,}" if of.item.nodes else ""


def _node(of: RowFacts) -> str:
    return "" if of.item.node is None else f"node:{of.item.node}"


COLUMNS: tuple[Column, ...] = (
    Column("name", "the variable that holds the result of an operation", lambda of: of.text.name, 6, 2, keeps_end=True),
    Column("shape", "shape of the result; with the dtype if it is not float32", _shape, 8, 10),
    Column("dtype", "dtype of the result", _dtype, 7, 7),
    Column("device", "device of the result", _device, 4, 6),
    Column(
        "params", "elements of the parameters inside, or of the parameter itself", _parameters, 6, 8, is_number=True
    ),
    Column("nodes", "number of autograd nodes that the row represents", _nodes, 5, 4, is_number=True),
    Column(
        "saved", "bytes kept for backward: each storage once per row, without parameters", _saved, 8, 4, is_number=True
    ),
    Column(
        "gradient",
        "norm of the gradient that arrived, or 0, NaN or Inf",
        _gradient,
        8,
        5,
        is_number=True,
        styles=GRADIENT_STYLES,
    ),
    Column("value", "first numbers of the result, if --values recorded them", _value, 8, 5),
    Column("grad_fn", "torch's name for the node, or the class of the module", lambda of: of.text.subtitle, 14, 1),
    Column(
        "role",
        "meaning of the sign before the title",
        lambda of: ROLE_STYLES[role_of(of.item, of.facts.graph)].name,
        8,
        3,
    ),
    Column("module", "path of the module call that made it", _module, 12, 5, keeps_end=True),
    Column("function", "function of the program that made it", _function, 8, 3),
    Column("line", "source line that made it", lambda of: of.text.line, 9, 9, keeps_end=True),
    Column("node", "number of the node, as --from takes it", _node, 6, 4),
)
USUAL = ("name", "shape", "grad_fn", "line")


def columns_named(names: str | None) -> tuple[Column, ...]:
    """The columns of a list such as ``shape,line``; ``+dtype`` adds to the usual ones, ``all`` is every column.

    None is the usual ones. Raises `BadInput` with near matches for an unknown column, and for one named twice.
    """
    table = {column.name: column for column in COLUMNS}
    if names is None:
        return tuple(table[name] for name in USUAL)
    adds = names.startswith("+")
    given = [name.strip().lower().removeprefix("+" if adds else "") for name in names.split(",")]
    wanted = [*(USUAL if adds else ()), *given]
    if wanted == ["all"]:
        return COLUMNS
    for name in wanted:
        if name not in table and name != OPERATION:
            raise BadInput(f"unknown column {name!r}", hint=near_matches(name, [OPERATION, *table]))
        if wanted.count(name) > 1:
            raise BadInput(f"column {name!r} is named twice", hint="name it once")
    return tuple(table[name] for name in wanted if name != OPERATION)


def _tensor(of: RowFacts) -> TensorFacts | None:
    """The tensor whose shape is shown."""
    graph, item = of.facts.graph, of.item
    if item.constant is not None:
        return graph.constants[item.constant].tensor
    if item.root is not None:
        root = graph.roots[item.root]
        return root.tensor or graph.nodes[root.node].output(root.output_nr)
    if item.node is not None:
        return next((tensor for tensor in graph.nodes[item.node].outputs if tensor), None)
    return of.facts.tensor_leaving(item)
