"""GV667."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker


class DropoutBeforeLoss(Rule):
    """Dropout is applied to the answers of a model, right before the loss.

    What it finds
    -------------
    ``cross_entropy``, ``mse_loss`` or another loss function whose trained input is what ``dropout()`` returned, with
    nothing but changes of shape between them.

    Why it matters
    --------------
    Some of the answers are replaced by zero at random, and the others are made larger. No weight can learn an answer
    that is thrown away by chance: the loss has a floor, and the answers are too large by a random factor.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3), torch.nn.Dropout(0.2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV667"
    name = "dropout_before_loss"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, _LOSSES):
            dropped = [_dropout_of(flow, row) for row in rows]
            if dropped[-1] is not None and None not in dropped:
                yield self._finding(flow, rows[-1], dropped[-1])

    def _finding(self, flow: Dataflow, row: int, dropped: int) -> Finding:
        location, loss = two_lines(flow, dropped, row)
        function = call_words(flow.log.calls[row])
        share = flow.log.calls[dropped].scalars.get("p", flow.log.calls[dropped].scalars.get("1"))
        part = f"{share:.0%} of the answers are" if type(share) is float else "some of the answers are"
        return self.finding(
            f"{part} replaced by zero at random right before {function}{at_line(loss)}",
            symptom="grad_wrong",
            why="an answer that is thrown away by chance cannot be learned: this error never goes away",
            fix="move the dropout before the last layer, or leave it out",
            location=location,
            symptom_location=loss,
        )


_LOSSES = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
    "binary_cross_entropy_with_logits", "multi_margin_loss",
})  # fmt: skip


def _dropout_of(flow: Dataflow, row: int) -> int | None:
    """The dropout that made the input of a loss, if it zeroes anything."""
    use = flow.log.calls[row].inputs[0]
    made = value_maker(flow, use.tensor, row) if use.requires_grad else None
    if made is None or plain_name(made[1].function) != "dropout" or not shape_of(flow, use.tensor):
        return None
    scalars = made[1].scalars
    is_on = (
        scalars.get("training", scalars.get("2", True)) is not False and scalars.get("p", scalars.get("1", 0.5)) != 0
    )
    return made[0] if is_on else None
