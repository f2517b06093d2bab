"""The line of the program that put a batch together: a slice, an index, ``stack()``, or its data loader."""

from __future__ import annotations

import re

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, location_of_call, plain_name
from gradviz.analysis.finding import Location, location_of_line
from gradviz.graph.call_log import Call

CARRY = frozenset({
    "to", "long", "int", "float", "double", "half", "bfloat16", "type", "type_as", "cuda", "cpu", "view", "reshape",
    "squeeze", "unsqueeze", "flatten", "contiguous", "clone", "detach", "pin_memory", "requires_grad", "permute",
    "transpose", "t", "T", "alias", "unbind", "data",
})  # fmt: skip
"""They bring a batch to where it is used, and leave it together."""
_MAX_CARRYING = 8
DRAWS = frozenset({"randperm", "randint", "multinomial"})
_TAKES = re.compile(r"\bfor\b.*\bin\b|\bnext\(")


class BatchMaker(Struct, frozen=True):
    """The call that put a batch together."""

    row: int
    call: Call
    taken: Location | None
    """The line that took it from a data loader; None where no loader made it."""


def maker_of_batch(case: Case, tensor: int, before: int) -> BatchMaker | None:
    """The call that put a batch together; None if none is in the log, as for those of worker processes."""
    for row, call in case.dataflow.makers(tensor, before, _MAX_CARRYING):
        if plain_name(call.function) not in CARRY or not call.inputs:
            return BatchMaker(row, call, taken_from_loader(case, row, call))
    return None


def taken_from_loader(case: Case, row: int, call: Call) -> Location | None:
    """The line that took a batch from a loader in which a call ran: a loop over it, which does not name the call."""
    loaders = case.dataflow.log.loaders
    lines = [location_of_line(line) for line in callers(case.dataflow, row)] if loaders else []
    assigned = {name for loader in loaders for name in _names_of_loader(case, loader.call_site)}
    for line in lines:
        text = case.source_line(line) or ""
        if _TAKES.search(text) and plain_name(call.function) not in text:
            return line if line == lines[0] or assigned.intersection(_iterated(text)) else None
    return None


def is_drawn_anew(case: Case, taken: Location) -> bool:
    """Whether the loader from which a line takes batches draws the order of its samples at random."""
    draws = (row for row, call in enumerate(case.dataflow.log.calls) if plain_name(call.function) in DRAWS)
    return any(location_of_call(case.dataflow, row) == taken for row in draws)


def line_of_loader(case: Case, taken: Location | None) -> Location | None:
    """The line that made the loader which gives its samples in their order, and from which a line takes batches.

    Args:
        taken: that line; None if it is unknown.
    """
    iterated = _iterated(case.source_line(taken) or "")
    names = {
        line: _names_of_loader(case, loader.call_site)
        for loader in case.dataflow.log.loaders
        if loader.is_in_order and (line := case.location_of_site(loader.call_site)) is not None
    }
    of_loop = [line for line, of_line in names.items() if iterated.intersection(of_line)]
    of_training = [line for line, of_line in names.items() if any("train" in name for name in of_line)]
    found = of_loop or of_training or list(names)
    return found[0] if len(found) == 1 else None


def _iterated(text: str) -> set[str]:
    """The names behind ``in`` of a loop, or in ``next()``."""
    found = _TAKES.search(text)
    return set() if found is None else set(re.findall(r"\w+", text[found.end() :]))


def _names_of_loader(case: Case, site: int | None) -> set[str]:
    """The names that the line which makes a loader assigns: ``{'train', 'test'}`` for ``train, self.test = ...``."""
    text = case.source_line(case.location_of_site(site)) or ""
    assigned, equals, _ = text.partition("=")
    return set(re.findall(r"\w+", assigned.replace("self.", ""))) if equals and "(" not in assigned else set()


def line_of_batch(case: Case, tensor: int, before: int) -> Location | None:
    """The line to edit: of the loader, or of the call that put a batch together; else where it was seen first."""
    made = maker_of_batch(case, tensor, before)
    if made is not None and made.taken is None:
        return location_of_call(case.dataflow, made.row)
    taken = None if made is None else made.taken
    loader = line_of_loader(case, taken)
    seen = _first_seen(case, tensor, before) if taken is None and loader is None else taken
    return loader or seen


def _first_seen(case: Case, tensor: int, before: int) -> Location | None:
    flow = case.dataflow
    for _, call in flow.makers(tensor, before, _MAX_CARRYING):
        tensor = call.inputs[0].tensor if call.inputs else tensor
    first = flow.log.tensors[tensor].first_seen
    return None if first is None else location_of_call(flow, first)
