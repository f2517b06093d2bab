"""GV792."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE, reads_its_target
from gradviz.analysis.rules.bases.samples.parts_of_permutations import drawn_halves, parts_of_permutation


class TrainedOnAll(Rule):
    """Samples are split at random, and the loss counts all of them; the split only selects what is evaluated.

    What it finds
    -------------
    A permutation of all samples of which several parts are used, or a mask that was drawn and its inverse, with which
    targets are selected outside of the loss, where the loss compares with the same targets as a whole, at all steps,
    and nothing that was selected is in it.

    Why it matters
    --------------
    What was to be held out is trained on: its accuracy is that of training, and tells nothing about new samples. With
    graphs, whose nodes are computed all at once, one index is all that is missing.

    Example
    -------
    x, y, order = torch.randn(40, 4), torch.randint(0, 2, (40,)), torch.randperm(40)
    train, held_out = order[:30], order[30:]
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        answers = model(x)
        loss = torch.nn.functional.cross_entropy(answers, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for part in (train, held_out):
            print((answers.argmax(1)[part] == y[part]).float().mean())

    Instead
    -------
    x, y, order = torch.randn(40, 4), torch.randint(0, 2, (40,)), torch.randperm(40)
    train, held_out = order[:30], order[30:]
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        answers = model(x)
        loss = torch.nn.functional.cross_entropy(answers[train], y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for part in (train, held_out):
            print((answers.argmax(1)[part] == y[part]).float().mean())
    """

    code = "GV792"
    name = "trained_on_all"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        splits = [(row, parts) for row, parts in _splits(flow) if 1 < len(parts) <= _MOST_PARTS]
        if not splits:
            return
        backwards = _first_and_last(case.histories)
        above = [_rows_above(flow, backward) for backward in backwards]
        for row, parts in splits:
            if any(row in rows for rows in above):
                continue
            selected = _selected(flow, parts)
            found = [_loss_of_all(flow, rows, selected) for rows in above]
            if found and found[-1] is not None and None not in found:
                yield self._finding(flow, row, *found[-1])

    def _finding(self, flow: Dataflow, split: int, loss: int, selection: int) -> Finding:
        location, drawn = two_lines(flow, loss, split)
        _, selects = two_lines(flow, loss, selection)
        call = flow.log.calls[loss]
        count = shape_of(flow, call.inputs[1].tensor)[0]
        return self.finding(
            f"{call_words(call)} counts all {count:,} samples, not a part of the random split{at_line(drawn)}: that "
            f"only selects what is evaluated{at_line(selects)}",
            symptom="grad_wrong",
            why="what is held out is trained on as well, so that its score tells nothing about new samples",
            fix="select the training part on both sides of the loss: answers[train], targets[train]",
            location=location,
            symptom_location=drawn,
            evidence={"samples": count},
        )


_BOTH = 2
_MOST_PARTS = 3
"""More of them are batches in a random order."""
_SELECTS = frozenset({"getitem", "index_select", "masked_select"})
_WRITES = frozenset({"setitem", "index_fill", "index_put", "scatter", "masked_fill"})
_KEEP = frozenset({"to", "long", "bool", "clone", "nonzero", "flatten", "squeeze", "view", "sort", "cuda", "cpu"})
_MAX_FOLLOWED = 64


def _splits(flow: Dataflow) -> Iterator[tuple[int, list[int]]]:
    """The calls that draw a permutation or a mask, with the parts of it that are used."""
    yield from parts_of_permutation(flow)
    yield from drawn_halves(flow)


def _first_and_last(histories: ParameterHistories) -> list[int]:
    """Of the backward calls that train parameters, the first and the last one of each line."""
    last = histories.last_trained_backward_of_each_line
    sites = {histories.log.calls[row].call_site for row in last}
    first = {histories.log.calls[row].call_site: row for row in reversed(histories.backward_calls)}
    return sorted({*last, *(row for site, row in first.items() if site in sites)})


def _rows_above(flow: Dataflow, backward: int) -> set[int]:
    return {row for use in flow.log.calls[backward].roots for row in flow.ancestors(use.tensor, backward)}


def _selected(flow: Dataflow, parts: list[int]) -> dict[int, int]:
    """What is selected with parts of a split, or with masks of them: by tensor, a call that does so."""
    found: dict[int, int] = {}
    waiting, seen = list(parts), set[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        part = waiting.pop()
        if part in seen:
            continue
        seen.add(part)
        for row in flow.users(part):
            call = flow.log.calls[row]
            name = plain_name(call.function)
            is_index = len(call.inputs) > 1 and call.inputs[0].tensor != part
            if name in _SELECTS and is_index:
                found.setdefault(call.inputs[0].tensor, row)
            elif name in _KEEP or (name in _WRITES and is_index):
                waiting += [use.tensor for use in call.outputs]
    return found


def _loss_of_all(flow: Dataflow, rows: set[int], selected: dict[int, int]) -> tuple[int, int] | None:
    """A call in a loss that compares with whole targets of which parts are selected elsewhere, and such a selection."""
    for row in rows:
        call = flow.log.calls[row]
        if plain_name(call.function) not in LOSSES_BY_SAMPLE or len(call.inputs) < _BOTH or not call.live_inputs:
            continue
        target = call.inputs[1].tensor
        is_whole = target in selected and call.scalars.get("reduction") != "none"
        if is_whole and not reads_its_target(flow, row, target):
            return row, selected[target]
    return None
