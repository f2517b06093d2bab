"""The labels of the samples that a search has found, and what they are compared with."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call


class ComparedLabels(Struct, frozen=True):
    """A comparison of labels that were looked up with other ones."""

    row: int
    """The call of ``==``."""
    labels: int
    """The tensor in which they were looked up."""
    other: int
    """What they are compared with."""
    has_first: bool
    """Whether the first of the places found is among them: it is not with ``found[:, 1:]``."""


_TAKE = frozenset({"getitem", "squeeze", "flatten", "view", "reshape", "t"})
_KEEP_LABELS = _TAKE | {"mode"}
_LOOK_UP = frozenset({"getitem", "index_select", "take"})
_WHOLE = frozenset({"int64", "int32", "uint8"})
_MAX_FOLLOWED = 8
_BOTH = 2


def compared_labels(flow: Dataflow, row: int, call: Call) -> Iterator[ComparedLabels]:
    """Where places that a call found look up whole numbers, one for each sample, that are compared with other ones."""
    for places, made, has_first in _followed(flow, call.outputs[-1].tensor, row, _TAKE):
        for user in flow.users(places, made):
            looked_up = flow.log.calls[user]
            if not _looks_up_labels(flow, looked_up, places):
                continue
            for labels, taken, is_whole in _followed(flow, looked_up.outputs[0].tensor, user, _KEEP_LABELS):
                for each in flow.users(labels, taken):
                    given = [use.tensor for use in flow.log.calls[each].inputs]
                    if plain_name(flow.log.calls[each].function) == "eq" and len(given) == _BOTH:
                        other = given[1] if given[0] == labels else given[0]
                        yield ComparedLabels(each, looked_up.inputs[0].tensor, other, has_first and is_whole)


def drops_first(flow: Dataflow, call: Call) -> bool:
    """Whether a call takes other places than the first of each row: ``found[:, 1:]``, ``found[:, 2]``."""
    if plain_name(call.function) != "getitem" or not call.inputs:
        return False
    place = "1" if len(shape_of(flow, call.inputs[0].tensor)) == 1 else "1[1]"
    begins = [call.scalars.get(place), call.scalars.get(f"{place}.start")]
    return any(type(begin) is int and begin > 0 for begin in begins)


def _looks_up_labels(flow: Dataflow, call: Call, places: int) -> bool:
    given = [use.tensor for use in call.inputs]
    is_look_up = plain_name(call.function) in _LOOK_UP and len(given) == _BOTH and given[1] == places
    facts = flow.log.tensors[given[0]].facts if is_look_up else None
    return facts is not None and facts.dtype in _WHOLE and len(facts.shape) == 1


def _followed(flow: Dataflow, tensor: int, made: int, through: frozenset[str]) -> list[tuple[int, int, bool]]:
    """A tensor, and what calls of these names make of it alone, each with the call that made it and whether the first
    place of each row is in it."""
    found = [(tensor, made, True)]
    for each, row, has_first in found:
        for user in flow.users(each, row):
            call = flow.log.calls[user]
            if plain_name(call.function) in through and len(call.inputs) == 1 and len(found) < _MAX_FOLLOWED:
                found.append((call.outputs[0].tensor, user, has_first and not drops_first(flow, call)))
    return found
