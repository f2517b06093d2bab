"""GV776."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.nested_loops import CountedOften, counted_often_in_steps
from gradviz.analysis.sources.parsed_lines import function_around


class CountedByParameter(Rule):
    """An optimizer counts its steps once for each parameter, not once for each step.

    What it finds
    -------------
    A number in the ``step()`` of the program's own optimizer, such as a bias correction, that goes on from parameter to
    parameter and from there into the next step, because the counter behind it rises inside of the loop; also in steps
    by hand, which change parameters after ``backward()``. Also steps and decays by hand that go through
    ``parameters()`` of each of a model's ``modules()``: they change a parameter once for each module around it.

    Why it matters
    --------------
    The correction ``1 - beta ** t`` is another one for each parameter, and is over after a few steps: the first ones,
    which it should enlarge, are too small, and differently so in each layer. Of a decay, weights deep in the model get
    several times as much as others.

    Example
    -------
    class OwnAdam(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 0.01})
            self.count = 0

        @torch.no_grad()
        def step(self):
            for p in self.param_groups[0]["params"]:
                self.count += 1
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                mean.mul_(0.9).add_(p.grad, alpha=0.1)
                p.add_(mean, alpha=-0.01 / (1 - 0.9**self.count))

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = OwnAdam(model.parameters())
    for step in range(4):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    class OwnAdam(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 0.01})
            self.count = 0

        @torch.no_grad()
        def step(self):
            self.count += 1
            for p in self.param_groups[0]["params"]:
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                mean.mul_(0.9).add_(p.grad, alpha=0.1)
                p.add_(mean, alpha=-0.01 / (1 - 0.9**self.count))

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = OwnAdam(model.parameters())
    for step in range(4):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV776"
    name = "counted_by_parameter"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[Location | None]()
        for of_lines in (*_in_steps(case), _by_hand(case)):
            for rows_by_step in of_lines.values():
                by_step = {step: [number for _, number in rows] for step, rows in rows_by_step.items()}
                first = next(iter(rows_by_step.values()))[0][0]
                finding = self._finding(case, first, by_step) if _goes_on(by_step) else None
                if finding is not None and finding.location not in told:
                    told.add(finding.location)
                    yield finding
        for each in counted_often_in_steps(case):
            if each.location not in told:
                told.add(each.location)
                yield self._of_nested_loop(case, each)

    def _of_nested_loop(self, case: Case, found: CountedOften) -> Finding:
        return self.finding(
            f"a step changes each parameter {found.message}: {found.examples(case)}",
            symptom="grad_wrong",
            why="the change is several times as large as its factor says"
            if found.is_even
            else "the deeper a weight lies in the model, the more each step changes it",
            fix=found.fix,
            location=found.location,
            tensors=names_of(case.dataflow, found.often),
            evidence=found.evidence,
        )

    def _finding(self, case: Case, row: int, by_step: dict[int, list[float]]) -> Finding:
        flow, used = case.dataflow, location_of_call(case.dataflow, row)
        location = _counting_line(case, used) or used
        first = next(iter(by_step.values()))
        return self.finding(
            f"a number of {call_words(flow.log.calls[row])}{at_line(used)} changes from parameter to parameter and "
            f"goes on in the next step: {first[0]:.4g}, {first[1]:.4g}, {first[2]:.4g} ... in the first one",
            symptom="grad_wrong",
            why="a counter that rises inside of the loop counts parameters: bias corrections and warm-ups end too "
            "early, and each parameter gets another one",
            fix="count once for each step, before the loop over the parameters, or keep a counter for each parameter "
            "in self.state[p]",
            location=location,
            symptom_location=used if used != location else None,
            evidence={"parameters": len(first)},
        )


