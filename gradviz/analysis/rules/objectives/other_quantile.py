"""GV751."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.weighed_errors import WeighedError, weighed_error
from gradviz.graph.call_log import Call


class OtherQuantile(Rule):
    """A quantile loss subtracts the other way round, and fits the quantile ``1 - q`` instead of ``q``.

    What it finds
    -------------
    ``max(q * e, (q - 1) * e)``, ``(q - (e < 0)) * e``, ``|e| / 2 + (q - 0.5) * e`` and expectiles such as
    ``where(e > 0, q, 1 - q) * e ** 2``, where ``e`` is the prediction minus the target. Which of the two factors is
    ``q`` shows in the line that writes ``q - 1``, ``1 - q`` or ``q - 0.5``; without such a line, and for the median,
    nothing is reported.

    Why it matters
    --------------
    The loss weighs predictions that are too low with ``q``. With the other sign it weighs those that are too high: a
    model of the quantile 0.9 becomes one of the quantile 0.1, and the loss goes down as usual.

    Example
    -------
    model, q = torch.nn.Linear(3, 1), 0.9
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(16, 3), torch.randn(16, 1)
        error = model(x) - y
        loss = torch.max(q * error, (q - 1) * error).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model, q = torch.nn.Linear(3, 1), 0.9
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(16, 3), torch.randn(16, 1)
        error = y - model(x)
        loss = torch.max(q * error, (q - 1) * error).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV751"
    name = "other_quantile"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in enumerate(flow.log.calls):
            if not call.live_inputs or not flow.has_step_after(row) or not flow.is_by_program(call):
                continue
            found = weighed_error(case, row, call)
            made = None if found is None else value_maker(flow, found.error, row)
            if found is None or made is None or flow.log.calls[made[0]].call_site in told:
                continue
            if _sign_of_prediction(made[1]) == (1 if found.is_q_above else -1):
                told.add(flow.log.calls[made[0]].call_site)
                yield self._finding(flow, made[0], row, found)

    def _finding(self, flow: Dataflow, made: int, row: int, found: WeighedError) -> Finding:
        location, used = two_lines(flow, made, row)
        order = ("the prediction minus the target", "the target minus the prediction")
        now, instead = order if found.is_q_above else order[::-1]
        q = found.above if found.is_q_above else found.below
        which = "1 - q instead of q" if q is None else f"{1 - q:.3g} instead of {q:.3g}"
        return self.finding(
            f"the loss{at_line(used)} fits the {found.kind} {which}: the error is {now}",
            symptom="grad_wrong",
            why="it weighs predictions that are too high with the number that is meant for those that are too low",
            fix=f"subtract the other way round: {instead}",
            location=location,
            symptom_location=used,
            evidence={} if q is None else {"q": q},
        )


_TWO = 2


def _sign_of_prediction(call: Call) -> int:
    """1 for a prediction minus a target, -1 for a target minus a prediction, 0 for anything else."""
    if plain_name(call.function) != "sub" or len(call.inputs) != _TWO or len(call.live_inputs) != 1:
        return 0
    is_first = call.live_inputs[0].place == "0"
    return 1 if is_first != call.function.endswith(("rsub__", "rsub")) else -1
