"""GV671."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker


class PositiveElsewhere(Rule):
    """The labels of a contrastive loss name a negative, because the positive stands at another place.

    What it finds
    -------------
    A cross entropy of scores that were put together from one column and several others, where all labels name one
    place, and the single column stands at the other end: ``cat([negatives, positive], dim=1)`` with labels of 0.

    Why it matters
    --------------
    The label says which column is right. Here it is always the first negative: the model learns to bring samples near
    to it, and to push their own partners away.

    Example
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    queue = torch.randn(20, 4)
    for step in range(3):
        x = torch.randn(8, 6)
        q, k = encoder(x), encoder(x + 0.1 * torch.randn(8, 6)).detach()
        positive, negatives = (q * k).sum(1, keepdim=True), q @ queue.T
        logits = torch.cat([negatives, positive], dim=1)
        loss = torch.nn.functional.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    queue = torch.randn(20, 4)
    for step in range(3):
        x = torch.randn(8, 6)
        q, k = encoder(x), encoder(x + 0.1 * torch.randn(8, 6)).detach()
        positive, negatives = (q * k).sum(1, keepdim=True), q @ queue.T
        logits = torch.cat([positive, negatives], dim=1)
        loss = torch.nn.functional.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV671"
    name = "positive_elsewhere"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, frozenset({"cross_entropy"})):
            found = [_misplaced(flow, row) for row in rows]
            if len(found) >= _MIN_CALLS and found[-1] is not None and None not in found:
                yield self._finding(flow, rows[-1], *found[-1])

    def _finding(self, flow: Dataflow, row: int, joined: int, label: int, place: int) -> Finding:
        location, loss = two_lines(flow, joined, row)
        return self.finding(
            f"the single column stands at place {place}, and all labels name place {label}"
            f"{at_line(loss)}: a negative is taken for the right answer",
            symptom="grad_wrong",
            why="a label is the index of the right column",
            fix="put the positive where the labels say: cat([positive, negatives], dim=1) for labels of 0",
            location=location,
            symptom_location=loss,
        )


_MIN_CALLS = 2
_BOTH = 2
_SCALES = frozenset({"div", "mul"})


def _misplaced(flow: Dataflow, row: int) -> tuple[int, int, int] | None:
    """The call that put scores together, the only label, and the place of the single column, if they differ."""
    scores, target = flow.log.calls[row].inputs[:_BOTH]
    values = flow.values_of(target, row)
    made = value_maker(flow, scores.tensor, row, through=_SCALES)
    if (
        made is None
        or values is None
        or values.minimum is None
        or values.minimum != values.maximum
        or values.count == 1
    ):
        return None
    shapes = [shape_of(flow, use.tensor) for use in made[1].inputs]
    if plain_name(made[1].function) != "cat" or len(shapes) != _BOTH or any(len(shape) != _BOTH for shape in shapes):
        return None
    widths = [shape[1] for shape in shapes]
    if shapes[0][0] != shapes[1][0] or sorted(widths)[0] != 1 or max(widths) <= _BOTH:
        return None
    place = 0 if widths[0] == 1 else widths[0]
    label = int(values.minimum)
    return (made[0], label, place) if label != place and label in (0, sum(widths) - 1) else None
