"""The numbers of one node: inputs, outputs, gradients, and its formula with all of them put in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gradviz.analysis.numbers.node_inputs import NamedTensor
from gradviz.analysis.numbers.node_numbers import NodeNumbers
from gradviz.formulas.derivative import Derivative
from gradviz.formulas.plain import plain_formula
from gradviz.graph.gradients import LeafGradient, TensorFigures
from gradviz.graph.number_words import byte_words
from gradviz.graph.query.own_line import line_words_of
from gradviz.graph.saved_tensors import SavedTensor
from gradviz.rendering.words.common_words import listed, shape_words
from gradviz.rendering.words.formula_words import (
    LONGEST_OPERAND,
    mathematics_with_numbers,
    setting_numbers,
    tensor_numbers,
    with_minus,
)
from gradviz.rendering.words.gradient_words import figures_words
from gradviz.rendering.words.value_words import nested_words, short_nested_words

Row = tuple[str, str]
LONGEST_BESIDE = 40
"""Characters of numbers on the same line as their name."""


def node_numbers_sections(numbers: NodeNumbers, derivative: Derivative | None) -> Iterator[tuple[str, list[Row]]]:
    """Sections of the explanation, each with its title."""
    yield f"node:{numbers.id}" + (f" of backward {numbers.backward}" if numbers.backward else ""), list(_where(numbers))
    yield from _section("takes", [_row(each, "") for each in numbers.inputs])
    yield from _section("with", [(name, str(value)) for name, value in numbers.attributes.items()])
    yield from _section("gives", [_row(each, "") for each in numbers.results])
    yield from _section("gradient that arrived", [_row(each, "") for each in numbers.arrived])
    yield from _section("put into the formula", list(_put_in(numbers, derivative)))
    yield from _section("gradients that it sent", [_row(each, "to ") for each in numbers.sent])
    yield from _section(".grad of the leaf", list(_leaf(numbers.leaf_gradient)))
    yield from _section("kept until then", [_saved_row(each) for each in numbers.saved])
    yield from _section("not known", [("", each) for each in numbers.unsaid])


def _section(title: str, rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    if rows:
        yield title, rows


def _where(numbers: NodeNumbers) -> Iterator[Row]:
    if numbers.file is not None:
        yield "line", line_words_of(numbers.file, numbers.line) + (f"  {numbers.source}" if numbers.source else "")
    for name, value in (("call", numbers.function), ("module", numbers.module), ("hooks", listed(numbers.hooks))):
        if value:
            yield name, value


def _row(given: NamedTensor, before: str) -> Row:
    called = before + _called(given)
    constant = "" if given.wants_gradient else "needs no gradient"
    words = "  ".join(filter(None, (called if called != before else "", shape_words(given.tensor), constant)))
    return given.name, _with_value(words, given.figures)


def _with_value(words: str, figures: TensorFigures | None) -> str:
    value = _value(figures)
    separator = "\n" if "\n" in value or len(value) > LONGEST_BESIDE else "  "
    return separator.join(filter(None, (words, value)))


def _called(given: NamedTensor) -> str:
    """Its names in the program; otherwise the node that made it, and what that is a view of."""
    if given.variables or given.node is None:
        return " = ".join(given.variables)
    of = f" of {' = '.join(given.view_of)}" if given.view_of else ""
    return f"node:{given.node} {given.node_name}{of}"


def _value(figures: TensorFigures | None) -> str:
    """Every number if they are known, with a line for each row; otherwise their norm."""
    if figures is None:
        return ""
    if figures.is_undefined:
        return "none, which counts as zero"
    if whole := nested_words(figures, len(figures.values or ()), row_end=",\n "):
        return whole
    norm = figures_words([figures])
    return f"norm {norm}" if norm else ""


def _leaf(gradient: LeafGradient | None) -> Iterator[Row]:
    if gradient is not None:
        yield "before", _value(gradient.before) or "None"
        yield "after", _value(gradient.after) or "None"
        if gradient.reduced_by:
            yield "made by", f"{gradient.reduced_by}, of the gradients of all ranks; what arrived is of this rank"


def _saved_row(saved: SavedTensor) -> Row:
    facts = shape_words(saved.tensor)
    state = {"held": "", "freed": "freed by an earlier backward"}.get(saved.state, saved.state)
    packed = f"packed by {saved.packed_by}" if saved.packed_by else ""
    source = f"made by node:{saved.source}" if saved.source is not None else ""
    changed = "changed in place since" if saved.is_changed else ""
    size = byte_words(saved.bytes) if saved.bytes else ""
    words = "  ".join(filter(None, (facts, size, source, state, packed, changed)))
    return saved.slot, _with_value(words, saved.value)


def _put_in(numbers: NodeNumbers, derivative: Derivative | None) -> Iterator[Row]:
    """The formula of every gradient that was sent, with numbers in place of the known names."""
    tensors = (*numbers.inputs, *numbers.results, *numbers.arrived)
    plain = plain_formula(numbers.name)
    written: Mapping[str, str] = {}
    if plain is not None:
        written = mathematics_with_numbers(plain, numbers.attributes, tensors)
    elif derivative is not None and tensor_numbers(numbers.arrived):
        written = dict(_exact(derivative, setting_numbers(numbers.attributes) | tensor_numbers(tensors)))
    for sent in numbers.sent:
        line = written.get(sent.name)
        if line is not None:
            result = short_nested_words(sent.figures, LONGEST_OPERAND)
            yield sent.name, f"{line} = {with_minus(result) if plain else result}" if result else line


_KEEPS_ITS_NAME = r"(?!\.(?:sym_|scalar_type|options|layout|dim|sizes|size|numel|defined))(?![\w(])"
"""After a name of which only the shape or the type is used."""


def _exact(derivative: Derivative, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for each in derivative.inputs:
        written = each.formula
        for name, value in values.items():
            written = re.sub(rf"(?<![\w.]){re.escape(name)}\b{_KEEPS_ITS_NAME}", value, written)
        for name in each.inputs:
            yield name, written