_STEPS = 3
_MIN_PARAMETERS = 3
_COUNTS = re.compile(r"^\s*[\w.\[\]\"']+\s*(\+=\s*1\b|=\s*[\w.\[\]\"']+\s*\+\s*1\b|.*\bnext\(\s*[\w.]+\s*\))")
_CALLED = re.compile(r"(\w+)\(")
_Numbers = dict[tuple[int | None, str], dict[int, list[tuple[int, float]]]]
"""By line and argument: the numbers of each step, with their calls."""


def _in_steps(case: Case) -> Iterator[_Numbers]:
    """Those in the first steps of each optimizer."""
    for steps in case.histories.steps_by_optimizer.values():
        yield _numbers(case, {step: case.dataflow.inside(step) for step in steps[:_STEPS]})


def _by_hand(case: Case) -> _Numbers:
    """Those on lines that change parameters without an optimizer, or compute such a change, between the first backward
    calls, one for each parameter."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    backwards = [row for row in case.histories.backward_calls if calls[row].inside is None][: _STEPS + 1]
    memories = frozenset(flow.memory_of(number) for number in flow.log.parameters)
    moving: dict[int, list[int]] = defaultdict(list)
    moved: dict[int, frozenset[int]] = {}
    for after, before in pairwise(backwards):
        since = after
        for row in range(after + 1, before):
            call = calls[row]
            if call.kind != "operation" or call.inside is not None or call.grad_mode == "enabled":
                continue
            changed = memories.intersection(flow.memory_of(use.tensor) for use in call.changed)
            if not changed:
                continue
            # What was computed since the change before, and is in this one.
            own = {row}.union(*(flow.ancestors(use.tensor, row, since + 1) for use in call.inputs))
            moved.update((each, changed) for each in own if each not in moved)
            moving[after] += sorted(own.difference(moving[after]))
            since = row
    numbers = _numbers(case, moving)
    return {
        key: by_step for key, by_step in numbers.items() if all(_are_of_each(moved, rows) for rows in by_step.values())
    }


def _are_of_each(moved: Mapping[int, frozenset[int]], rows: list[tuple[int, float]]) -> bool:
    """Whether each call moves another parameter."""
    return len(frozenset[int]().union(*(moved[row] for row, _ in rows))) >= len(rows)


def _numbers(case: Case, rows_of_steps: Mapping[int, Iterable[int]]) -> _Numbers:
    calls = case.dataflow.log.calls
    found: _Numbers = defaultdict(lambda: defaultdict(list))
    for step, rows in rows_of_steps.items():
        for row in rows:
            for place, value in calls[row].scalars.items():
                if isinstance(value, float):
                    found[calls[row].call_site, place][step].append((row, value))
    return found


def _goes_on(by_step: dict[int, list[float]]) -> bool:
    """Whether the numbers of some steps, one after the other, only rise or only fall."""
    if len(by_step) < _STEPS or any(len(each) < _MIN_PARAMETERS for each in by_step.values()):
        return False
    pairs = list(pairwise(number for of_step in by_step.values() for number in of_step))
    return all(one < other for one, other in pairs) or all(one > other for one, other in pairs)


def _counting_line(case: Case, used: Location | None) -> Location | None:
    """The only line of the function that adds 1 to something, or takes the next number of a counter; or that calls a
    function which does."""
    lines = {} if used is None else case.capture.sources.get(used.file, {})
    around = None if used is None else function_around(lines, used.line)
    found = [number for number in around or () if _COUNTS.match(lines[number])]
    if not found:
        counting = {_name_of(lines, number) for number, text in lines.items() if _COUNTS.match(text)} - {""}
        found = [number for number in around or () if counting.intersection(_CALLED.findall(lines[number]))]
    is_inner = bool(found) and around is not None and found[0] != around[0]
    return Location(used.file, found[0]) if used is not None and len(found) == 1 and is_inner else None


def _name_of(lines: Mapping[int, str], number: int) -> str:
    """The name of the function around a line."""
    around = function_around(lines, number)
    first = None if around is None else _CALLED.search(lines[around[0]])
    return "" if first is None or not lines[around[0] if around else number].lstrip().startswith("def ") else first[1]
