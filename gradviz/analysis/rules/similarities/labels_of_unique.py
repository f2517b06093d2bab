"""GV699."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker
from gradviz.graph.call_log import Call


class LabelsOfUnique(Rule):
    """The candidates of a contrastive loss are made unique, and the labels count on as if they were not.

    What it finds
    -------------
    A cross entropy of scores of queries and candidates with the labels ``arange(batch)``, where the candidates come
    from ``torch.unique()`` of one positive for each query, and are fewer than these.

    Why it matters
    --------------
    ``unique()`` sorts and leaves out what occurs twice. After it, the positive of query ``i`` does not stand at place
    ``i``: the model learns to bring queries near to the positives of others, or to negatives.

    Example
    -------
    table = torch.nn.Embedding(30, 6)
    encoder = torch.nn.Linear(4, 6)
    optimizer = torch.optim.SGD([*table.parameters(), *encoder.parameters()], lr=0.1)
    for step in range(3):
        x, positive = torch.randn(16, 4), torch.randint(0, 30, (16,))
        items = torch.unique(positive)
        negatives = torch.randint(0, 30, (20,))
        scores = encoder(x) @ table(torch.cat([items, negatives])).T
        labels = torch.arange(16)
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    table = torch.nn.Embedding(30, 6)
    encoder = torch.nn.Linear(4, 6)
    optimizer = torch.optim.SGD([*table.parameters(), *encoder.parameters()], lr=0.1)
    for step in range(3):
        x, positive = torch.randn(16, 4), torch.randint(0, 30, (16,))
        items, labels = torch.unique(positive, return_inverse=True)
        negatives = torch.randint(0, 30, (20,))
        scores = encoder(x) @ table(torch.cat([items, negatives])).T
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV699"
    name = "labels_of_unique"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, frozenset({"cross_entropy", "nll_loss"})):
            found = [_counted(flow, row) for row in rows]
            fewer = [each for each in found if each is not None and each.kept < each.queries]
            if fewer and len(found) >= _MIN_CALLS and None not in found:
                yield self._finding(flow, rows[-1], fewer[-1])

    def _finding(self, flow: Dataflow, row: int, counted: _Counted) -> Finding:
        location, loss = two_lines(flow, counted.unique, row)
        name = call_words(flow.log.calls[counted.unique])
        return self.finding(
            f"{name} makes {counted.kept:,} candidates of the positives of {counted.queries:,} queries, and the labels"
            f"{at_line(loss)} count from 0 to {counted.queries - 1:,}: the positive of a "
            "query stands at another place",
            symptom="grad_wrong",
            why=f"{name} changes the places of the positives, and leaves out those that occur twice",
            fix="ask for the places: items, labels = torch.unique(positive, return_inverse=True)",
            location=location,
            symptom_location=loss,
            evidence={"queries": counted.queries, "candidates": counted.kept},
        )


class _Counted(NamedTuple):
    """Labels that count the queries, and candidates that were made unique."""

    unique: int
    queries: int
    kept: int


_MIN_CALLS = 2
_BOTH = 2
_MAX_LAYERS = 40
_MAX_SCALES = 6
_BOUNDS = frozenset({"clamp", "clip", "remainder", "minimum", "long"})
_SCALES = frozenset({"div", "mul", "log_softmax"})
_PRODUCTS = frozenset({"matmul", "mm", "linear", "einsum"})
_UNIQUE = frozenset({"unique", "unique_consecutive"})


def _counted(flow: Dataflow, row: int) -> _Counted | None:
    """The call that made the candidates unique, if the labels count the queries."""
    scores, target = flow.log.calls[row].inputs[:_BOTH]
    made = _product(flow, scores.tensor, row)
    labels = value_maker(flow, target.tensor, row, through=_BOUNDS)
    if made is None or labels is None or plain_name(labels[1].function) != "arange":
        return None
    if plain_name(made[1].function) not in _PRODUCTS or len(made[1].inputs) < _BOTH:
        return None
    queries, candidates = ((use.tensor, made[0]) for use in made[1].inputs[:_BOTH])
    unique = _unique_above(flow, *candidates)
    if unique is None or _unique_above(flow, *queries) is not None:
        return None
    call = flow.log.calls[unique]
    count, kept = prod(shape_of(flow, target.tensor)), prod(shape_of(flow, call.outputs[0].tensor))
    is_of_queries = shape_of(flow, call.inputs[0].tensor) in ((count,), (count, 1))
    return _Counted(unique, count, kept) if is_of_queries else None


def _product(flow: Dataflow, tensor: int, row: int) -> tuple[int, Call] | None:
    """What made scores, before they were multiplied with a number, also one that is trained."""
    for _ in range(_MAX_SCALES):
        made = value_maker(flow, tensor, row, through=_SCALES)
        if made is None or plain_name(made[1].function) not in _SCALES:
            return made
        large = [use for use in made[1].inputs if prod(shape_of(flow, use.tensor)) > 1]
        if len(large) != 1:
            return made
        tensor, row = large[0].tensor, made[0]
    return None


def _unique_above(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that made the ids unique of which rows were computed, perhaps with others behind them."""
    for _ in range(_MAX_LAYERS):
        made = flow.producers(tensor, row)
        if not made:
            return None
        row = made[-1]
        call = flow.log.calls[row]
        if plain_name(call.function) in _UNIQUE:
            return row if call.outputs[0].tensor == tensor else None  # the other one has the places
        if not call.inputs:
            return None
        tensor = call.inputs[_place_of_ids(call)].tensor
    return None


def _place_of_ids(call: Call) -> int:
    is_lookup = plain_name(call.function) in ("getitem", "index_select") and len(call.inputs) == _BOTH
    return 1 if is_lookup else 0
