"""GV932."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call


class MergedEachTime(Rule):
    """A trained product is added to a frozen weight again and again, and is never taken out.

    What it finds
    -------------
    A weight that no optimizer trains, to which a product of trained parameters is added in place two times or more,
    with steps on these parameters in between, where nothing subtracts it again, puts the weight back, or starts the
    parameters anew.

    Why it matters
    --------------
    A low-rank update (LoRA) is merged into its weight to make inference fast. When the training goes on, the update is
    counted twice, once in the weight and once beside it; after the second merge three times. The frozen model drifts
    away with every evaluation.

    Example
    -------
    base = torch.nn.Linear(6, 4).requires_grad_(False)
    down, up = torch.nn.Parameter(torch.randn(2, 6)), torch.nn.Parameter(torch.zeros(4, 2))
    optimizer = torch.optim.SGD([down, up], lr=0.1)
    x, y = torch.randn(32, 6), torch.randint(0, 4, (32,))
    for epoch in range(3):
        loss = torch.nn.functional.cross_entropy(base(x) + x @ down.T @ up.T, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            base.weight += up @ down
            print((base(x).argmax(1) == y).float().mean())

    Instead
    -------
    base = torch.nn.Linear(6, 4).requires_grad_(False)
    down, up = torch.nn.Parameter(torch.randn(2, 6)), torch.nn.Parameter(torch.zeros(4, 2))
    optimizer = torch.optim.SGD([down, up], lr=0.1)
    x, y = torch.randn(32, 6), torch.randint(0, 4, (32,))
    for epoch in range(3):
        loss = torch.nn.functional.cross_entropy(base(x) + x @ down.T @ up.T, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            base.weight += up @ down
            print((base(x).argmax(1) == y).float().mean())
            base.weight -= up @ down
    """

    code = "GV932"
    name = "merged_each_time"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        by_site: dict[int | None, list[tuple[int, list[_Merge]]]] = {}
        for tensor in _weights_added_to(case):
            merges = _merges(case, tensor)
            if merges is not None and _stays(flow, merges):
                by_site.setdefault(flow.log.calls[merges[0].row].call_site, []).append((tensor, merges))
        for found in by_site.values():
            yield self._finding(flow, [tensor for tensor, _ in found], found[0][1])

    def _finding(self, flow: Dataflow, tensors: list[int], merges: list[_Merge]) -> Finding:
        names = names_of(flow, tensors)
        return self.finding(
            f"a product of trained parameters is added to {together(names) or 'a frozen weight'} {len(merges)} times, "
            "with steps in between, and nothing takes it out again",
            symptom="grad_wrong",
            why="the training goes on with the weight and adds the product beside it, too: it counts once more after "
            "each time",
            fix="subtract the same product when the evaluation is over, or score a copy of the model",
            location=location_of_call(flow, merges[-1].row),
            tensors=names,
            evidence={"times": len(merges)},
        )


class _Merge(Struct, frozen=True):
    row: int
    factors: frozenset[int]
    """The trained parameters that were multiplied."""


_ADDS = frozenset({"add", "sub"})
_PRODUCTS = frozenset({"matmul", "mm", "linear", "einsum", "outer", "ger", "bmm"})
_SCALES = frozenset({"mul", "div", "neg"})
_LEAST = 2
_MAX_CALLS = 16


def _weights_added_to(case: Case) -> list[int]:
    """The parameters and buffers that no optimizer trains, and that some call changes in place, or gives new memory."""
    flow, histories = case.dataflow, case.histories
    calls = (flow.log.calls[row] for row in flow.rows_that_change)
    changed = {use.tensor for call in calls if call.kind == "operation" for use in call.changed}
    reached = {tensor for each in changed for tensor in flow.sharing_memory(each)} | flow.data_assignments.keys()
    return sorted(each for each in reached if flow.log.tensors[each].role != "tensor" and each not in histories.trained)


def _merges(case: Case, tensor: int) -> list[_Merge] | None:
    """The additions of products to a weight; None if anything else changes it after its first step."""
    flow, merges = case.dataflow, list[_Merge]()
    end, steps = len(case.dataflow.log.calls), flow.rows_of_kind("step")
    first = steps[0] if steps else end
    changes = flow.changes(tensor, first, end)
    assigned = [row for row in flow.data_assignments.get(tensor, ()) if row > first]
    for row in sorted({*changes, *assigned}):
        made = _maker_of_data(flow, row) if row in assigned else row
        if row in assigned and made in changes:
            continue  # ``weight.data += product``: Python assigns what was changed in place.
        call = None if made is None else flow.log.calls[made]
        is_sum = call is not None and plain_name(call.function) in _ADDS and _is_of(flow, call, tensor, row)
        factors = _added_factors(case, made, call) if made is not None and call is not None and is_sum else None
        if factors is None:
            return None
        merges.append(_Merge(row, factors))
    return merges if len(merges) >= _LEAST and len({each.factors for each in merges}) == 1 else None


def _maker_of_data(flow: Dataflow, row: int) -> int | None:
    """The call that made what a call assigns to ``.data``."""
    inputs = flow.log.calls[row].inputs
    return flow.newest_producer(inputs[-1].tensor, row) if inputs else None


def _is_of(flow: Dataflow, call: Call, tensor: int, row: int) -> bool:
    """Whether a call adds to a weight, or to what ``.data`` or ``detach()`` returned for it."""
    first = call.inputs[0].tensor if call.inputs else None
    if first is None or first in flow.sharing_memory(tensor):
        return first is not None
    made = flow.newest_producer(first, row)
    return made is not None and any(use.tensor == tensor for use in flow.log.calls[made].inputs[:1])


def _added_factors(case: Case, row: int, call: Call) -> frozenset[int] | None:
    """The trained parameters whose product a call adds; None if it adds something else, or subtracts it."""
    flow, is_minus = case.dataflow, plain_name(call.function) == "sub"
    is_minus ^= number_of(call, "alpha", missing=1.0) < 0
    if len(call.inputs) < _LEAST:
        return None
    leaves, has_product, waiting = set[int](), False, [(call.inputs[1].tensor, row)]
    for _ in range(_MAX_CALLS):
        if not waiting:
            break
        tensor, before = waiting.pop()
        if tensor in case.histories.trained:
            leaves.add(tensor)
            continue
        made = flow.newest_producer(tensor, before)
        inner = None if made is None else flow.log.calls[made]
        if made is None or inner is None:
            return None
        name = plain_name(inner.function)
        if name in _SCALES:
            is_minus ^= name == "neg" or number_of(inner, "1", "0", "other", missing=1.0) < 0
        elif name not in _PRODUCTS | SHAPE_ONLY | {"detach", "data", "clone"}:
            return None
        has_product |= name in _PRODUCTS
        waiting += [(use.tensor, made) for use in inner.inputs]
    return frozenset(leaves) if has_product and len(leaves) >= _LEAST and not waiting and not is_minus else None


def _stays(flow: Dataflow, merges: list[_Merge]) -> bool:
    """Whether steps, and nothing else, change the parameters from one merge to the next, and the last one is trained
    with, too."""
    for merge, following in pairwise(merges):
        changes = [row for each in merge.factors for row in flow.changes(each, merge.row, following.row)]
        kinds = {flow.log.calls[row].kind for row in changes}
        if kinds != {"step"} or any(flow.data_assignments.get(each) for each in merge.factors):
            return False
    return True
