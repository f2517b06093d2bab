"""GV870."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, plain_name
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.gradients.accumulation import RepeatedLine, divided_mean, repeated_lines
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import IGNORED_CLASS


class TargetsWeighByBatch(Rule):
    """Gradients of small batches are added up for one step, and a target counts more if its batch has few of them.

    What it finds
    -------------
    Several ``backward()`` calls for one step, each on a ``cross_entropy`` that averages over the targets of its own
    batch and is then divided by the number of batches, where as a rule the batches of a step differ by a factor of
    three or more in how many of their targets are not ``ignore_index``; from a factor of one and a half on, a note.

    Why it matters
    --------------
    Accumulation is meant to act like one large batch, in which each target has the same weight. A mean of means gives
    each small batch the same weight: the few targets of short sequences count as much as the many of long ones, and
    the model learns those better. The loss that is printed is not that of the large batch either.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        batches = [(torch.randn(12, 4), torch.randint(0, 3, (12,))) for _ in range(2)]
        batches[0][1][2:] = -100
        for x, y in batches:
            loss = torch.nn.functional.cross_entropy(model(x), y) / 2
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        batches = [(torch.randn(12, 4), torch.randint(0, 3, (12,))) for _ in range(2)]
        batches[0][1][2:] = -100
        count = sum((y != -100).sum() for _, y in batches)
        for x, y in batches:
            loss = torch.nn.functional.cross_entropy(model(x), y, reduction="sum") / count
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    """

    code = "GV870"
    name = "targets_weigh_by_batch"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for line in repeated_lines(case):
            batches = _batches(case, line)
            factor = median(each.factor for each in batches) if len(batches) >= _MIN_STEPS else 1
            if factor >= _MIN_FACTOR:
                yield self._finding(case, line, max(batches, key=lambda each: each.factor), is_large=factor >= _LARGE)

    def _finding(self, case: Case, line: RepeatedLine, found: _Batches, *, is_large: bool) -> Finding:
        flow = case.dataflow
        loss, division = case.location_of_call(found.loss), case.location_of_call(found.division)
        ignored = flow.log.calls[found.loss].scalars.get("ignore_index", IGNORED_CLASS)
        leaves = sorted(case.histories.reached_by[line.last] & case.histories.trained)
        return self.finding(
            f"{line.times} backward calls for each step average over the targets of their own batch, which has between "
            f"{found.fewest:,} and {found.most:,} of them: those of the smallest weigh {found.factor:.3g} times as "
            "much as those of the largest",
            severity=self.severity if is_large else "note",
            symptom="grad_wrong",
            why=f"a mean of {line.times} means gives each batch the same weight, however many of its targets are "
            f"{ignored}; in one large batch each target would have the same",
            fix=f'sum the loss{at_line(loss)} (reduction="sum"), and divide by the number of targets in all batches of '
            f"the step, counted before them: count = sum((y != {ignored}).sum() for _, y in batches)",
            location=division,
            symptom_location=loss if loss != division else None,
            tensors=names_of(flow, leaves),
            evidence={"batches": line.times, "fewest": found.fewest, "most": found.most},
        )


class _Batches(Struct, frozen=True):
    """Those of one step."""

    loss: int
    division: int
    fewest: int
    """Targets that count in a batch."""
    most: int

    @property
    def factor(self) -> float:
        return self.most / self.fewest


_MIN_STEPS = 2
_TWO = 2
_MIN_FACTOR = 1.5
_LARGE = 3.0
_WITH_CLASSES = frozenset({"cross_entropy", "nll_loss"})


def _batches(case: Case, line: RepeatedLine) -> list[_Batches]:
    """For each step of which all losses were measured, and in which some targets are ignored."""
    found: list[_Batches] = []
    for calls in line.by_step.values():
        if len({case.histories.reached_by[call] for call in calls}) > 1:
            continue  # tasks, each with a head of its own
        means = [divided_mean(case.dataflow, call, line.times) for call in calls]
        counts = [None if mean is None else _targets(case, mean.row) for mean in means]
        known = [each for each in counts if each is not None]
        last = means[-1]
        if last is None or not last.divisions or len(known) < len(counts):
            continue
        by = [None if mean is None else mean.counted_by for mean in means]
        if by[0] is not None and len(set(by)) == 1:
            continue  # the number of all targets of the step
        fewest, most = min(each.counted for each in known), max(each.counted for each in known)
        if fewest and any(each.counted < each.all for each in known):
            found.append(_Batches(last.row, last.divisions[0], fewest, most))
    return found


class _Targets(Struct, frozen=True):
    counted: int
    """Those that are not ignored."""
    all: int


def _targets(case: Case, row: int) -> _Targets | None:
    """The targets of a loss: of a class that is ignored, no gradient arrives at any of its scores."""
    flow = case.dataflow
    call = flow.log.calls[row]
    if plain_name(call.function) not in _WITH_CLASSES or len(call.inputs) < _TWO:
        return None
    target = call.inputs[1]
    values = flow.values_of(target, row)
    if values is None or flow.log.tensors[target.tensor].facts.dtype != "int64":
        return None  # shares of classes, of which none is ignored
    for at in case.nodes_of_call(row):
        node = case.graphs[at.graph].nodes[at.node]
        sent = node.gradients[0] if node.gradients else None
        if node.name.startswith("NllLoss") and sent is not None:
            return _Targets(sent.count - sent.zeros, values.count)
    return None
