"""GV406."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class DataChangedAgain(Rule):
    """Data is changed in place through a view each time it is read.

    What it finds
    -------------
    ``x = data[i:j]`` followed by ``x -= ...``, ``x /= ...`` or ``x += noise``, where the same line changes the memory
    of the same data set again and again, and trains on the result.

    Why it matters
    --------------
    A slice is a view: the change is written to the data set. The next time that it is read, it is changed once more.
    Noise adds up, scales multiply, and windows that overlap spoil each other.

    Example
    -------
    data = torch.randn(12, 4)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(12):
        x = data[step % 3 * 4 : step % 3 * 4 + 4]
        x += 0.1 * torch.randn(4, 4)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    Instead
    -------
    data = torch.randn(12, 4)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(12):
        x = data[step % 3 * 4 : step % 3 * 4 + 4]
        x = x + 0.1 * torch.randn(4, 4)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    """

    code = "GV406"
    name = "data_changed_again"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        changes: dict[tuple[int | None, int], list[int]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            storage = _changed_view_of_data(case, row, call)
            if storage is not None:
                changes[call.call_site, storage].append(row)
        told = set()
        for (_, storage), rows in changes.items():
            size = max(
                (prod(shape_of(flow, each)) for each in flow.sharing_memory(flow.log.calls[rows[0]].inputs[0].tensor)),
                default=0,
            )
            written = sum(prod(shape_of(flow, flow.log.calls[row].inputs[0].tensor)) for row in rows)
            is_used = any(_is_used_later(case, row) for row in rows)
            if written <= size or len(_views(case, rows)) < _MIN_VIEWS or not is_used or storage in told:
                continue
            told.add(storage)
            yield self._finding(case, rows, written / size)

    def _finding(self, case: Case, rows: list[int], times: float) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[rows[0]]
        view = flow.producers(call.inputs[0].tensor, rows[0])
        taken = location_of_call(flow, view[0]) if view else None
        base = case.tensor_name(flow.log.calls[view[0]].inputs[0].tensor) if view else "the data"
        location = location_of_call(flow, rows[0])
        return self.finding(
            f"{len(rows):,} calls change {base} in place through views of it, {times:.1f} times as many values as it "
            "has: what is read again was changed before",
            symptom="grad_wrong",
            why="a slice or an element of a tensor shares its memory, so the change is kept for the next time",
            fix="compute a new tensor (x = x - mean instead of x -= mean), or clone() the slice first",
            location=location,
            symptom_location=taken if taken != location else None,
            evidence={"changes": len(rows), "times": round(times, 1)},
        )


_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "pow", "addcmul", "addcdiv", "lerp"})
_MIN_VIEWS = 3


def _changed_view_of_data(case: Case, row: int, call: Call) -> int | None:
    """The memory that an in-place calculation on a part of a constant changes."""
    flow = case.dataflow
    if call.kind != "operation" or not call.inputs or plain_name(call.function) not in _ARITHMETIC:
        return None
    use = call.inputs[0]
    if use.requires_grad or call.inside is not None or use.tensor not in [each.tensor for each in call.changed]:
        return None
    tensor = flow.log.tensors[use.tensor]
    made = flow.producers(use.tensor, row)
    if tensor.storage is None or not made or not flow.has_step_after(row):
        return None
    maker = flow.log.calls[made[0]]
    if plain_name(maker.function) not in ("getitem", "narrow", "select", "unbind") or not maker.inputs:
        return None
    members = [flow.log.tensors[each] for each in flow.sharing_memory(use.tensor)]
    # A copy has memory of its own; parameters, buffers and gradients are changed on purpose.
    is_view = flow.log.tensors[maker.inputs[0].tensor].storage == tensor.storage
    is_state = any(each.role != "tensor" or each.gradient_of is not None or each.requires_grad for each in members)
    return tensor.storage if is_view and not is_state else None


def _views(case: Case, rows: list[int]) -> set[tuple[tuple[str, object], ...]]:
    """The parts that were changed, by their indexes."""
    flow = case.dataflow
    makers = (flow.producers(flow.log.calls[row].inputs[0].tensor, row)[0] for row in rows)
    return {tuple(sorted(flow.log.calls[maker].scalars.items(), key=lambda each: each[0])) for maker in makers}


def _is_used_later(case: Case, row: int) -> bool:
    """Whether the changed part itself is computed with, not only what it is a part of."""
    flow = case.dataflow
    users = flow.users(flow.log.calls[row].inputs[0].tensor, row)
    return any(flow.log.calls[user].outputs and not flow.log.calls[user].changed for user in users)
