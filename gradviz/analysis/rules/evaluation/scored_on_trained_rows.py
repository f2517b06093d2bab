"""GV894."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.ranges_of_rows import RowRange, range_of_rows
from gradviz.analysis.rules.bases.evaluations.scoring_calls import calls_on_data, is_for_a_loss


class ScoredOnTrainedRows(Rule):
    """Some or all of the rows that a model is scored on are rows that it was trained on.

    What it finds
    -------------
    A model that is trained on rows of a tensor, and scored on a part of this tensor that has some of these rows and
    others: ``x[:192]`` and ``x[128:]``, or such parts of one permutation. Also one that is trained on all rows and
    scored on the last ones only. Another score on rows that were all trained on is left alone: a program may want it.

    Why it matters
    --------------
    The score is to tell how the model does on rows that it has not seen. Here it has seen a part of them, and the score
    is too good.

    Example
    -------
    x, y = torch.randn(60, 4), torch.randn(60, 1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for rows in torch.randperm(48).split(12):
            loss = (model(x[rows]) - y[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            error = (model(x[40:]) - y[40:]).square().mean()

    Instead
    -------
    x, y = torch.randn(60, 4), torch.randn(60, 1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for rows in torch.randperm(48).split(12):
            loss = (model(x[rows]) - y[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            error = (model(x[48:]) - y[48:]).square().mean()
    """

    code = "GV894"
    name = "scored_on_trained_rows"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        first_backward = next(iter(case.dataflow.rows_of_kind("backward")), 0)
        trained, scored = calls_on_data(case)
        for weight in sorted(trained.keys() & scored.keys()):
            later = (row for row in scored[weight] if row > first_backward and not is_for_a_loss(case, row))
            shown = _parts(case, islice(later, _MAX_ROWS), first_backward)
            given = _parts(case, trained[weight], first_backward) if shown else {}
            if len(given) < max(_MIN_TIMES, len(trained[weight])):
                continue  # some batches came from elsewhere
            for row, part in shown.items():
                seen = _seen_before(given, row, part.source)
                if seen is not None and (_is_partly(part, seen) or _is_end_alone(part, seen, shown)):
                    yield self._finding(case, part, seen)
                    return

    def _finding(self, case: Case, scored: RowRange, seen: RowRange) -> Finding:
        trained = location_of_call(case.dataflow, seen.cut) if seen.cut >= 0 else None
        location = location_of_call(case.dataflow, scored.cut)
        count = scored.end - scored.first
        both = min(scored.end, seen.end) - max(scored.first, seen.first)
        return self.finding(
            f"the model is scored on rows {scored.first:,} to {scored.end - 1:,} of the data, and was trained on rows "
            f"{seen.first:,} to {seen.end - 1:,}{at_line(trained) if trained != location else ''}: it has seen "
            f"{'all' if both == count else f'{both:,} of the {count:,}'} before",
            symptom="none",
            why="the score is too good: it is to tell how the model does on rows that it has not seen",
            fix="let the one part begin where the other one ends: train on x[:n], score on x[n:]",
            location=location,
            symptom_location=trained if trained != location else None,
            evidence={"seen": both},
        )


_MAX_ROWS = 32
_MIN_TIMES = 3
_HALF = 0.5
_SHARE = 0.04
"""Of all rows: how many must be seen, and how many unseen, as not every row may come up in a recorded batch."""


def _parts(case: Case, rows: Iterable[int], first_backward: int) -> dict[int, RowRange]:
    """By call of a layer: the rows of the data that it got, where they are known."""
    calls = case.dataflow.log.calls
    found = ((row, range_of_rows(case.dataflow, calls[row].inputs[0].tensor, row, first_backward)) for row in rows)
    return {row: part for row, part in found if part is not None}


def _seen_before(given: dict[int, RowRange], row: int, source: int) -> RowRange | None:
    """All rows of one tensor that a layer was trained on before a call."""
    parts = [part for each, part in given.items() if each < row and part.source == source]
    if not parts:
        return None
    first, end = min(each.first for each in parts), max(each.end for each in parts)
    return RowRange(source, first, end, parts[0].total, max(each.cut for each in parts))


def _is_partly(scored: RowRange, seen: RowRange) -> bool:
    """Whether some rows were seen and some were not, and neither part has all of the other."""
    least = max(1, _SHARE * scored.total)
    if scored.cut < 0:
        return False
    both = min(scored.end, seen.end) - max(scored.first, seen.first)
    is_shifted = (scored.first > seen.first) is (scored.end > seen.end) and scored.first != seen.first
    own = abs(scored.end - seen.end), abs(scored.first - seen.first)
    return is_shifted and both >= least and min(own) >= least


def _is_end_alone(scored: RowRange, seen: RowRange, others: dict[int, RowRange]) -> bool:
    """Whether a model that was trained on all rows is scored on the last ones, and on no others."""
    is_of_all = seen.first == 0 and seen.end == seen.total == scored.end and seen.cut < 0
    share = (scored.end - scored.first) / scored.total
    is_alone = all((each.source, each.first) == (scored.source, scored.first) for each in others.values())
    return is_of_all and scored.cut >= 0 and scored.is_ordered and _SHARE <= share <= _HALF and is_alone
