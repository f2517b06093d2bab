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
from gradviz.analysis.rules.bases.formulas.tables_of_pairs import compares_with_itself, is_of_distances
from gradviz.graph.call_log import Call


class SimilarToItself(Rule):
    """In a contrastive loss, each sample is also compared with itself.

    What it finds
    -------------
    A table of products of a set of vectors with itself, ``z @ z.T``, that goes into ``cross_entropy()`` with classes,
    into ``log_softmax()`` or ``softmax()`` of which classes are chosen, or into a sum of exponentials, without a call
    that takes its diagonal away: ``masked_fill()``, ``fill_diagonal_()``, a large number that is subtracted, or a
    choice of the other elements. Likewise a table of distances, ``torch.cdist(z, z)``, or
    ``(z[:, None] - z).norm(dim=2)``.

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
            if call.call_site in seen or not call.live_inputs or not compares_with_itself(flow, row, call):
                continue
            if not flow.has_step_after(row):
                continue
            seen.add(call.call_site)
            found = _contrast(flow, row, call.outputs[0].tensor)
            if found is not None:
                yield self._finding(case, *found)

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


_SCALES = frozenset(
    {"div", "mul", "to", "float", "clamp", "contiguous", "clone", "double", "neg", "square", "sqrt", "pow"}
)
_SHIFTS = frozenset({"add", "sub"})
_MAX_SCALES = 6
_TWO = 2


def _contrast(flow: Dataflow, row: int, tensor: int) -> tuple[int, int] | None:
    """The call behind which to hide the diagonal, and the one that makes a loss of the whole table, if nothing but
    factors came before it and no other call has a use for it that may take the diagonal away."""
    first = row
    has_distances = is_of_distances(flow, row)
    for _ in range(_MAX_SCALES):
        users = [(user, flow.log.calls[user]) for user in flow.users(tensor, row)]
        if any(_changes(call, tensor) for _, call in users):
            return None
        ends = (user for user, call in users if _is_contrast(flow, user, call))
        end = next((each for each in ends if not (has_distances and _is_exponential(flow, each))), None)
        if end is not None:
            # What is to be hidden is a similarity: the distance before it would have to be large.
            return row if has_distances else first, end
        scaled = [(user, call) for user, call in users if _is_scaled(flow, call)]
        if len(scaled) != 1:
            return None
        row, tensor = scaled[0][0], scaled[0][1].outputs[0].tensor
    return None


def _is_exponential(flow: Dataflow, row: int) -> bool:
    return plain_name(flow.log.calls[row].function) == "exp"


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
        # Positives are chosen by a mask, and divided by what is summed of all.
        sums = [user for user in users if not _is_masked(flow, user, result)]
        are_sums = all(plain_name(user.function) == "sum" and axis_of(user, _TWO) is not None for user in sums)
        return bool(sums) and are_sums and all(_is_denominator(flow, user, row) for user in sums)
    return False


def _is_masked(flow: Dataflow, call: Call, table: int) -> bool:
    """Whether a call multiplies the table with a mask of the same shape, which has no gradient."""
    others = [use for use in call.inputs if use.tensor != table]
    is_mask = len(others) == 1 and not others[0].requires_grad and bool(call.outputs)
    return plain_name(call.function) == "mul" and is_mask and shape_of(flow, others[0].tensor) == shape_of(flow, table)


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
