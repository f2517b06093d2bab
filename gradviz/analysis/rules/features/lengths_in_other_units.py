"""GV941."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import meets_parameters
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class LengthsInOtherUnits(Rule):
    """A mask compares the positions of short sequences with lengths from before they were shortened.

    What it finds
    -------------
    A comparison of ``torch.arange(n)`` with lengths, at several calls of a line, where the largest length is the same
    multiple of ``n`` each time, 1.5 or more, though ``n`` varies: lengths in samples beside positions in frames, or
    lengths from before convolutions with a stride. What is cut off at a fixed number of positions is left alone.

    Why it matters
    --------------
    Only the longest sequence of a batch fills all positions, so its length should be ``n``. With lengths that are
    several times as large, the mask hides little or nothing, and the padding is taken for data.

    Example
    -------
    net, head = torch.nn.Conv1d(1, 8, 8, stride=4), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
    for step in range(4):
        lengths = torch.randint(40, 90, (8,))
        real = torch.arange(int(lengths.max())) < lengths[:, None]
        h = net((torch.randn(real.shape) * real)[:, None])
        frames = lengths
        mask = (torch.arange(h.shape[-1]) < frames[:, None])[:, None]
        pooled = (h * mask).sum(-1) / mask.sum(-1)
        loss = torch.nn.functional.cross_entropy(head(pooled), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    net, head = torch.nn.Conv1d(1, 8, 8, stride=4), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
    for step in range(4):
        lengths = torch.randint(40, 90, (8,))
        real = torch.arange(int(lengths.max())) < lengths[:, None]
        h = net((torch.randn(real.shape) * real)[:, None])
        frames = (lengths - 8) // 4 + 1
        mask = (torch.arange(h.shape[-1]) < frames[:, None])[:, None]
        pooled = (h * mask).sum(-1) / mask.sum(-1)
        loss = torch.nn.functional.cross_entropy(head(pooled), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV941"
    name = "lengths_in_other_units"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, at_lines = case.dataflow, defaultdict[Location | None, list[_Mask]](list)
        for row, call in calls_named(flow, _COMPARES):
            if call.inside is None and (mask := _mask(flow, row, call)) is not None:
                at_lines[location_of_call(flow, row)].append(mask)
        for masks in at_lines.values():
            ratio = _common_ratio(masks)
            if ratio is not None and meets_parameters(flow, masks[0].row):
                yield self._finding(flow, masks[0], ratio)

    def _finding(self, flow: Dataflow, mask: _Mask, ratio: float) -> Finding:
        return self.finding(
            f"a mask of {mask.positions:,} positions is made from lengths of {mask.least:,.0f} to {mask.longest:,.0f}: "
            f"in each batch, the longest is about {ratio:.3g} times the number of positions, so the mask "
            + ("hides nothing" if mask.least >= mask.positions else "hides too little"),
            symptom="grad_wrong",
            why="the lengths count what came before the positions were made fewer, such as samples and not frames; "
            "padding counts as data",
            fix="bring the lengths to the same unit: lengths // hop + 1 for frames, (lengths - kernel) // stride + 1 "
            "for each convolution without padding",
            location=location_of_call(flow, mask.row),
            evidence={"positions": mask.positions, "longest": mask.longest, "ratio": ratio},
        )


class _Mask(Struct, frozen=True):
    """A comparison of positions with lengths."""

    row: int
    positions: int
    least: float
    longest: float


_COMPARES = frozenset({"lt", "le", "gt", "ge"})
_SHAPES = frozenset({"unsqueeze", "view", "reshape", "getitem", "expand", "to", "expand_as", "repeat", "long", "float"})
_MAX_MAKERS = 6
_MIN_POSITIONS = 3
_MIN_RATIO = 1.5
_MIN_CALLS = 3
_MAX_SPREAD = 0.1
"""Layers without padding lose some positions at the ends, which are more in short batches."""


def _mask(flow: Dataflow, row: int, call: Call) -> _Mask | None:
    """The comparison, if one side counts up from 0 by 1, and the other one has a whole number for each sequence."""
    if len(call.inputs) != 2 or any(use.requires_grad for use in call.inputs):
        return None
    for positions, lengths in (call.inputs, call.inputs[::-1]):
        count, values = _counted(flow, positions.tensor, row), flow.values_of(lengths, row)
        if count is None or values is None or values.minimum is None or values.maximum is None:
            continue
        if _counted(flow, lengths.tensor, row) is None and max(shape_of(flow, lengths.tensor), default=0) > 1:
            return _Mask(row, count, values.minimum, values.maximum) if count >= _MIN_POSITIONS else None
    return None


def _counted(flow: Dataflow, tensor: int, row: int) -> int | None:
    """How many positions ``torch.arange(n)`` gave, if it made the tensor; None for any other one."""
    for made, call in flow.makers(tensor, row, _MAX_MAKERS):
        if plain_name(call.function) == "arange":
            facts = flow.log.calls[made].outputs[0].values
            is_whole = facts is not None and facts.minimum == 0 and facts.maximum == facts.count - 1
            return facts.count if facts is not None and is_whole else None
        if plain_name(call.function) not in _SHAPES:
            return None
    return None


def _common_ratio(masks: list[_Mask]) -> float | None:
    """How many times as large as the number of positions the longest sequences are, if that is the same in all batches
    though the number varies."""
    if len(masks) < _MIN_CALLS or len({mask.positions for mask in masks}) < _MIN_CALLS:
        return None
    ratios = [mask.longest / mask.positions for mask in masks]
    is_same = max(ratios) <= min(ratios) * (1 + _MAX_SPREAD)
    return ratios[0] if is_same and min(ratios) >= _MIN_RATIO else None
