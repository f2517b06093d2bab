"""GV893."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.tables_of_pairs import compares_with_itself
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before, value_maker
from gradviz.graph.call_log import Call, TensorUse


class AnchorAmongPositives(Rule):
    """The samples of the same label, which a contrastive loss brings near to a sample, contain the sample itself.

    What it finds
    -------------
    A table of all samples against themselves, from which a denominator leaves out the diagonal, is multiplied with
    ``labels[:, None] == labels``, or indexed with it, and nothing takes the diagonal out of that.

    Why it matters
    --------------
    A sample is always as near to itself as possible, so this pair teaches nothing but to go away from all others, those
    of its own label included; it also counts as a positive, and a sample with no other of its label gets only this.
    Khosla et al., Supervised Contrastive Learning (2020), equation 2, leaves the anchor out of its positives.

    Example
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    diagonal = torch.eye(16, dtype=torch.bool)
    for step in range(3):
        x, labels = torch.randn(16, 6), torch.randint(0, 4, (16,))
        z = torch.nn.functional.normalize(encoder(x), dim=1)
        similar = z @ z.T / 0.2
        log_prob = similar - similar.masked_fill(diagonal, float("-inf")).logsumexp(1, keepdim=True)
        positives = (labels[:, None] == labels).float()
        loss = -((positives * log_prob).sum(1) / positives.sum(1).clamp(min=1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    diagonal = torch.eye(16, dtype=torch.bool)
    for step in range(3):
        x, labels = torch.randn(16, 6), torch.randint(0, 4, (16,))
        z = torch.nn.functional.normalize(encoder(x), dim=1)
        similar = z @ z.T / 0.2
        log_prob = similar - similar.masked_fill(diagonal, float("-inf")).logsumexp(1, keepdim=True)
        positives = ((labels[:, None] == labels) & ~diagonal).float()
        loss = -((positives * log_prob).sum(1) / positives.sum(1).clamp(min=1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV893"
    name = "anchor_among_positives"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        seen: set[int | None] = set()
        for row, call in calls_named(flow, _PICKS):
            if call.call_site in seen or not call.live_inputs or not call.outputs or not flow.has_step_after(row):
                continue
            found = _positives(flow, row, call)
            if found is not None:
                seen.add(call.call_site)
                yield self._finding(flow, row, found)

    def _finding(self, flow: Dataflow, row: int, found: _Positives) -> Finding:
        location, used = two_lines(flow, found.compared, row)
        return self.finding(
            f"each of the {found.samples:,} samples is among its own positives{at_line(used)}: labels are compared "
            "with themselves, and only the denominator leaves out the diagonal",
            symptom="grad_wrong",
            why="nothing can bring a sample nearer to itself: this pair only pushes it away from all others, those of "
            "its own label included",
            fix="take the diagonal out of the positives: (labels[:, None] == labels) & ~torch.eye(n, dtype=torch.bool)",
            location=location,
            symptom_location=used,
            evidence={"samples": found.samples},
        )


class _Positives(NamedTuple):
    """Which samples are positives of which."""

    compared: int
    """The call that compares the labels with themselves."""
    samples: int


_PICKS = frozenset({"mul", "where", "getitem", "masked_select"})
_TWO = 2
_SUMS = frozenset({"sum", "mean", "nanmean", "div", "neg"})


def _positives(flow: Dataflow, row: int, call: Call) -> _Positives | None:
    """The comparison of labels that picks values of a table, if it has the diagonal and the denominator has not."""
    table = next((use for use in call.inputs if use.requires_grad and _is_square(shape_of(flow, use.tensor))), None)
    masks = [use for use in call.inputs if not use.requires_grad]
    if table is None:
        return None
    shape = shape_of(flow, table.tensor)
    compared = next((each for use in masks if (each := _comparison(flow, use, row, shape)) is not None), None)
    if compared is None or _has_empty_diagonal(flow, row, table) or not _is_only_summed(flow, row, call):
        return None
    above = flow.ancestors(table.tensor, row, flow.step_before(row))
    is_of_itself = any(compares_with_itself(flow, each, flow.log.calls[each]) for each in above)
    return _Positives(compared, shape[0]) if is_of_itself and _leaves_out_diagonal(flow, above, shape) else None


def _is_square(shape: Shape) -> bool:
    return len(shape) == _TWO and shape[0] == shape[1] > _TWO


def _comparison(flow: Dataflow, use: TensorUse, row: int, shape: Shape) -> int | None:
    """The call that made a mask: a comparison of labels with themselves, of which some but not all are the same."""
    made = value_maker(flow, use.tensor, row, through=frozenset({"repeat", "type", "bool", "long", "int"}))
    values = flow.values_of(use, row)
    if made is None or values is None or shape_of(flow, use.tensor) != shape:
        return None
    compared, call = made
    is_of_pairs = plain_name(call.function) == "eq" and len(call.inputs) == _TWO
    pairs = shape[0] * (shape[0] - 1)
    if not is_of_pairs or values.zeros >= pairs or not values.zeros:
        return None
    first, second = (tensor_before(flow, each.tensor, compared, SHAPE_ONLY) for each in call.inputs)
    return compared if first == second else None


def _has_empty_diagonal(flow: Dataflow, row: int, table: TensorUse) -> bool:
    """Whether a table has a zero for each sample, such as the share of itself in a softmax without the diagonal: then
    the sample adds nothing to its own positives."""
    values = flow.values_of(table, row)
    return values is not None and values.zeros >= shape_of(flow, table.tensor)[0]


def _is_only_summed(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether what was picked goes on as it is: nothing takes the diagonal away from it, or from its sums."""
    users = flow.users(call.outputs[0].tensor, row)
    if not users or any(plain_name(flow.log.calls[user].function) not in _SUMS for user in users):
        return False
    return not any(
        plain_name(flow.log.calls[later].function) == "sub" and len(flow.log.calls[later].live_inputs) == _TWO
        for user in users
        for later in flow.users(flow.log.calls[user].outputs[0].tensor, user)
    )


def _leaves_out_diagonal(flow: Dataflow, above: tuple[int, ...], shape: Shape) -> bool:
    """Whether a mask with the diagonal alone, or with all but that, was used on the way to a table."""
    count = shape[0]
    for row in above:
        for use in flow.log.calls[row].inputs:
            if use.requires_grad or shape_of(flow, use.tensor) != shape:
                continue
            values = flow.values_of(use, row)
            is_mask = values is not None and (values.minimum, values.maximum) == (0, 1)
            if values is not None and is_mask and values.zeros in (count, count * (count - 1)):
                return True
    return False
