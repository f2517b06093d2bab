"""GV831."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.log_probabilities import kind_of
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.graph.call_log import Call


class ComplementOfLogarithm(Rule):
    """The complement of a probability is computed from its logarithm: ``1 - log p`` where ``1 - p`` is meant.

    What it finds
    -------------
    ``1 - x`` that goes into a logarithm or a power, or ``log1p(-x)``, where ``x`` was made by ``log_softmax``,
    ``logsigmoid`` or a negative ``cross_entropy``, and was only picked, summed, averaged or reshaped since.

    Why it matters
    --------------
    The logarithm of a probability is below zero, so ``1 - log p`` is above 1 and grows as the probability falls: log
    odds, or the factor of a focal loss, get other sizes and other slopes. Nothing fails, as no value is invalid.

    Example
    -------
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(8, 6), torch.randint(0, 4, (8, 1))
        log_p = torch.log_softmax(model(x), dim=1).gather(1, y)
        odds = log_p - torch.log(1 - log_p)
        loss = -torch.nn.functional.logsigmoid(odds).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(8, 6), torch.randint(0, 4, (8, 1))
        log_p = torch.log_softmax(model(x), dim=1).gather(1, y)
        odds = log_p - torch.log1p(-log_p.exp())
        loss = -torch.nn.functional.logsigmoid(odds).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV831"
    name = "complement_of_logarithm"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _TAKE_PROBABILITIES):
            if call.call_site in told or not call.live_inputs or call.live_inputs[0].place not in ("0", "input"):
                continue
            complement = _complement(flow, row, call)
            if plain_name(call.function) == "log1p" and not _meets_another(flow, row):
                continue  # a loss that grows slowly with large errors
            if complement is not None and _weighs_another(flow, row, complement[1]):
                continue
            if complement is not None and flow.has_step_after(row):
                told.add(call.call_site)
                yield self._finding(flow, row, *complement)

    def _finding(self, flow: Dataflow, row: int, complement: int, logarithm: int) -> Finding:
        name = plain_name(flow.log.calls[row].function)
        here, _ = two_lines(flow, complement, row)
        made, maker = location_of_call(flow, logarithm), plain_name(flow.log.calls[logarithm].function)
        what = "log1p(-x)" if name == "log1p" else f"the {'power' if name == 'pow' else 'logarithm'} of 1 - x"
        return self.finding(
            f"{what} is taken of the logarithm x of a probability, which {maker}() made: 1 - x is above 1 for every "
            "probability",
            symptom="grad_wrong",
            why="the complement of a probability is 1 - p; 1 - log p is no probability, and has other slopes",
            fix="take the exponential first: torch.log1p(-log_p.exp()), or (1 - log_p.exp()) ** gamma",
            location=here,
            symptom_location=made if made != here else None,
        )


_TAKE_PROBABILITIES = frozenset({"log", "log2", "log10", "log1p", "pow"})
_PICKS = frozenset({
    "gather", "getitem", "take_along_dim", "index_select", "squeeze", "unsqueeze", "view", "reshape", "flatten", "sum",
    "mean", "masked_fill", "to", "float", "select", "transpose", "contiguous", "clamp", "chunk", "split", "unbind",
    "detach",
})  # fmt: skip
_ERRORS = frozenset({"cross_entropy", "nll_loss"})
_LOGARITHMS = frozenset({"log_softmax", "logsigmoid", "log", "sub"})
_GUARDS = frozenset({"clamp", "clamp_min", "add"})
_MAX_STEPS = 12
_MAX_GUARDS = 3


def _complement(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """The calls that made ``1 - x`` and ``x`` that another takes, if ``x`` is the logarithm of a probability."""
    name, tensor, before = plain_name(call.function), call.live_inputs[0].tensor, row
    for made, maker in flow.makers(tensor, before, _MAX_GUARDS):
        kind = plain_name(maker.function)
        if kind == "neg" if name == "log1p" else _is_one_minus(maker, kind):
            logarithm = _logarithm(flow, maker.live_inputs[0].tensor, made) if maker.live_inputs else None
            return None if logarithm is None else (made, logarithm)
        if kind not in _GUARDS or len(maker.inputs) != 1:
            return None
    return None


def _meets_another(flow: Dataflow, row: int) -> bool:
    """Whether the result is added to, or subtracted from, other results, as log(1 - p) is from log p in log odds."""
    users = (flow.log.calls[user] for use in flow.log.calls[row].outputs for user in flow.users(use.tensor, row))
    return any(plain_name(user.function) in ("add", "sub", "rsub") and len(user.live_inputs) > 1 for user in users)


def _weighs_another(flow: Dataflow, row: int, logarithm: int) -> bool:
    """Whether a power without a gradient weighs what has nothing to do with the probability, as another error."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "pow":
        return False
    products = [
        (user, use.tensor)
        for tensor in _detached(flow, row)
        for user in flow.users(tensor, row)
        if plain_name(flow.log.calls[user].function) == "mul"
        for use in flow.log.calls[user].live_inputs
        if use.tensor != tensor
    ]
    since = flow.step_before(row)
    return bool(products) and not any(logarithm in flow.ancestors(other, product, since) for product, other in products)


def _detached(flow: Dataflow, row: int) -> Iterator[int]:
    """Results of a call that have no gradient: its own, or what ``detach()`` makes of it."""
    for use in flow.log.calls[row].outputs:
        if not use.requires_grad:
            yield use.tensor
        for user in flow.users(use.tensor, row):
            yield from (
                made.tensor
                for made in flow.log.calls[user].outputs
                if plain_name(flow.log.calls[user].function) == "detach"
            )


def _is_one_minus(call: Call, name: str) -> bool:
    is_difference = name in ("sub", "rsub") and len(call.inputs) == 1 and is_number_first(call)
    return is_difference and 1 in (value for value in call.scalars.values() if type(value) in (int, float))


def _logarithm(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The call that made the logarithms of probabilities which a tensor picks, adds up or averages."""
    is_negative = False
    for row, call in flow.makers(tensor, before, _MAX_STEPS):
        name = plain_name(call.function)
        if name in _ERRORS:
            return row if is_negative and not _is_smoothed(call) else None
        if name in _LOGARITHMS:
            return row if not is_negative and _makes_log_probabilities(flow, row, name) else None
        is_scaled = name in ("mul", "div") and len(call.live_inputs) == 1 and call.inputs[0].requires_grad
        if name == "neg":
            is_negative = not is_negative
        elif name not in _PICKS and not (is_scaled and len(call.inputs) > 1):
            return None
    return None


def _is_smoothed(call: Call) -> bool:
    return number_of(call, "label_smoothing", missing=0.0) > 0


def _makes_log_probabilities(flow: Dataflow, row: int, name: str) -> bool:
    """Whether a call makes logarithms of probabilities, also by ``x - x.logsumexp()`` or ``softmax(x).log()``."""
    call = flow.log.calls[row]
    if name == "log":
        return kind_of(flow, call.inputs[0].tensor, row) == "probability"
    return name != "sub" or kind_of(flow, call.outputs[0].tensor, row + 1) == "log"
