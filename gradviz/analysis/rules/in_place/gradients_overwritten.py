"""GV771."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, callers, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.gradients.gradient_events import Event
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.kept_gradients import KeptGradients, kept_gradients
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.call_log import Call


class GradientsOverwritten(Rule):
    """Gradients that are kept for later are those of the next backward, because they were not copied.

    What it finds
    -------------
    ``[p.grad for p in params]`` that is kept before the next ``backward()``, which adds to the same tensors, or before
    ``zero_grad(set_to_none=False)``, which fills them with zeros; where the program uses what it kept, and nothing has
    read the first gradients before, also in a function that gets what another one kept and returned. Also a gradient
    that is added to itself or taken from itself by such a second name.

    Why it matters
    --------------
    Both names mean the same tensors. A difference of the two is zero, their cosine is one, and projections or weights
    of the gradients of two losses see the last one twice.

    Example
    -------
    body, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        out = head(body(torch.randn(16, 4)))
        optimizer.zero_grad()
        out[:, 0].square().mean().backward(retain_graph=True)
        first = [p.grad for p in body.parameters()]
        out[:, 1].abs().mean().backward()
        for p, g in zip(body.parameters(), first):
            p.grad = g / g.norm() + (p.grad - g)
        optimizer.step()

    Instead
    -------
    body, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        out = head(body(torch.randn(16, 4)))
        optimizer.zero_grad()
        out[:, 0].square().mean().backward(retain_graph=True)
        first = [p.grad.clone() for p in body.parameters()]
        out[:, 1].abs().mean().backward()
        for p, g in zip(body.parameters(), first):
            p.grad = g / g.norm() + (p.grad - g)
        optimizer.step()
    """

    code = "GV771"
    name = "gradients_overwritten"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        kept_in = cache(lambda file: tuple(kept_gradients(tree_of(case.capture.sources.get(file) or {1: ""}))))
        found: dict[Location, tuple[_Lost, list[int]]] = {}
        for leaf, events in case.gradient_events.events.items() if case.histories.reached_by else ():
            for lost in (*_lost(case, leaf, events), *_with_itself(case, leaf)):
                location = next(_keeping(case, lost, kept_in), None)
                if location is not None:
                    found.setdefault(location, (lost, []))[1].append(leaf)
        for location, (lost, leaves) in found.items():
            yield self._finding(case, location, lost, sorted(set(leaves)))

    def _finding(self, case: Case, location: Location, lost: _Lost, leaves: list[int]) -> Finding:
        flow = case.dataflow
        changed, read = location_of_call(flow, lost.changed), location_of_call(flow, lost.read)
        return self.finding(
            f"the gradients of {case.histories.together(leaves)} that are kept here are no copies: "
            f"{plain_name(flow.log.calls[lost.changed].function)}(){at_line(changed)} writes others into the same "
            f"tensors, before they are read{at_line(read)}",
            symptom="grad_wrong",
            why="p.grad is one tensor, to which backward() adds, and which stays the same until it is set to None",
            fix="keep copies: p.grad.clone()",
            location=location,
            symptom_location=read,
            tensors=names_of(flow, leaves),
        )


class _Lost(Struct, frozen=True):
    """A gradient that is overwritten before anything reads it."""

    backward: int
    changed: int
    """The backward, or the clearing, that overwrites it."""
    read: int
    """The first call that reads the gradient afterwards."""
    is_direct: bool = False
    """Whether that call combines the gradient with itself."""


_COMBINES = frozenset({"add", "sub", "div", "lerp", "iadd", "isub"})
_MOST_PAIRS = 4
_VIEWS = frozenset({"view", "flatten", "reshape", "ravel", "view_as", "detach", "data"})


def _lost(case: Case, leaf: int, events: list[tuple[int, Event]]) -> Iterator[_Lost]:
    """Backward calls whose gradient was never read, while one of another loss was, in the same step and tensor."""
    count = 0
    for index, (row, kind) in enumerate(events[:-1]):
        changed, following = events[index + 1]
        if kind != "backward" or following == "step" or count >= _MOST_PAIRS:
            continue
        count += 1
        rest = [each for each, what in events[index + 1 :] if what == "step"][:1]
        later = [each for each, what in events[index + 1 :] if what == "backward" and each >= changed][:1]
        end = rest[0] if rest else len(case.dataflow.log.calls)
        reads = _reads(case, leaf, row, end)
        if later and later[0] < end and len(reads) == 1 and min(reads[0] - {changed}, default=0) > later[0]:
            yield _Lost(row, changed, min(reads[0] - {changed}))


def _reads(case: Case, leaf: int, first: int, last: int) -> list[set[int]]:
    """For each memory that was the gradient of a leaf: the calls of the program in between that read its values."""
    flow = case.dataflow
    found: dict[int, set[int]] = defaultdict(set)
    for tensor in case.histories.gradient_tensors.get(leaf, ()):
        shared = flow.sharing_memory(tensor)
        for each in shared:
            rows = (row for row in flow.users(each, first) if row < last)
            found[min(shared)].update(row for row in rows if _reads_values(flow.log.calls[row]))
    return [rows for rows in found.values() if rows]


def _reads_values(call: Call) -> bool:
    return call.kind == "operation" and plain_name(call.function) not in _VIEWS


def _with_itself(case: Case, leaf: int) -> Iterator[_Lost]:
    """Calls that combine a gradient with itself, though a step lies between the two names for it."""
    flow = case.dataflow
    for tensor in case.histories.gradient_tensors.get(leaf, ()):
        for row in flow.users(tensor):
            call = flow.log.calls[row]
            uses = [use.tensor for use in call.inputs]
            before = flow.backward_before(row)
            if plain_name(call.function).strip("_") in _COMBINES and uses.count(tensor) > 1 and before is not None:
                yield _Lost(before, before, row, is_direct=True)
                return


def _keeping(case: Case, lost: _Lost, kept_in: Callable[[str], tuple[KeptGradients, ...]]) -> Iterator[Location]:
    """The statements that keep the gradient before it is overwritten, and whose variable the program reads."""
    flow = case.dataflow
    for file in {line.file for line in callers(flow, lost.read)}:
        for kept in kept_in(file):
            read = _line_in(flow, lost.read, file, kept)
            if read is None and kept.is_given_on and not lost.is_direct:
                yield from _given_on(flow, lost, file, kept)
            if read is None or read == kept.line or not _is_read(case, file, kept):
                continue
            if lost.is_direct:
                is_average = bool(flow.log.calls[lost.read].changed) and not kept.is_list
                if kept.is_of_many and not is_average:
                    yield Location(file, kept.line)
                continue
            begun, changed = _line_in(flow, lost.backward, file, kept), _line_in(flow, lost.changed, file, kept)
            if begun is None or changed is None or begun >= kept.line or read < kept.line:
                continue
            if changed > kept.line or kept.adds:
                yield Location(file, kept.line)


def _given_on(flow: Dataflow, lost: _Lost, file: str, kept: KeptGradients) -> Iterator[Location]:
    """The statement, if the function around it computes and overwrites the gradients, and another one reads them."""
    begun, changed = _line_in(flow, lost.backward, file, kept), _line_in(flow, lost.changed, file, kept)
    if begun is not None and changed is not None and begun < kept.line and (changed > kept.line or kept.adds):
        yield Location(file, kept.line)


def _line_in(flow: Dataflow, row: int, file: str, kept: KeptGradients) -> int | None:
    """The line of the function around a statement from which a call was made."""
    first, last = kept.scope
    lines = (line for line in callers(flow, row) if line.file == file and first <= line.line <= last)
    return next((line.line for line in lines if first or line.function == "<module>"), None)


def _is_read(case: Case, file: str, kept: KeptGradients) -> bool:
    """Whether other lines of the function name the variable."""
    named = re.compile(rf"(?<![\w.]){re.escape(kept.name)}(?!\w)")
    first, last = kept.scope
    return any(
        first <= number <= last and number != kept.line and named.search(text)
        for number, text in case.capture.sources.get(file, {}).items()
    )
