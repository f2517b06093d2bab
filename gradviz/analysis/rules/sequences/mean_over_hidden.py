"""GV666."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.divided_later import is_divided_later
from gradviz.analysis.rules.bases.losses.scores_before_softmax import is_of_yes_and_no
from gradviz.graph.call_log import Call


class MeanOverHidden(Rule):
    """A mean over positions also counts those that a mask set to zero.

    What it finds
    -------------
    ``(h * mask).mean(dim)`` over an axis along which the mask hides another number of positions in each sample. As a
    note: ``(loss * mask).mean()`` over everything.

    Why it matters
    --------------
    The sum has only the positions that count, and it is divided by the number of all. What belongs to a short sequence
    gets smaller the more padding its batch happens to have, and so do its gradients.

    Example
    -------
    embed, head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        real = torch.arange(7) < torch.randint(2, 8, (6, 1))
        mask = real.float().unsqueeze(-1)
        h = (embed(torch.randint(0, 9, (6, 7))) * mask).mean(dim=1)
        loss = torch.nn.functional.cross_entropy(head(h), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        real = torch.arange(7) < torch.randint(2, 8, (6, 1))
        mask = real.float().unsqueeze(-1)
        h = (embed(torch.randint(0, 9, (6, 7))) * mask).sum(dim=1) / mask.sum(dim=1)
        loss = torch.nn.functional.cross_entropy(head(h), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV666"
    name = "mean_over_hidden"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in enumerate(flow.log.calls):
            if plain_name(call.function) != "mean" or call.call_site in told or len(call.live_inputs) != 1:
                continue
            masked = _masked(flow, row, call)
            if masked is not None and flow.has_step_after(row) and not is_divided_later(flow, row, call):
                told.add(call.call_site)
                yield self._finding(flow, row, *masked)

    def _finding(self, flow: Dataflow, row: int, masked: int, mask: int) -> Finding:
        values = flow.values(mask, masked)
        hidden = "some" if values is None else f"{values.zeros / values.count:.0%}"
        location, made = two_lines(flow, row, masked)
        is_of_all = shape_of(flow, flow.log.calls[row].outputs[0].tensor) == ()
        return self.finding(
            f"this mean also counts the {hidden} of the positions that a mask set to zero{at_line(made)}",
            severity="note" if is_of_all else "warning",
            symptom="grad_wrong",
            why="it divides by the number of all positions: the more of them are hidden, the smaller the result",
            fix="divide by the number of positions that count: (h * mask).sum(1) / mask.sum(1).clamp(min=1)",
            location=location,
            symptom_location=made,
        )


_BOTH = 2


def _masked(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """The product with a mask whose mean a call takes over the axis of the mask, and the mask."""
    tensor = call.live_inputs[0].tensor
    made = flow.newest_producer(tensor, row)
    if made is None or plain_name(flow.log.calls[made].function) != "mul":
        return None
    product = flow.log.calls[made]
    dead = [use.tensor for use in product.inputs if not use.requires_grad]
    if len(product.inputs) != _BOTH or len(dead) != 1 or not is_of_yes_and_no(flow, made, dead[0]):
        return None
    shape, whole = shape_of(flow, dead[0]), shape_of(flow, tensor)
    axis = axis_of(call, len(whole))
    is_of_all = not call.outputs or shape_of(flow, call.outputs[0].tensor) == ()
    if is_of_all:
        return (made, dead[0]) if len(shape) >= _BOTH and min(shape[:_BOTH]) > 1 else None
    # The mask differs from sample to sample, along an axis of its own.
    is_along = axis is not None and len(shape) == len(whole) and axis > 0 and shape[axis] > 1 and shape[0] > 1
    is_only_along = is_along and all(size == 1 for place, size in enumerate(shape) if place not in (0, axis))
    return (made, dead[0]) if is_only_along else None
