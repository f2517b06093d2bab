"""GV949."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, line_outside_modules, plain_name
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before


class JudgedAsAnother(Rule):
    """What was made for some labels is judged with other labels.

    What it finds
    -------------
    A second network, with an optimizer of its own, that gets results of a first one together with labels, and returns
    one number for each: at one line with those for which the first network made them, and at another line, each time,
    with other ones. Data that are judged with wrong labels on purpose are no results of the first network, and are left
    alone.

    Why it matters
    --------------
    A generator that is asked for a 3 and judged as if it should be a 7 is taught to ignore what it is asked for.

    Example
    -------
    make, judge = torch.nn.Linear(4 + 3, 2), torch.nn.Linear(2 + 3, 1)
    of_make, of_judge = torch.nn.Embedding(5, 3), torch.nn.Embedding(5, 3)
    first = torch.optim.SGD([*make.parameters(), *of_make.parameters()], lr=0.1)
    second = torch.optim.SGD([*judge.parameters(), *of_judge.parameters()], lr=0.1)
    for step in range(4):
        y, asked = torch.randint(0, 5, (16,)), torch.randint(0, 5, (16,))
        real, fake = torch.randn(16, 2), make(torch.cat([torch.randn(16, 4), of_make(asked)], 1))
        right = judge(torch.cat([real, of_judge(y)], 1))
        wrong = judge(torch.cat([fake.detach(), of_judge(asked)], 1))
        second.zero_grad()
        torch.nn.functional.softplus(wrong - right).mean().backward()
        second.step()
        score = judge(torch.cat([fake, of_judge(y)], 1))
        first.zero_grad()
        torch.nn.functional.softplus(-score).mean().backward()
        first.step()

    Instead
    -------
    make, judge = torch.nn.Linear(4 + 3, 2), torch.nn.Linear(2 + 3, 1)
    of_make, of_judge = torch.nn.Embedding(5, 3), torch.nn.Embedding(5, 3)
    first = torch.optim.SGD([*make.parameters(), *of_make.parameters()], lr=0.1)
    second = torch.optim.SGD([*judge.parameters(), *of_judge.parameters()], lr=0.1)
    for step in range(4):
        y, asked = torch.randint(0, 5, (16,)), torch.randint(0, 5, (16,))
        real, fake = torch.randn(16, 2), make(torch.cat([torch.randn(16, 4), of_make(asked)], 1))
        right = judge(torch.cat([real, of_judge(y)], 1))
        wrong = judge(torch.cat([fake.detach(), of_judge(asked)], 1))
        second.zero_grad()
        torch.nn.functional.softplus(wrong - right).mean().backward()
        second.step()
        score = judge(torch.cat([fake, of_judge(asked)], 1))
        first.zero_grad()
        torch.nn.functional.softplus(-score).mean().backward()
        first.step()
    """

    code = "GV949"
    name = "judged_as_another"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        lines: dict[tuple[int, tuple[str, int] | None], list[_Judged]] = defaultdict(list)
        for each in _judged(case):
            line = line_outside_modules(case.dataflow, each.row)
            lines[each.judge, None if line is None else (line.file, line.line)].append(each)
        right = {judge for (judge, _), found in lines.items() if all(each.is_as_asked for each in found)}
        for (judge, _), found in lines.items():
            if judge in right and len(found) >= _MIN_TIMES and not any(each.is_as_asked for each in found):
                yield self._finding(case, found[-1])

    def _finding(self, case: Case, judged: _Judged) -> Finding:
        flow = case.dataflow
        location = location_of_line(line_outside_modules(flow, judged.row))
        made = location_of_line(line_outside_modules(flow, judged.asked))
        return self.finding(
            "what was made for some labels is judged here with other ones, and elsewhere with its own",
            symptom="grad_wrong",
            why="a network that is judged by labels that it never got learns to ignore those that it gets",
            fix="give both networks the same labels for what the first one makes: score = judge(fake, asked)",
            location=location,
            symptom_location=made if made != location else None,
        )


class _Judged(Struct, frozen=True):
    """Results of one network that another one gets together with labels."""

    row: int
    """The call that looks up these labels."""
    judge: int
    """The optimizer of the other network."""
    asked: int
    """The call that looked up those for which the results were made."""
    is_as_asked: bool


_MIN_TIMES = 3
_LOOKUPS = frozenset({"embedding", "one_hot"})
_MOST_LOOKUPS = 80
_MAX_FOLLOWED = 6
_TWO = 2


class _Lookup(Struct, frozen=True):
    row: int
    index: int
    """The labels, before they were brought into another shape."""
    classes: int
    checksum: int | None


def _judged(case: Case) -> Iterator[_Judged]:
    flow = case.dataflow
    if len([each for each in flow.log.optimizers if each.steps]) <= 1:
        return
    lookups = {row: found for row, _ in calls_named(flow, _LOOKUPS) if (found := _lookup(case, row)) is not None}
    for row, given in list(lookups.items())[-_MOST_LOOKUPS:]:
        met = _meets(case, row)
        judges = set() if met is None else _owners(case, {row, met[0]})
        if met is None or len(judges) != 1 or not _are_scored(case, met[0], judges):
            continue
        above = flow.ancestors(met[1], met[0])
        makers = _owners(case, set(above)) - judges
        below = [at for at in above if at in lookups and lookups[at].classes == given.classes]
        asked = [lookups[at] for at in below if not makers.isdisjoint(_owners(case, {at}))]
        if not asked or _is_of_others(case, given, asked):
            continue
        is_as_asked = any(_are_the_same(given, each) for each in asked)
        yield _Judged(row, judges.pop(), asked[-1].row, is_as_asked)


def _lookup(case: Case, row: int) -> _Lookup | None:
    flow = case.dataflow
    call = flow.log.calls[row]
    if not call.inputs or not call.outputs or not flow.has_step_after(row):
        return None
    index = call.inputs[0]
    is_of_each = len(shape_of(flow, index.tensor)) == 1
    is_table = plain_name(call.function) == "embedding"
    classes = shape_of(flow, call.inputs[1].tensor)[0] if is_table else shape_of(flow, call.outputs[0].tensor)[-1]
    source = tensor_before(flow, index.tensor, row, SHAPE_ONLY)
    return _Lookup(row, source, classes, call.checksums.get(index.place)) if is_of_each else None


def _meets(case: Case, row: int) -> tuple[int, int] | None:
    """The call that joins what was looked up with something else of as many rows, and that."""
    flow = case.dataflow
    tensor = flow.log.calls[row].outputs[0].tensor
    rows = shape_of(flow, tensor)[:1]
    for _ in range(_MAX_FOLLOWED):
        user = next((each for each in flow.users(tensor, row) if flow.log.calls[each].outputs), None)
        if user is None:
            return None
        call = flow.log.calls[user]
        others = [use.tensor for use in call.inputs if use.tensor != tensor and not _is_parameter(case, use.tensor)]
        if others:
            return (user, others[0]) if shape_of(flow, others[0])[:1] == rows else None
        row, tensor = user, call.outputs[0].tensor
    return None


def _are_scored(case: Case, row: int, judges: set[int]) -> bool:
    """Whether one number for each sample, or for each patch of it, comes out of a network: data come out of a decoder,
    which may be asked for other labels."""
    flow = case.dataflow
    joined = flow.log.calls[row].outputs[0].tensor
    count = next(iter(shape_of(flow, joined)), None)
    if count is None:
        return False  # An error of what was looked up, such as that of codes.
    below = flow.descendants(joined, row, flow.next_of_kind("backward", row))
    for each in (row, *below):
        if _owners_of_call(case, each) - judges:
            return False
        shape = shape_of(flow, flow.log.calls[each].outputs[0].tensor) if flow.log.calls[each].outputs else ()
        if shape == (count,) or shape[:_TWO] == (count, 1):
            return True
    return False


def _is_parameter(case: Case, tensor: int) -> bool:
    return case.dataflow.log.tensors[tensor].role == "parameter"


def _owners(case: Case, rows: set[int]) -> set[int]:
    """The optimizers of the parameters with which these calls compute, or the first calls behind them."""
    flow = case.dataflow
    found = {owner for row in rows for owner in _owners_of_call(case, row)}
    if found or not rows:
        return found
    last = max(rows)
    until = flow.next_of_kind("backward", last)
    for row in flow.descendants(flow.log.calls[last].outputs[0].tensor, last, until):
        owners = _owners_of_call(case, row)
        if owners:
            return owners
    return set()


def _owners_of_call(case: Case, row: int) -> set[int]:
    used = (use.tensor for use in case.dataflow.log.calls[row].inputs if _is_parameter(case, use.tensor))
    return {owner for tensor in used for owner in case.histories.optimizers_of(tensor)}


def _is_of_others(case: Case, given: _Lookup, asked: list[_Lookup]) -> bool:
    """Whether one of these labels was computed from the other ones."""
    flow = case.dataflow
    for each in asked:
        pairs = ((given.index, each.index, given.row), (each.index, given.index, each.row))
        for one, other, before in pairs:
            used = {use.tensor for row in flow.ancestors(one, before) for use in flow.log.calls[row].inputs}
            if one != other and other in used:
                return True
    return False


def _are_the_same(one: _Lookup, other: _Lookup) -> bool:
    return one.index == other.index or (one.checksum is not None and one.checksum == other.checksum)
