"""GV406."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod
from operator import itemgetter
from typing import NamedTuple

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.changed_samples import (
    ChangedSamples,
    changed_samples,
    changes_in_place,
)
from gradviz.analysis.rules.bases.batches.masked_again import MaskedAgain, is_state, masked_again
from gradviz.graph.call_log import Call


class DataChangedAgain(Rule):
    """Data is changed in place through a view each time it is read.

    What it finds
    -------------
    ``x = data[i:j]``, or a part that ``split()`` gives, followed by ``x -= ...``, ``x /= ...``, ``x += noise``,
    ``x.log1p_()`` or a dropout in place, where the same line changes the memory of the same data set again and again,
    and trains on the result. Also a constant that is written into such a part, at
    other places each time that the part is read: masks that add up. The same for parts of a NumPy array, of which
    ``from_numpy()`` makes tensors, and for tensors in a list.

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
        changes: dict[tuple[int | None, str, int | None], list[_Change]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            view = _changed_view(flow, row, call)
            if view is not None:
                # A line may change a part in several ways, once for all: part.sub_(mean).div_(std).
                storage = flow.log.tensors[call.inputs[0].tensor].storage
                changes[call.call_site, call.function, storage].append(_Change(row, *view))
        told: set[int | None] = set()
        for (*_, storage), found in changes.items():
            changed = [flow.log.calls[each.row].inputs[0].tensor for each in found]
            members = flow.sharing_memory(changed[0])
            if storage in told or is_state(flow, members) or _count_of_parts(flow, found) < _MIN_PARTS:
                continue
            if _is_filled_anew(flow, found):
                continue
            size = max(prod(shape_of(flow, each)) for each in members)
            written = sum(prod(shape_of(flow, each)) for each in changed)
            if written > size and any(_is_used_later(flow, each) for each in found):
                told.add(storage)
                yield self._finding(case, found, written / size)
        yield from (self._finding_of_masks(case, each) for each in masked_again(flow))
        yield from (self._finding_of_samples(case, each) for each in changed_samples(flow))

    def _finding_of_samples(self, case: Case, found: ChangedSamples) -> Finding:
        whose = "the memory of arrays, which tensors share," if found.is_array else "samples of a list"
        return self.finding(
            f"this line changes {whose} in place, {found.again:,} times with the values that an earlier change has "
            "left: what is read again was changed before",
            symptom="grad_wrong",
            why="from_numpy() and as_tensor() do not copy an array"
            if found.is_array
            else "an element of a list is the tensor itself, so the change is kept for the next time",
            fix="compute a new tensor (x = x - mean instead of x -= mean), or copy first, as torch.tensor() does",
            location=location_of_call(case.dataflow, found.row),
            evidence={"changes": found.again},
        )

    def _finding(self, case: Case, changes: list[_Change], times: float) -> Finding:
        flow = case.dataflow
        first = changes[0]
        base = case.tensor_name(flow.log.calls[first.view].inputs[0].tensor)
        location, taken = two_lines(flow, first.row, first.view)
        return self.finding(
            f"{len(changes):,} calls change {base} in place through views of it, {times:.1f} times as many values as "
            "it has: what is read again was changed before",
            symptom="grad_wrong",
            why="a slice or an element of a tensor shares its memory, so the change is kept for the next time",
            fix="compute a new tensor (x = x - mean instead of x -= mean), or clone() the slice first",
            location=location,
            symptom_location=taken,
            evidence={"changes": len(changes), "times": round(times, 1)},
        )

    def _finding_of_masks(self, case: Case, masked: MaskedAgain) -> Finding:
        flow = case.dataflow
        base = case.tensor_name(flow.log.calls[masked.view].inputs[0].tensor)
        location, taken = two_lines(flow, masked.row, masked.view)
        return self.finding(
            f"{masked.calls:,} calls write {masked.constant} into {base} in place through views of it, at other places "
            "each time that a part is read: what was masked before stays so",
            symptom="grad_wrong",
            why="a slice or an element of a tensor shares its memory, so the masks add up until little of the data is "
            "left",
            fix="clone() the slice before it is masked, or use what returns a new tensor (masked_fill, where)",
            location=location,
            symptom_location=taken,
            evidence={"changes": masked.calls, "parts": masked.parts},
        )


_MIN_PARTS = 3


class _Change(NamedTuple):
    row: int
    view: int
    """The call that took the part that is changed."""
    part: int


_TAKES_A_PART = frozenset({
    "getitem", "narrow", "select", "unbind", "split", "split_with_sizes", "chunk", "tensor_split", "hsplit", "vsplit",
})  # fmt: skip
_TURNS = frozenset({"view", "reshape", "unsqueeze", "squeeze", "flatten", "t", "T", "mT", "transpose", "permute"})
_FILLS = frozenset({"copy", "setitem", "normal", "uniform", "random", "bernoulli", "zero", "fill", "index_copy"})
_MAX_VIEWS = 4


def _changed_view(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """The call that took the part of a tensor without gradient that an in-place calculation changes, and the part."""
    if not changes_in_place(flow, row, call):
        return None
    tensor, storage = call.inputs[0].tensor, flow.log.tensors[call.inputs[0].tensor].storage
    for _ in range(_MAX_VIEWS):
        made = flow.producers(tensor, row)
        maker = flow.log.calls[made[0]] if made else None
        # A copy has memory of its own.
        if maker is None or not maker.inputs or storage is None:
            return None
        if storage != flow.log.tensors[maker.inputs[0].tensor].storage:
            return None
        if plain_name(maker.function) in _TAKES_A_PART:
            return made[0], tensor
        if plain_name(maker.function) not in _TURNS:
            return None
        tensor, row = maker.inputs[0].tensor, made[0]
    return None


def _count_of_parts(flow: Dataflow, changes: list[_Change]) -> int:
    """How many parts were changed, told apart by their indexes, or by their places among all that a call returned."""
    return len({_part(flow, each) for each in changes})


def _part(flow: Dataflow, change: _Change) -> tuple[object, ...]:
    view = flow.log.calls[change.view]
    place = next((use.place for use in view.outputs if use.tensor == change.part), "")
    return place, tuple(sorted(view.scalars.items(), key=itemgetter(0)))


def _is_filled_anew(flow: Dataflow, changes: list[_Change]) -> bool:
    """Whether other calls overwrite the memory about as often: it is room for results, and not a data set."""
    changed = flow.log.calls[changes[0].row].inputs[0].tensor
    rows = flow.changes(changed, changes[0].row, changes[-1].row)
    return _TWO * sum(plain_name(flow.log.calls[row].function) in _FILLS for row in rows) >= len(changes)


_TWO = 2


def _is_used_later(flow: Dataflow, change: _Change) -> bool:
    """Whether the changed part itself is computed with, not only what it is a part of."""
    changed = {flow.log.calls[change.row].inputs[0].tensor, change.part}
    users = (flow.log.calls[user] for tensor in changed for user in flow.users(tensor, change.row))
    return any(user.outputs and not user.changed for user in users)
