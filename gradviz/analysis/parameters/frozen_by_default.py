"""Embeddings that ``from_pretrained`` froze by default, although the program gives them to an optimizer one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import accumulate

from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.finding import Location
from gradviz.analysis.parameters.parameter_histories import ParameterHistories

TextOf = Callable[[Location | None], str | None]
"""The text of a line, if the capture contains it."""

_MAX_LINES = 10
"""Of a statement."""
_LOOK_UP = frozenset({"embedding", "embedding_bag"})


def frozen_when_made(histories: ParameterHistories, number: int, text_of: TextOf) -> Location | None:
    """The line that called ``from_pretrained`` without ``freeze=`` for a parameter that never required grad."""
    owner = histories.name(number).rpartition(".")[0]
    row = histories.flow.row_of_module(owner)
    if histories.tensor(number).requires_grad or histories.flag_changes(number) or row is None:
        return None
    location = location_of_call(histories.flow, row)
    text = _statement(location, text_of)
    return location if "from_pretrained" in text and "freeze" not in text else None


def _statement(location: Location | None, text_of: TextOf) -> str:
    """A line, and those that follow up to its last bracket."""
    if location is None:
        return ""
    text = ""
    for index in range(_MAX_LINES):
        text += text_of(Location(location.file, location.line + index)) or ""
        if text.count("(") <= text.count(")"):
            break
    return text


def picked_by_program(histories: ParameterHistories, optimizer: int, text_of: TextOf) -> Iterator[int]:
    """Those that an optimizer got beside others, without the module around them.

    Groups that a rule makes of a whole model, as for weight decay, do not count, but groups of embeddings do.
    """
    held = histories.held_by(optimizer)
    groups = [set(group) for group in histories.log.optimizers[optimizer].groups]
    parts = [held, *(group for group in groups if all(_is_table(histories, each) for each in group))]
    for number in sorted(held):
        is_frozen = not histories.is_ever_stepped_live(number) and frozen_when_made(histories, number, text_of)
        if is_frozen and any(number in part and _is_named_alone(histories, number, part) for part in parts):
            yield number


def _is_table(histories: ParameterHistories, number: int) -> bool:
    uses = histories.forward_uses(number)
    return bool(uses) and plain_name(histories.log.calls[uses[-1]].function) in _LOOK_UP


def _is_named_alone(histories: ParameterHistories, number: int, part: Collection[int]) -> bool:
    """Whether nothing trains in the outermost modules that have it and that are whole among some parameters."""
    names = histories.tensor(number).names
    return bool(names) and not any(
        histories.is_ever_stepped_live(each) for name in names for each in _whole_module(histories, name, part)
    )


def _whole_module(histories: ParameterHistories, name: str, part: Collection[int]) -> list[int]:
    """The parameters of the outermost module on the way to a name that has no parameter outside of `part`."""
    for path in accumulate(name.split("."), lambda outer, word: f"{outer}.{word}"):
        below = [
            each
            for each in histories.log.parameters
            if any(own.startswith(f"{path}.") for own in histories.tensor(each).names)
        ]
        if below and all(each in part for each in below):
            return below
    return []
