"""GV628."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class DivergenceMaximized(Rule):
    """The divergence of a normal distribution from its prior has the wrong sign in the loss.

    What it finds
    -------------
    A loss with ``v - exp(v)``, where ``v`` is an output of the trained model and ``exp(v)`` is subtracted, next to a
    square that is subtracted as well: ``1 + logvar - mu.pow(2) - logvar.exp()``, added with a positive factor.

    Why it matters
    --------------
    That sum is never above 0 and has no lower bound: it is minus twice the Kullback-Leibler divergence. Minimizing it
    drives the distribution away from the prior without end, and the loss falls and falls.

    Example
    -------
    encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    for step in range(3):
        x = torch.randn(8, 6)
        mu, logvar = encoder(x).chunk(2, dim=1)
        z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
        divergence = 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        loss = (decoder(z) - x).square().sum(1).mean() + 0.1 * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    for step in range(3):
        x = torch.randn(8, 6)
        mu, logvar = encoder(x).chunk(2, dim=1)
        z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
        divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        loss = (decoder(z) - x).square().sum(1).mean() + 0.1 * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV628"
    name = "divergence_maximized"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_backward_of_each_line:
            if not flow.has_step_after(backward):
                continue
            for use in flow.log.calls[backward].roots:
                row = _unbounded(flow, backward, use.tensor)
                if row is not None and flow.log.calls[row].call_site not in told:
                    told.add(flow.log.calls[row].call_site)
                    yield self._finding(case, row, backward)

    def _finding(self, case: Case, row: int, backward: int) -> Finding:
        flow = case.dataflow
        location = location_of_call(flow, row)
        return self.finding(
            "the loss subtracts exp(v) and a square, and adds v: this divergence from a prior has the wrong sign, and "
            "training makes it larger without end",
            symptom="grad_wrong",
            why="1 + logvar - mu.pow(2) - logvar.exp() is never above 0 and has no lower bound: it is minus twice the "
            "divergence",
            fix="turn the sign of this term around: -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())",
            location=location,
            symptom_location=location_of_call(flow, backward),
            tensors=leaf_names_above(flow, flow.log.calls[row].inputs[0].tensor, row, since=flow.step_before(row)),
        )


_KEEPS = frozenset({"sum", "mean", "view", "reshape", "squeeze", "unsqueeze", "flatten", "to", "float", "clone"})
_MAX_TERMS = 300


def _unbounded(flow: Dataflow, backward: int, root: int) -> int | None:
    """The call of ``exp(v)`` that a loss subtracts, where it adds ``v`` and subtracts a square of something alive."""
    signs: dict[int, set[int]] = defaultdict(set)
    """By tensor that ends a path of sums and factors: the signs with which the loss takes it."""
    exponentials: list[tuple[int, int]] = []
    squares = False
    waiting, seen = [(root, backward, 1)], set[tuple[int, int]]()
    while waiting and len(seen) < _MAX_TERMS:
        tensor, before, sign = waiting.pop()
        signs[tensor].add(sign)
        row = flow.newest_producer(tensor, before)
        if row is None or (row, sign) in seen:
            continue
        seen.add((row, sign))
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name == "exp" and sign < 0:
            exponentials.append((row, call.inputs[0].tensor))
        is_square = name == "square" or (name == "pow" and call.scalars.get("1", call.scalars.get("exponent")) == _TWO)
        squares |= is_square and sign < 0 and bool(call.live_inputs)
        waiting += [(each, row, of_it) for each, of_it in _terms(call, name, sign)]
    if not squares:
        return None
    return next((row for row, v in exponentials if signs[v] == {1}), None)


_TWO = 2


def _terms(call: Call, name: str, sign: int) -> Iterator[tuple[int, int]]:
    """What a sum or a product with a number takes, with its sign."""
    live = call.live_inputs
    if call.kind != "operation" or not live:
        return
    first = call.function.rpartition(".")[2].startswith("__r")
    if name == "add" and _factor(call, "alpha", missing=1.0) > 0:
        yield from ((use.tensor, sign) for use in live)
    elif name == "sub":
        for use in live:
            is_taken_away = use.place in ("1", "other") or (first and use.place == "0")
            yield use.tensor, -sign if is_taken_away else sign
    elif name == "neg":
        yield live[0].tensor, -sign
    elif name in ("mul", "div") and len(call.inputs) == 1:
        factor = _factor(call, "1", "0", "other", missing=0.0)
        if factor:
            yield live[0].tensor, sign if factor > 0 else -sign
    elif name in _KEEPS:
        yield live[0].tensor, sign


def _factor(call: Call, *places: str, missing: float) -> float:
    values = (call.scalars.get(place) for place in places)
    return next((float(value) for value in values if type(value) in (int, float)), missing)  # type: ignore[arg-type]
