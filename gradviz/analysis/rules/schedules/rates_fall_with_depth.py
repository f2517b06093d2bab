"""GV764."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.computed_rates import lines_of_powers
from gradviz.graph.call_log import LoggedOptimizer


class RatesFallWithDepth(Rule):
    """Learning rates that decay from layer to layer are largest at the input, and smallest before the output.

    What it finds
    -------------
    An optimizer whose groups have four or more learning rates, each the same share of the one before, where the layers
    that the data meets first have the largest rates. The last layer may have the full rate, as a new head has.

    Why it matters
    --------------
    Layer-wise decay keeps the first layers of a pretrained model, which compute general features, nearly as they are,
    and lets the last ones adapt. Turned round, what should stay moves most: the model forgets what it was trained for.

    Example
    -------
    layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(4))
    groups = [{"params": layer.parameters(), "lr": 0.01 * 0.5**i} for i, layer in enumerate(layers)]
    optimizer = torch.optim.SGD(groups)
    for step in range(3):
        x = torch.randn(8, 4)
        for layer in layers:
            x = torch.tanh(layer(x))
        optimizer.zero_grad()
        x.square().mean().backward()
        optimizer.step()

    Instead
    -------
    layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(4))
    groups = [{"params": layer.parameters(), "lr": 0.01 * 0.5 ** (3 - i)} for i, layer in enumerate(layers)]
    optimizer = torch.optim.SGD(groups)
    for step in range(3):
        x = torch.randn(8, 4)
        for layer in layers:
            x = torch.tanh(layer(x))
        optimizer.zero_grad()
        x.square().mean().backward()
        optimizer.step()
    """

    code = "GV764"
    name = "rates_fall_with_depth"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for number, optimizer in enumerate(case.dataflow.log.optimizers):
            by_rate = _tensors_by_rate(optimizer)
            if optimizer.steps and _is_geometric(sorted(by_rate)) and _falls(case, by_rate):
                yield self._finding(case, number, by_rate)

    def _finding(self, case: Case, number: int, by_rate: dict[float, list[int]]) -> Finding:
        made = next((location_of_call(case.dataflow, row) for row in case.histories.given_at(number)), None)
        computed = next(
            (Location(file, line) for file, tree in own_files(case) for line in lines_of_powers(tree)), None
        )
        rates = sorted(by_rate)
        name = optimizer_words(case.dataflow.log.optimizers[number])
        return self.finding(
            f"the learning rates of {name} fall from {rates[-1]:.3g} for the first layers to {rates[0]:.3g} for layers "
            "before the output",
            symptom="grad_wrong",
            why="layer-wise decay is to keep the first layers of a pretrained model, and to let the last ones adapt",
            fix="count the power from the output: rate * decay ** (last_layer - layer)",
            location=computed or made,
            symptom_location=made if computed is not None else None,
            tensors=names_of(case.dataflow, by_rate[rates[0]]),
            evidence={"rates": len(rates), "each_times": rates[0] / rates[1]},
        )


_MIN_RATES = 4
_ROUNDING = 0.01


def _tensors_by_rate(optimizer: LoggedOptimizer) -> dict[float, list[int]]:
    found: dict[float, list[int]] = defaultdict(list)
    for rate, group in zip(optimizer.made_rates, optimizer.groups, strict=False):
        if rate is not None and rate > 0:
            near = next((each for each in found if math.isclose(each, rate)), rate)
            found[near] += group
    return dict(found)


def _is_geometric(rates: list[float]) -> bool:
    if len(rates) < _MIN_RATES:
        return False
    ratios = [high / low for low, high in pairwise(rates)]
    return max(ratios) < (1 + _ROUNDING) * min(ratios)


def _falls(case: Case, by_rate: dict[float, list[int]]) -> bool:
    """Whether each smaller rate belongs to what the data meets later; the full rate may also be that of the head."""
    places = [[_first_use(case, each) for each in by_rate[rate]] for rate in sorted(by_rate, reverse=True)]
    known = [[place for place in each if place is not None] for each in places]
    if not all(known):
        return False
    middles = [min(known[0]), *(median(each) for each in known[1:])]
    return all(one < other for one, other in pairwise(middles))


def _first_use(case: Case, tensor: int) -> int | None:
    """The first call that computes with a parameter and something else, also while it is frozen."""
    calls = case.dataflow.log.calls
    users = (row for row in case.histories.forward_uses(tensor) if calls[row].kind == "operation")
    return next((row for row in users if len(calls[row].inputs) > 1), None)
