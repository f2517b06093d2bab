"""GV614."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class NormalizedTwice(Rule):
    """A loss that expects logits gets probabilities.

    What it finds
    -------------
    ``cross_entropy`` on the result of ``softmax``, ``binary_cross_entropy_with_logits`` on that of ``sigmoid`` or
    ``softmax``, and ``nll_loss`` on that of ``softmax`` instead of ``log_softmax``, in a backward that a step uses.

    Why it matters
    --------------
    These losses normalize once more. Probabilities are between 0 and 1, so for such a loss all classes are nearly
    equal: even a perfect model has a large loss, its gradients are small, and they vanish where it is certain and
    wrong. ``nll_loss`` of probabilities has no logarithm: it goes below zero.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        probabilities = torch.softmax(model(torch.randn(5, 4)), dim=1)
        torch.nn.functional.cross_entropy(probabilities, torch.tensor([0, 1, 2, 0, 1])).backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        logits = model(torch.randn(5, 4))
        torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0, 1])).backward()
        optimizer.step()
    """

    code = "GV614"
    name = "normalized_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, reported = case.dataflow, set()
        for row, call in enumerate(flow.log.calls):
            loss = call.function.rpartition(".")[2]
            makers = _UNSUITABLE.get(loss)
            if makers is None or not call.inputs or not call.inputs[0].requires_grad:
                continue
            made = _maker(case, row, call)
            location = location_of_call(flow, row)
            if made is None or plain_name(flow.log.calls[made].function) not in makers or location in reported:
                continue
            if flow.has_step_after(row):
                reported.add(location)
                yield self._finding(case, row, made)

    def _finding(self, case: Case, row: int, made: int) -> Finding:
        flow = case.dataflow
        loss, maker = flow.log.calls[row].function.rpartition(".")[2], plain_name(flow.log.calls[made].function)
        location, above = location_of_call(flow, row), location_of_call(flow, made)
        expects = "log-probabilities" if loss == "nll_loss" else "logits"
        return self.finding(
            f"{loss}() expects {expects}, and gets the probabilities that {maker}(){at_line(above)} computed",
            symptom="vanishing",
            why="nll_loss() takes no logarithm: it needs that of log_softmax()"
            if loss == "nll_loss"
            else f"{loss}() normalizes its input itself: for values between 0 and 1 its gradient is small, and never "
            "points to a certain answer",
            fix="use log_softmax() there" if loss == "nll_loss" else f"leave out {maker}(): give {loss}() the logits",
            location=above if above is not None else location,
            symptom_location=location if above != location else None,
            evidence={"loss": loss, "input": maker},
        )


_UNSUITABLE = {
    "cross_entropy": frozenset({"softmax"}),
    "binary_cross_entropy_with_logits": frozenset({"sigmoid", "softmax"}),
    "nll_loss": frozenset({"softmax"}),
}
_SHAPE_ONLY = frozenset(
    {"view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "contiguous", "float", "getitem"}
)
_MAX_SHAPING = 6


def _maker(case: Case, row: int, call: Call) -> int | None:
    """The call that computed the first argument of a loss, before it was only brought into another shape."""
    flow, tensor = case.dataflow, call.inputs[0].tensor
    for _ in range(_MAX_SHAPING):
        makers = flow.producers(tensor, row)
        if not makers:
            return None
        row = makers[-1]
        made = flow.log.calls[row]
        if plain_name(made.function) not in _SHAPE_ONLY or not made.inputs:
            return row
        tensor = made.inputs[0].tensor
    return None
