"""GV645."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse


class SimilarToItself(Rule):
    """In a contrastive loss, each sample is also compared with itself.

    What it finds
    -------------
    A table of products of a set of vectors with itself, ``z @ z.T``, that goes into ``cross_entropy()`` with classes,
    into ``log_softmax()`` or ``softmax()`` of which classes are chosen, or into a sum of exponentials, without a call
    that takes its diagonal away: ``masked_fill()``, ``fill_diagonal_()``, a large number that is subtracted, or a
    choice of the other elements.

    Why it matters
    --------------
    Nothing is as similar to a sample as the sample itself. The diagonal dominates every row, and the loss pushes the
    other samples away from it, the right one among them: it cannot become small, and its gradient tells little.

    Example
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    targets = (torch.arange(16) + 8) % 16
    diagonal = torch.eye(16, dtype=torch.bool)
    for step in range(3):
        x = torch.randn(8, 6)
        z = torch.nn.functional.normalize(encoder(torch.cat([x, x + 0.1 * torch.randn(8, 6)])), dim=1)
        similar = z @ z.T / 0.2
        loss = torch.nn.functional.cross_entropy(similar, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    targets = (torch.arange(16) + 8) % 16
    diagonal = torch.eye(16, dtype=torch.bool)
    for step in range(3):
        x = torch.randn(8, 6)
        z = torch.nn.functional.normalize(encoder(torch.cat([x, x + 0.1 * torch.randn(8, 6)])), dim=1)
        similar = (z @ z.T / 0.2).masked_fill(diagonal, float("-inf"))
        loss = torch.nn.functional.cross_entropy(similar, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV645"
    name = "similar_to_itself"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        seen: set[int | None] = set()
        for row, call in enumerate(flow.log.calls):
            if call.call_site in seen or not call.live_inputs or not _compares_with_itself(flow, row, call):
                continue
            if not flow.has_step_after(row):
                continue
            seen.add(call.call_site)
            end = _contrast(flow, row, call.outputs[0].tensor)
            if end is not None:
                yield self._finding(case, row, end)

    def _finding(self, case: Case, row: int, end: int) -> Finding:
        flow = case.dataflow
        count = shape_of(flow, flow.log.calls[row].outputs[0].tensor)[0]
        location, used = two_lines(flow, row, end)
        return self.finding(
            f"the table of similarities compares all {count} samples with each other, and goes with its diagonal into "
            f"{call_words(flow.log.calls[end])}{at_line(used)}: each sample is among its "
            "own candidates",
            symptom="grad_wrong",
            why="nothing is as similar to a sample as itself: the diagonal dominates each row, and the right answer is "
            "pushed away with all others",
            fix='hide the diagonal: similar.masked_fill(torch.eye(n, dtype=torch.bool), float("-inf"))',
            location=location,
            symptom_location=used,
            evidence={"samples": count},
        )


_VIEWS = frozenset({
    "t", "T", "mT", "H", "mH", "adjoint", "transpose", "swapaxes", "swapdims", "movedim", "permute", "contiguous",
    "unsqueeze", "getitem", "detach", "clone", "expand", "view", "reshape",
})  # fmt: skip
_PRODUCTS = frozenset({"matmul", "mm", "einsum", "cosine_similarity", "inner", "linear", "tensordot", "vecdot"})
_SCALES = frozenset({"div", "mul", "to", "float", "clamp", "contiguous", "clone", "double"})
_SHIFTS = frozenset({"add", "sub"})
_MAX_VIEWS = 3
_MAX_SCALES = 6
_TWO = 2


def _compares_with_itself(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call multiplies all rows of a tensor with all rows of the same one."""
    name = plain_name(call.function)
    if len(call.outputs) != 1:
        return False
    shape = shape_of(flow, call.outputs[0].tensor)
    factors = call.inputs if name in _PRODUCTS else _summed_factors(flow, row, call) if name == "sum" else ()
    sources = {_source(flow, use.tensor, row) for use in factors}
    if len(factors) != _TWO:
        return False
    source = sources.pop()
    given = shape_of(flow, source)
    return (
        not sources
        and shape == (given[0], given[0])
        and len(given) == _TWO
        and shape[0] > _TWO
        and (flow.log.tensors[source].role != "parameter")
    )


def _summed_factors(flow: Dataflow, row: int, call: Call) -> tuple[TensorUse, ...]:
    """The factors of a product by hand: ``(z[:, None] * z[None]).sum(-1)``."""
    made = flow.newest_producer(call.inputs[0].tensor, row) if call.inputs else None
    product = None if made is None else flow.log.calls[made]
    if product is None or plain_name(product.function) != "mul" or len(shape_of(flow, call.inputs[0].tensor)) != 3:
        return ()
    return product.inputs if axis_of(call, 3) == _TWO else ()


def _source(flow: Dataflow, tensor: int, row: int) -> int:
    for _ in range(_MAX_VIEWS):
        made = flow.producers(tensor, row)
        if not made or plain_name(flow.log.calls[made[-1]].function) not in _VIEWS:
            break
        call = flow.log.calls[made[-1]]
        if len(call.inputs) != 1 or call.scalars.keys() & {"1.start", "1.stop", "1[0].start", "1[0].stop"}:
            break
        row, tensor = made[-1], call.inputs[0].tensor
    return tensor


def _contrast(flow: Dataflow, row: int, tensor: int) -> int | None:
    """The call that makes a loss of the whole table, if nothing but factors came before it and no other call has a use
    for it that may take the diagonal away."""
    for _ in range(_MAX_SCALES):
        users = [(user, flow.log.calls[user]) for user in flow.users(tensor, row)]
        if any(_changes(call, tensor) for _, call in users):
            return None
        end = next((user for user, call in users if _is_contrast(flow, user, call)), None)
        if end is not None:
            return end
        scaled = [(user, call) for user, call in users if _is_scaled(flow, call)]
        if len(scaled) != 1:
            return None
        row, tensor = scaled[0][0], scaled[0][1].outputs[0].tensor
    return None


def _changes(call: Call, tensor: int) -> bool:
    return any(use.tensor == tensor for use in call.changed)


def _is_scaled(flow: Dataflow, call: Call) -> bool:
    """Whether a call multiplies by a number, which may be one that is learned, or shifts whole rows: by their maximum,
    so that exponentials do not overflow."""
    name = plain_name(call.function)
    if name in _SHIFTS and call.outputs and call.inputs:
        others = [shape_of(flow, use.tensor) for use in call.inputs[1:]]
        return all(not shape or shape[-1] == 1 for shape in others)
    return name in _SCALES and bool(call.outputs)


def _is_contrast(flow: Dataflow, row: int, call: Call) -> bool:
    name = plain_name(call.function)
    if not call.outputs or not call.inputs[0].requires_grad:
        return False
    if name == "cross_entropy":
        return len(call.inputs) > 1 and _names_others(flow, call.inputs[1].tensor, row)
    result = call.outputs[0].tensor
    rows = flow.users(result, row)
    users = [flow.log.calls[user] for user in rows]
    if name == "log_softmax":
        return bool(users) and all(_picks(flow, user) for user in users)
    if name == "softmax":
        return bool(users) and all(_picks(flow, user) for user in users)
    if name == "logsumexp":
        return axis_of(call, _TWO) is not None and any(_is_less(flow, user, call) for user in rows)
    if name == "exp" and users:
        return all(plain_name(user.function) == "sum" and axis_of(user, _TWO) is not None for user in users) and all(
            _is_denominator(flow, user, row) for user in users
        )
    return False


def _is_less(flow: Dataflow, row: int, maker: Call) -> bool:
    """Whether something else with a gradient is subtracted from what a call made, or from the mean of it."""
    call, result = flow.log.calls[row], maker.outputs[0].tensor
    if plain_name(call.function) in ("mean", "sum") and call.outputs:
        return any(
            _is_difference(flow, user, call.outputs[0].tensor) for user in flow.users(call.outputs[0].tensor, row)
        )
    return _is_difference(flow, row, result)


def _is_difference(flow: Dataflow, row: int, tensor: int) -> bool:
    """Whether a call subtracts something from a tensor, or adds something that was negated."""
    call = flow.log.calls[row]
    if plain_name(call.function) == "add":
        others = [use for use in call.inputs if use.tensor != tensor and use.requires_grad]
        made = flow.newest_producer(others[0].tensor, row) if len(others) == 1 else None
        return made is not None and plain_name(flow.log.calls[made].function) == "neg"
    return plain_name(call.function) == "sub"


def _names_others(flow: Dataflow, target: int, row: int) -> bool:
    """Whether classes name other samples than each its own: as plain ``arange(n)``, they ask for the diagonal."""
    made = flow.newest_producer(target, row)
    is_own = made is not None and plain_name(flow.log.calls[made].function) == "arange"
    return _is_of_classes(flow, target) and not is_own


def _is_of_classes(flow: Dataflow, tensor: int) -> bool:
    return flow.log.tensors[tensor].facts.dtype.startswith("int")


def _picks(flow: Dataflow, call: Call) -> bool:
    """Whether a call takes one class of each row."""
    name = plain_name(call.function)
    if name == "gather" or name == "nll_loss":
        return True
    return (
        name == "getitem"
        and len(call.inputs) > _TWO
        and all(_is_of_classes(flow, use.tensor) for use in call.inputs[1:])
    )


def _is_denominator(flow: Dataflow, call: Call, row: int) -> bool:
    """Whether a sum is only divided by, or its logarithm taken, with nothing subtracted from it."""
    users = [flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row)]
    is_divided = (plain_name(user.function) == "div" and len(user.inputs) > 1 for user in users)
    return bool(users) and (all(plain_name(user.function) == "log" for user in users) or all(is_divided))
