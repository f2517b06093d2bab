"""GV786."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, callers, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.names.two_names import (
    TwoNames,
    given_and_kept,
    reset_in_vain,
    returned_argument,
    two_names,
)
from gradviz.graph.model import CallSite


class ChangedUnderTwoNames(Rule):
    """A tensor has two names, is changed in place under one of them, and both are read afterwards.

    What it finds
    -------------
    ``labels = ids`` followed by ``ids[mask] = 0``, or a function that changes its argument in place and returns it, as
    in ``noisy = add_noise(x)``, where both names are read later as if they had different values; also where one of them
    is a view of the other, as ``ids.flatten(1)`` is.

    Why it matters
    --------------
    An assignment copies nothing. The labels are masked together with the input, a denoiser learns to return the noise,
    two views of one sample are the same tensor, and the state before a step is the state after it.

    Example
    -------
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 4)
        noisy = x
        noisy += 0.3 * torch.randn(8, 4)
        loss = (model(noisy) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 4)
        noisy = x.clone()
        noisy += 0.3 * torch.randn(8, 4)
        loss = (model(noisy) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV786"
    name = "changed_under_two_names"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[Location | None]()
        for row, times in _changing_lines(case):
            found = self._own_names(case, row, times) or self._of_argument(case, row, times)
            if found is not None and found.location not in told:
                told.add(found.location)
                yield found
        for location in _lines_that_store(case):
            names = reset_in_vain(case.capture.sources[location.file], location.line)
            if names is not None:
                yield self._reset_in_vain(names, location)

    def _own_names(self, case: Case, row: int, times: int) -> Finding | None:
        """Two names in the function that changes the tensor."""
        location = location_of_call(case.dataflow, row)
        if location is None:
            return None
        names = two_names(case.capture.sources.get(location.file, {}), location.line)
        if names is None or not _share_memory(case.dataflow, row, names):
            return None
        assigned = Location(location.file, names.line)
        edited, other = (location, assigned) if names.is_view else (assigned, location)
        return self.finding(
            f"{names.changed} and {names.other} are one tensor: line {location.line} changes {names.changed} in place, "
            f"and so {names.other}, which is read later",
            symptom="grad_wrong",
            why="an assignment copies nothing, and neither do detach(), .data and view()",
            fix=f"change it out of place, x = x + y for x += y, or make a copy on line {names.line} with .clone()"
            if names.is_view
            else f"make a copy on line {names.line} with .clone(), or change it out of place: x = x + y for x += y",
            location=edited,
            symptom_location=other,
            evidence={"times": times},
        )

    def _reset_in_vain(self, names: TwoNames, location: Location) -> Finding:
        return self.finding(
            f"{names.changed} and {names.other} are one object: what line {location.line} puts into {names.changed} "
            f"stays in {names.other}, so line {names.line} brings nothing back",
            symptom="grad_wrong",
            why="an assignment copies no dictionary and no list: the next round begins with what this one has stored",
            fix=f"make a copy: {names.changed} = {names.other}.copy()",
            location=Location(location.file, names.line),
            symptom_location=location,
        )

    def _of_argument(self, case: Case, row: int, times: int) -> Finding | None:
        """The names that the caller of a function, or of a layer, has for what that changes and returns."""
        flow = case.dataflow
        what, lines = call_words(flow.log.calls[row]), list(callers(flow, row))[:2]
        for inner, outer in pairwise(lines):
            returned = returned_argument(case.capture.sources.get(inner.file, {}), inner.line)
            if returned is None or not _share_memory(flow, row, returned.names):
                continue
            names = _given_and_kept(case, outer, returned.position, returned.index)
            if names is not None:
                of_argument = f"{returned.argument}, the argument of {inner.function}()"
                view = returned.names
                return self.finding(
                    f"{what} changes {of_argument}, in place and returns it: {names[0]} and {names[1]} are one tensor "
                    f"at line {outer.line}, and both are read"
                    if view is None
                    else f"{what} changes {view.changed} in place, which shares the memory of {of_argument}: "
                    f"{names[0]} and {names[1]} change together at line {outer.line}, and both are read",
                    symptom="grad_wrong",
                    why="what a function changes in place is changed for its caller, too",
                    fix="return a new tensor: x = x + y for x += y, x = x.clone() before x[index] = y, x.mul() for "
                    "x.mul_()"
                    if view is None
                    else f"make a copy of {view.other} here with .clone(), or change {view.changed} out of place",
                    location=Location(inner.file, inner.line if view is None else view.line),
                    symptom_location=Location(outer.file, outer.line),
                    evidence={"times": times},
                )
        names = _given_and_kept(case, lines[0], 0) if lines and _is_of_argument(flow, row) else None
        if names is None:
            return None
        return self.finding(
            f"{what}, a layer that works in place, changes {names[0]}: {names[0]} and {names[1]} are one tensor, and "
            "both are read later",
            symptom="grad_wrong",
            why=f"what reads {names[0]} afterwards, as a residual connection does, gets the result of the layer",
            fix="make the layer with inplace=False",
            location=Location(lines[0].file, lines[0].line),
            evidence={"times": times},
        )


def _share_memory(flow: Dataflow, row: int, names: TwoNames | None) -> bool:
    """Whether the functions between two names of what a call changes in place gave the same memory in the run."""
    if names is None or not names.may_copy:
        return True
    changed = flow.log.calls[row].changed[0].tensor
    for tensor in flow.sharing_memory(changed)[:_MAX_VIEWS]:
        for made in flow.producers(tensor, row):
            call = flow.log.calls[made]
            is_such = plain_name(call.function) in names.may_copy and bool(call.inputs)
            if is_such and flow.memory_of(call.inputs[0].tensor) == flow.memory_of(changed):
                return True
    return False


_MAX_VIEWS = 30


def _given_and_kept(case: Case, site: CallSite, position: int, index: int | None = None) -> tuple[str, str] | None:
    return given_and_kept(case.capture.sources.get(site.file, {}), site.line, position, index)


def _is_of_argument(flow: Dataflow, row: int) -> bool:
    """Whether what a call changes was made on another line: no layer before it on the same line has made it, and it is
    no weight that a layer fills when it is made. Operators, as ``x[0] = 1`` before a layer on its line, are none."""
    if flow.log.calls[row].function.rpartition(".")[2].startswith("__"):
        return False
    changed = flow.log.calls[row].changed[0].tensor
    made = flow.newest_producer(changed, row)
    is_weight = flow.log.tensors[changed].role != "tensor"
    return not is_weight and made is not None and flow.line_of(made) != flow.line_of(row)


_STORES = re.compile(r"\w+\[[^\]]+\]\s*=(?!=)")


def _lines_that_store(case: Case) -> Iterator[Location]:
    """Lines that compute something with a gradient and make it an element of a dictionary or of a list."""
    flow = case.dataflow
    sites = {call.call_site for call in flow.log.calls if call.live_inputs and call.kind == "operation"}
    changing = {call.call_site for call in flow.log.calls if call.changed}
    for location in dict.fromkeys(case.location_of_site(site) for site in sorted(sites - changing - {None}, key=str)):
        if location is not None and _STORES.match((case.source_line(location) or "").strip()):
            yield location


def _changing_lines(case: Case) -> Iterator[tuple[int, int]]:
    """For each line that changes a tensor in place in a training: the last such call, and how many there are."""
    flow = case.dataflow
    by_site: dict[int | None, list[int]] = defaultdict(list)
    last_backward = max(flow.rows_of_kind("backward"), default=-1)  # a program may make its steps by hand
    for row, call in enumerate(flow.log.calls):
        is_in_training = row < last_backward or flow.has_step_after(row)
        if call.kind == "operation" and flow.is_by_program(call) and call.changed and is_in_training:
            by_site[call.call_site].append(row)
    for rows in by_site.values():
        yield rows[-1], len(rows)
