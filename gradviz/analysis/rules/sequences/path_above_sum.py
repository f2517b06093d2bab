"""GV830."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class PathAboveSum(Rule):
    """The score of one path exceeds the logarithm of the sum over all paths, which is to contain it.

    What it finds
    -------------
    A difference between a recursion of ``logsumexp`` over the steps of sequences, as the partition sum of a CRF is, and
    scores that are read at indices from the same tensors, whose sign is the impossible one in some call: the sum of the
    exponentials of all paths is larger than that of any of them. The finding stands
    at the line that reads for the path what the sum has not, or the table of transitions.

    Why it matters
    --------------
    The two do not count the same: one takes a transition as (from, to) and the other as (to, from), or they count other
    positions, start or end scores. The loss is no likelihood, so it can fall without end, and decoding with the trained
    scores does not give what was trained.

    Example
    -------
    model, table = torch.nn.Linear(6, 3), torch.nn.Parameter(torch.zeros(3, 3))
    optimizer = torch.optim.SGD([*model.parameters(), table], lr=0.5)
    for step in range(30):
        tags = (torch.randint(0, 3, (8, 1)) + torch.arange(5)) % 3
        emit = model(torch.randn(8, 5, 6))
        total = emit[:, 0]
        path = emit.gather(2, tags.unsqueeze(2)).sum(dim=(1, 2))
        for t in range(1, 5):
            total = (total.unsqueeze(2) + table + emit[:, t].unsqueeze(1)).logsumexp(dim=1)
            path = path + table[tags[:, t], tags[:, t - 1]]
        loss = (total.logsumexp(dim=1) - path).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model, table = torch.nn.Linear(6, 3), torch.nn.Parameter(torch.zeros(3, 3))
    optimizer = torch.optim.SGD([*model.parameters(), table], lr=0.5)
    for step in range(30):
        tags = (torch.randint(0, 3, (8, 1)) + torch.arange(5)) % 3
        emit = model(torch.randn(8, 5, 6))
        total = emit[:, 0]
        path = emit.gather(2, tags.unsqueeze(2)).sum(dim=(1, 2))
        for t in range(1, 5):
            total = (total.unsqueeze(2) + table + emit[:, t].unsqueeze(1)).logsumexp(dim=1)
            path = path + table[tags[:, t - 1], tags[:, t]]
        loss = (total.logsumexp(dim=1) - path).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV830"
    name = "path_above_sum"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        if not any(True for _ in calls_named(flow, _SUMS)):
            return
        by_line: dict[int | None, list[int]] = defaultdict(list)
        for row, call in calls_named(flow, ("sub",)):
            if len(call.live_inputs) == _BOTH and flow.has_step_after(row):
                by_line[call.call_site].append(row)
        for rows in by_line.values():
            compared = _compared(flow, rows[0])
            if compared is None:
                continue
            excess = max(_excess(flow, row, compared) for row in rows)
            if excess > 0:
                yield self._finding(case, compared, excess)

    def _finding(self, case: Case, compared: _Compared, excess: float) -> Finding:
        flow = case.dataflow
        here = location_of_call(flow, compared.row)
        read = here if compared.read is None else location_of_call(flow, compared.read)
        return self.finding(
            f"the score of a path exceeds the logarithm of the sum over all paths by up to {excess:.3g}: it cannot be "
            "one of these paths",
            symptom="grad_wrong",
            why="the two count different things, so their difference is no likelihood: it falls without end",
            fix="read the transitions the same way round in both, table[before, after] where the recursion sums over "
            "the tags before; and let both count the same positions, and the same start and end scores",
            location=read,
            symptom_location=here if here != read else None,
            evidence={"excess": excess},
        )


class _Compared(Struct, frozen=True):
    """A difference between a path's score and a recursion's sum."""

    row: int
    is_sum_first: bool
    read: int | None
    """The call that reads for the path what the sum does not contain, or a square table of transitions."""


_SUMS = frozenset({"logsumexp", "logaddexp"})
_READS = frozenset({"gather", "getitem", "take_along_dim", "index_select", "embedding"})
_BOTH = 2
_MIN_STEPS = 3
_ROUNDING = 1e-3


def _compared(flow: Dataflow, row: int) -> _Compared | None:
    """What a difference compares, if one side is a recursion of sums and the other reads the same tensors."""
    call, since = flow.log.calls[row], flow.step_before(row)
    above = [set(flow.ancestors(use.tensor, row, since)) for use in call.inputs]
    for index, own in enumerate(above):
        other = above[1 - index]
        sums, reads = _named(flow, own - other, _SUMS), _named(flow, other - own, _READS)
        by_index = [each for each in reads if _has_fixed_index(flow.log.calls[each])]
        is_recursion = len(sums) >= _MIN_STEPS and sums[0] in flow.ancestors(
            flow.log.calls[sums[-1]].inputs[0].tensor, sums[-1], since
        )
        if not is_recursion or not by_index or _named(flow, other - own, _SUMS):
            continue
        summed = _memory_read(flow, own)
        alone = [each for each in by_index if summed.isdisjoint(_memory_read(flow, [each]))]
        if len(alone) < len(by_index):
            leaves = [each for each in alone if flow.log.calls[each].live_inputs[0].is_live_leaf]
            return _Compared(row, index == 0, leaves[0] if leaves else _read_of_table(flow, by_index))
    return None


def _memory_read(flow: Dataflow, rows: Iterable[int]) -> set[int]:
    return {flow.memory_of(use.tensor) for row in rows for use in flow.log.calls[row].live_inputs}


def _named(flow: Dataflow, rows: set[int], names: frozenset[str]) -> list[int]:
    return sorted(row for row in rows if plain_name(flow.log.calls[row].function) in names)


def _has_fixed_index(call: Call) -> bool:
    return bool(call.live_inputs) and any(not use.requires_grad for use in call.inputs)


def _read_of_table(flow: Dataflow, rows: list[int]) -> int | None:
    """The call that reads a square table at a pair of indices."""
    for row in rows:
        call = flow.log.calls[row]
        shape = shape_of(flow, call.live_inputs[0].tensor)
        if len(shape) == _BOTH and shape[0] == shape[1] and len(call.inputs) > _BOTH:
            return row
    return None


def _excess(flow: Dataflow, row: int, compared: _Compared) -> float:
    """By how much the path exceeds the sum, where that is more than rounding; otherwise 0."""
    call = flow.log.calls[row]
    values, sums = flow.values_of(call.outputs[0], row), flow.values_of(call.inputs[0], row)
    if values is None or values.minimum is None or values.maximum is None:
        return 0.0
    excess = -values.minimum if compared.is_sum_first else values.maximum
    bounds = (None, None) if sums is None else (sums.minimum, sums.maximum)
    size = max((abs(each) for each in bounds if each is not None), default=1.0)
    is_rounded = "16" in flow.log.tensors[call.outputs[0].tensor].facts.dtype
    return excess if excess > _ROUNDING * max(size, 1.0) and not is_rounded else 0.0
