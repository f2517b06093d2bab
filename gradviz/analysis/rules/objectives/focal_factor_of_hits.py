"""GV869."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.graph.call_log import Call


class FocalFactorOfHits(Rule):
    """A focal loss multiplies with the probability of the right class, not with what is missing to one.

    What it finds
    -------------
    The loss of each sample times a power of ``exp(-loss)``, through which a gradient goes.

    Why it matters
    --------------
    A focal loss gives samples that are right already a small weight: ``(1 - p) ** gamma``. With ``p ** gamma``, it is
    the wrong ones that hardly count. Worse, ``-p ** gamma * log(p)`` falls when a small ``p`` gets smaller: the loss
    pushes the probability of the right class of a difficult sample down to zero.

    Example
    -------
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
        ce = torch.nn.functional.cross_entropy(model(x), y, reduction="none")
        p = torch.exp(-ce)
        loss = (p**2 * ce).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
        ce = torch.nn.functional.cross_entropy(model(x), y, reduction="none")
        p = torch.exp(-ce)
        loss = ((1 - p) ** 2 * ce).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV869"
    name = "focal_factor_of_hits"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _PRODUCTS):
            if call.call_site in told or len(call.live_inputs) < _BOTH or not flow.has_step_after(row):
                continue
            factor = _power_of_hits(flow, row, call)
            if factor is not None:
                told.add(call.call_site)
                yield self._finding(flow, row, factor)

    def _finding(self, flow: Dataflow, row: int, factor: int) -> Finding:
        location, loss = location_of_call(flow, factor), location_of_call(flow, row)
        return self.finding(
            f"the loss of each sample is multiplied with a power of exp(-loss){at_line(loss)}, the probability of its "
            "right class: what is wrong counts least, and is pushed further away",
            symptom="grad_wrong",
            why="-p ** gamma * log(p) is 0 for p = 0, too: below a certain p, the gradient leads there",
            fix="take what is missing to one: (1 - p) ** gamma",
            location=location,
            symptom_location=loss if loss != location else None,
        )


_PRODUCTS = frozenset({"mul"})
_POWERS = frozenset({"pow", "square"})
_LOSSES = frozenset({"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"})
_BOTH = 2
_SCALES = 3


def _power_of_hits(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that takes a power of ``exp(-loss)``, where its result is multiplied with the same loss."""
    for factor, loss in (call.inputs, call.inputs[::-1]):
        made, computed = (_unscaled(flow, use.tensor, row) for use in (factor, loss))
        if made is None or computed is None or plain_name(computed[1].function) not in _LOSSES:
            continue
        is_each = computed[1].scalars.get("reduction") == "none"
        power = made[1].scalars.get("1", made[1].scalars.get("exponent", _BOTH))
        is_power = plain_name(made[1].function) in _POWERS and isinstance(power, int | float) and power > 0
        if is_each and is_power and _is_exponential_of(flow, *made, computed[0]):
            return made[0]
    return None


def _unscaled(flow: Dataflow, tensor: int, row: int) -> tuple[int, Call] | None:
    """The call that made a tensor, before it was multiplied with weights without a gradient."""
    made = value_maker(flow, tensor, row)
    for _ in range(_SCALES):
        if made is None or plain_name(made[1].function) != "mul" or len(made[1].live_inputs) != 1:
            return made
        made = value_maker(flow, made[1].live_inputs[0].tensor, made[0])
    return made


def _is_exponential_of(flow: Dataflow, row: int, power: Call, loss: int) -> bool:
    made = value_maker(flow, power.inputs[0].tensor, row)
    if made is None or plain_name(made[1].function) != "exp":
        return False
    negated = value_maker(flow, made[1].inputs[0].tensor, made[0])
    if negated is None or plain_name(negated[1].function) != "neg":
        return False
    source = value_maker(flow, negated[1].inputs[0].tensor, negated[0])
    return source is not None and source[0] == loss
