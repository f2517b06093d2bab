"""GV614."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class NormalizedTwice(Rule):
    """A loss that expects logits or log-probabilities gets probabilities.

    What it finds
    -------------
    ``cross_entropy`` on the result of ``softmax``, ``binary_cross_entropy_with_logits`` on that of ``sigmoid`` or
    ``softmax``, and ``nll_loss`` and ``kl_div`` on that of ``softmax`` instead of ``log_softmax``, in a backward that a
    step uses.

    Why it matters
    --------------
    The first two normalize once more. Probabilities are between 0 and 1, so for such a loss all classes are nearly
    equal: even a perfect model has a large loss, its gradients are small, and they vanish where it is certain and
    wrong. ``nll_loss`` and ``kl_div`` of probabilities have no logarithm: they go below zero, and are lowest for
    another answer than the right one.

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
            mistake = _MISTAKES.get(call.function.rpartition(".")[2])
            made = None if mistake is None else _maker_of(case, row, call, mistake)
            if mistake is None or made is None or not flow.has_step_after(row):
                continue
            place = mistake, location_of_call(flow, made) or location_of_call(flow, row)
            if place not in reported:
                reported.add(place)
                yield self._finding(case, row, made, mistake)

    def _finding(self, case: Case, row: int, made: int, mistake: _Mistake) -> Finding:
        flow = case.dataflow
        loss, maker = flow.log.calls[row].function.rpartition(".")[2], plain_name(flow.log.calls[made].function)
        location, above = location_of_call(flow, row), location_of_call(flow, made)
        words = {"loss": loss, "maker": maker, "at_line": at_line(above)}
        return self.finding(
            mistake.message.format(**words),
            symptom="vanishing" if mistake.message == _OF_LOGITS else "grad_wrong",
            why=mistake.why.format(**words),
            fix=mistake.fix.format(**words),
            location=above if above is not None else location,
            symptom_location=location if above != location else None,
            evidence={"loss": loss, "input": maker},
        )


class _Mistake(Struct, frozen=True):
    """What a loss gets, instead of what it expects."""

    makers: frozenset[str]
    message: str
    why: str
    fix: str


_OF_LOGITS = "{loss}() expects logits, and gets the probabilities that {maker}(){at_line} computed"
_OF_LOGARITHMS = "{loss}() expects log-probabilities, and gets the probabilities that {maker}(){at_line} computed"
_WHY_LOGITS = (
    "{loss}() normalizes its input itself: for values between 0 and 1 its gradient is small, and never points to a "
    "certain answer"
)
_NO_LOGITS = "leave out {maker}(): give {loss}() the logits"
_USE_LOGARITHMS = "use log_softmax() there"
_MISTAKES = {
    "cross_entropy": _Mistake(frozenset({"softmax"}), _OF_LOGITS, _WHY_LOGITS, _NO_LOGITS),
    "binary_cross_entropy_with_logits": _Mistake(
        frozenset({"sigmoid", "softmax"}), _OF_LOGITS, _WHY_LOGITS, _NO_LOGITS
    ),
    "nll_loss": _Mistake(
        frozenset({"softmax"}),
        _OF_LOGARITHMS,
        "nll_loss() takes no logarithm: it needs that of log_softmax()",
        _USE_LOGARITHMS,
    ),
    "kl_div": _Mistake(
        frozenset({"softmax", "sigmoid"}),
        _OF_LOGARITHMS,
        "kl_div() takes no logarithm of its first argument: without it, this is no divergence, and goes below zero",
        _USE_LOGARITHMS,
    ),
}
_SHAPE_ONLY = frozenset(
    {"view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "contiguous", "float", "getitem"}
)
_MAX_SHAPING = 6


def _maker_of(case: Case, row: int, call: Call, mistake: _Mistake) -> int | None:
    """The call that made what the mistake is about, if it is one of those that it names."""
    if not call.inputs or not call.inputs[0].requires_grad:
        return None
    made = _maker(case, row, call.inputs[0].tensor)
    return made if made is not None and plain_name(case.dataflow.log.calls[made].function) in mistake.makers else None


def _maker(case: Case, row: int, tensor: int) -> int | None:
    """The call that computed an argument of a loss, before it was only brought into another shape."""
    above = case.dataflow.makers(tensor, row, _MAX_SHAPING)
    return next((maker for maker, call in above if plain_name(call.function) not in _SHAPE_ONLY), None)
