"""GV650."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse


class StraightThroughReversed(Rule):
    """A straight-through estimator is written the wrong way round, or without its detach.

    What it finds
    -------------
    ``q + (x - q).detach()``, where ``q`` was computed from ``x`` by an operation without a derivative (the nearest
    code, rounding, the largest one): its value is that of ``x``, and its gradient goes to ``q``, or nowhere. So is it
    where the difference is taken under ``no_grad()``, or of two detached tensors. Also ``x + q - x`` without
    ``detach()``, where the gradient of ``x`` cancels out, and ``x + (y - x).detach()`` with ``y = x * 0.1``, whose
    value is scaled and whose gradient is not, where the gradient should have been.

    Why it matters
    --------------
    What follows gets the values of ``x``, as if nothing had been chosen or rounded, so it learns to use what it will
    not have later; and ``x`` gets no gradient from it.

    Example
    -------
    encoder, decoder, codes = torch.nn.Linear(4, 2), torch.nn.Linear(2, 4), torch.nn.Embedding(8, 2)
    parameters = [*encoder.parameters(), *decoder.parameters(), *codes.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        z = encoder(x)
        q = codes(torch.cdist(z, codes.weight).argmin(1))
        near = (z - q.detach()).square().mean() + (q - z.detach()).square().mean()
        loss = (decoder(q + (z - q).detach()) - x).square().mean() + near
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder, decoder, codes = torch.nn.Linear(4, 2), torch.nn.Linear(2, 4), torch.nn.Embedding(8, 2)
    parameters = [*encoder.parameters(), *decoder.parameters(), *codes.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        z = encoder(x)
        q = codes(torch.cdist(z, codes.weight).argmin(1))
        near = (z - q.detach()).square().mean() + (q - z.detach()).square().mean()
        loss = (decoder(z + (q - z).detach()) - x).square().mean() + near
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV650"
    name = "straight_through_reversed"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[Location | None] = set()
        scaled: dict[int | None, list[tuple[int, int, float]]] = defaultdict(list)
        cancelling: dict[Location | None, list[tuple[int, int, int]]] = defaultdict(list)
        for row, call in calls_named(flow, ("add", "sub")):
            name = plain_name(call.function)
            if len(call.inputs) != _BOTH or location_of_call(flow, row) in told:
                continue
            live, rest = call.inputs if _is_chosen_first(flow, call, row) else reversed(call.inputs)
            kept = _kept_value(flow, live, rest, row, is_subtracted=name == "sub")
            if kept is not None and flow.has_step_after(row) and (factor := _scaled_by(flow, kept, live.tensor, row)):
                scaled[call.call_site].append((row, live.tensor, factor))
            elif kept is not None and flow.has_step_after(row) and _is_chosen_by(flow, live.tensor, kept, row):
                told.add(location_of_call(flow, row))
                yield self._finding(case, row, live, kept)
            cancelled = _cancelled(flow, row, call)
            if cancelled is not None and flow.has_step_after(row) and _is_chosen_by(flow, *cancelled, row):
                cancelling[location_of_call(flow, row)].append((row, *cancelled))
        for calls in scaled.values():
            yield self._scaled(case, calls)
        for each in cancelling.values():
            yield self._not_detached(case, each)

    def _scaled(self, case: Case, calls: list[tuple[int, int, float]]) -> Finding:
        row, _, factor = calls[-1]
        leaves = frozenset(each for at, live, _ in calls for each in _leaves(case, live, at))
        return self.finding(
            "a gradient is scaled with the parts exchanged: the value is multiplied by a number, and the gradient is "
            "that of the value as it was",
            symptom="grad_wrong",
            why="what follows computes with values of another size, and the gradient is not scaled",
            fix="exchange the two: y + (x - y).detach(), with y = x * factor, has the value of x and the scaled "
            "gradient",
            location=location_of_call(case.dataflow, row),
            tensors=names_of(case.dataflow, sorted(leaves & case.histories.trained)),
            evidence={"factor": factor},
        )

    def _not_detached(self, case: Case, calls: list[tuple[int, int, int]]) -> Finding:
        row, chosen, _ = calls[0]
        leaves = frozenset(each for at, *both in calls for each in case.histories.live_leaves(both, at)[0])
        names = list(dict.fromkeys(case.tensor_name(value) for *_, value in calls))
        others = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
        return self.finding(
            f"{names[0]}{others} added and subtracted again, both with the gradient, which cancels out: it goes to "
            f"{case.tensor_name(chosen)} only, which was chosen or rounded",
            symptom="grad_wrong",
            why="a straight-through passes the gradient by what has no derivative; here none passes by",
            fix="detach the difference: x + (q - x).detach(), with q = f(x)",
            location=location_of_call(case.dataflow, row),
            tensors=names_of(case.dataflow, sorted(leaves & case.histories.trained)),
        )

    def _finding(self, case: Case, row: int, live: TensorUse, kept: int) -> Finding:
        flow = case.dataflow
        made = flow.newest_producer(live.tensor, row)
        location = location_of_call(flow, row)
        chosen_at = None if made is None else location_of_call(flow, made)
        chosen = case.tensor_name(live.tensor)
        return self.finding(
            f"the straight-through is turned round: its value is that of {case.tensor_name(kept)}, and "
            + (
                f"its gradient goes to {chosen}, which was chosen or rounded from it"
                if live.requires_grad
                else f"{chosen}, which was chosen or rounded from it, has no gradient to pass on"
            ),
            symptom="grad_wrong" if live.requires_grad else "grad_none",
            why="what follows is trained on values that were never chosen or rounded, and what comes before gets no "
            "gradient from it",
            fix="exchange the two: x + (q - x).detach(), with q = f(x)",
            location=location,
            symptom_location=chosen_at if chosen_at != location else None,
            # Where both sides are cut off, those that tell of the cuts tell no more.
            tensors=()
            if live.requires_grad
            else names_of(flow, sorted(_leaves(case, kept, row) & case.histories.trained)),
        )


def _is_chosen_first(flow: Dataflow, call: Call, row: int) -> bool:
    """Whether ``q`` is the first operand of ``q + (x - q).detach()``: it requires grad, or both have no gradient and
    the other one was cut off."""
    first, second = call.inputs
    if first.requires_grad or second.requires_grad:
        return first.requires_grad
    made = flow.newest_producer(second.tensor, row)
    return made is not None and _is_cut(flow.log.calls[made])


def _leaves(case: Case, live: int, row: int) -> frozenset[int]:
    """The leaves that a tensor was computed from, or the tensor if it is one."""
    leaves, _ = case.histories.live_leaves((live,), row)
    return leaves | {live}


def _scaled_by(flow: Dataflow, value: int, live: int, row: int) -> float | None:
    """The number by which a value is a tensor multiplied, other than 1; None for losses, whose value nothing uses."""
    if prod(shape_of(flow, live)) == 1 and not flow.log.tensors[live].is_leaf:
        return None
    made = flow.newest_producer(value, row)
    call = None if made is None else flow.log.calls[made]
    if call is None or [use.tensor for use in call.inputs] != [live]:
        return None
    name, number = plain_name(call.function), number_of(call, *OPERAND, missing=1.0)
    is_scaled = name == "mul" or (name == "div" and "rounding_mode" not in call.scalars and "rdiv" not in call.function)
    return number if is_scaled and number not in (0.0, 1.0) else None


_BOTH = 2
_CUTS = frozenset({"detach", "data"})
_WITHOUT_DERIVATIVE = frozenset({
    "argmin", "argmax", "round", "floor", "ceil", "sign", "trunc", "bucketize", "searchsorted", "topk", "min", "max",
    "gt", "ge", "lt", "le", "heaviside", "multinomial", "bernoulli",
})  # fmt: skip


def _kept_value(flow: Dataflow, live: TensorUse, rest: TensorUse, row: int, *, is_subtracted: bool) -> int | None:
    """``x`` of ``q + (x - q).detach()`` or of ``q - (q - x).detach()``, if ``x`` needs a gradient."""
    if rest.requires_grad:
        return None
    apart = flow.newest_producer(rest.tensor, row)
    if apart is not None and _is_cut(flow.log.calls[apart]):
        apart = flow.newest_producer(flow.log.calls[apart].inputs[0].tensor, apart)
    difference = None if apart is None else flow.log.calls[apart]
    is_plain = difference is not None and plain_name(difference.function) == "sub" and "alpha" not in difference.scalars
    if apart is None or difference is None or not is_plain or len(difference.inputs) != _BOTH:
        return None
    first, second = (_before_cut(flow, use, apart) for use in difference.inputs)
    if difference.function.endswith("rsub"):
        first, second = second, first
    value, own = (second, first) if is_subtracted else (first, second)
    return value.tensor if own.tensor == live.tensor and value.requires_grad else None


def _is_cut(call: Call) -> bool:
    return plain_name(call.function) in _CUTS and bool(call.inputs)


def _before_cut(flow: Dataflow, use: TensorUse, row: int) -> TensorUse:
    """What a tensor was before ``detach()``, if that made it."""
    made = flow.newest_producer(use.tensor, row)
    return flow.log.calls[made].inputs[0] if made is not None and _is_cut(flow.log.calls[made]) else use


def _cancelled(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """``q`` and ``x`` of ``x + (q - x)`` or ``(x + q) - x``, where all of them need a gradient."""
    name = plain_name(call.function)
    if len(call.live_inputs) != _BOTH or call.scalars.get("alpha") is not None:
        return None
    for use, other in zip(call.inputs, reversed(call.inputs), strict=True):
        made = flow.newest_producer(use.tensor, row)
        inner = None if made is None else flow.log.calls[made]
        if inner is None or len(inner.live_inputs) != _BOTH or plain_name(inner.function) not in ("add", "sub"):
            continue
        first, second = (each.tensor for each in inner.inputs)
        is_sum = plain_name(inner.function) == "add"
        if name == "add" and not is_sum and second == other.tensor:
            return first, second
        if name == "sub" and is_sum and use is call.inputs[0] and other.tensor in (first, second):
            return (second if other.tensor == first else first), other.tensor
    return None


def _is_chosen_by(flow: Dataflow, chosen: int, value: int, row: int) -> bool:
    """Whether a tensor was computed from another one, by an operation without a derivative."""
    made = flow.newest_producer(value, row)
    since = flow.step_before(row)
    below = set(flow.descendants(value, since if made is None else made, row))
    between = below & set(flow.ancestors(chosen, row, since))
    return any(plain_name(flow.log.calls[each].function) in _WITHOUT_DERIVATIVE for each in between)
