"""GV961."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.scoring_calls import calls_on_data
from gradviz.analysis.rules.bases.evaluations.window_reads import (
    WindowReads,
    Windows,
    held_out_among,
    table_of,
    tables_of_windows,
    window_reads,
)
from gradviz.analysis.rules.bases.samples.parts_of_permutations import parts_of_permutation, taken_alike
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import called_name


class WindowsSplitAtRandom(Rule):
    """Overlapping windows of one series are trained on or held out at random.

    What it finds
    -------------
    Windows of a stored series of measured values, each of which begins before the last one ends: slices, rows of
    ``unfold()``, or slices that were stacked. A random split, such as ``random_split()`` or the two parts of a
    permutation, decides which are held out, so nearly all of these overlap a window that is trained on, at their
    beginning and at their end.

    Why it matters
    --------------
    What a held-out window is to be asked about has been trained on as part of its neighbours. The score is far better
    than that on the days to come, and early stopping by it comes too late. Bergmeir & Benitez, On the use of
    cross-validation for time series predictor evaluation (2012).

    Example
    -------
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    series = torch.randn(129).cumsum(0)
    windows = series.unfold(0, 9, 1)
    order = torch.randperm(len(windows))
    train, held_out = windows[order[:90]], windows[order[90:]]
    for step in range(3):
        loss = (model(train[:, :8]) - train[:, 8:]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print((model(held_out[:, :8]) - held_out[:, 8:]).square().mean())

    Instead
    -------
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    series = torch.randn(129).cumsum(0)
    windows = series.unfold(0, 9, 1)
    train, held_out = windows[:90], windows[98:]
    for step in range(3):
        loss = (model(train[:, :8]) - train[:, 8:]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print((model(held_out[:, :8]) - held_out[:, 8:]).square().mean())
    """

    code = "GV961"
    name = "windows_split_at_random"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        if not case.histories.reached_by:
            return
        tables = tables_of_windows(flow)
        for reads in window_reads(flow, tables):
            among = held_out_among(reads)
            if among is not None and among[0] >= _MOST * among[1]:
                row = _split_before(flow, reads, among[1])
                yield self._finding(case, row, reads.length, among[1], _line_that_shuffles(case, row))
                return
        for row, windows in _split_tables(flow, tables):
            if any(calls_on_data(case)):
                yield self._finding(case, row, windows.length, None)
                return

    def _finding(
        self, case: Case, row: int, length: int, held_out: int | None, line: Location | None = None
    ) -> Finding:
        how_many = "the held-out windows" if held_out is None else f"{held_out:,} held-out windows"
        return self.finding(
            f"{how_many} of {length:,} values were chosen at random among overlapping ones, so they share most of "
            "their values with windows that are trained on",
            symptom="none",
            why="the score is too good: what a held-out window asks for was trained on as part of its neighbours",
            fix="split the series by time, and cut the windows of each part afterwards: series[:n], series[n:]",
            location=line or location_of_call(case.dataflow, row),
        )


_MOST = 0.7
"""Which part of the held-out windows must lie among trained ones; those near the ends of the series may not."""
_SHUFFLES = frozenset({"shuffle", "permutation", "permuted", "sample", "train_test_split"})
_TAKE = frozenset({"getitem", "index_select"})
_BOTH = 2
_MOST_PARTS = 3


def _split_before(flow: Dataflow, reads: WindowReads, held_out: int) -> int:
    """The newest call that drew a permutation of all windows before one was read; else the call that read it first, as
    NumPy may have drawn it. A loader draws only as many numbers as its part has."""
    windows = len(set(reads.trained)) + held_out
    rows = (row for row, _ in calls_named(flow, ("randperm",)) if row < reads.first_read)
    drawn = [row for row in rows if shape_of(flow, flow.log.calls[row].outputs[0].tensor)[0] >= windows]
    return drawn[-1] if drawn else reads.first_read


def _line_that_shuffles(case: Case, row: int) -> Location | None:
    """The only line that gives numbers a random order outside of torch, if no call of torch did."""
    if plain_name(case.dataflow.log.calls[row].function) == "randperm":
        return None
    found = [
        Location(file, node.lineno)
        for file, tree in own_files(case)
        for node in tree.nodes
        if isinstance(node, ast.Call) and called_name(node) in _SHUFFLES and not any(tree.loops_around(node))
    ]
    return found[0] if len(found) == 1 else None


def _split_tables(flow: Dataflow, tables: dict[int, Windows]) -> Iterator[tuple[int, Windows]]:
    """Permutations of which two parts index one table of overlapping windows. Parts of a permutation that is drawn
    again and again are batches."""
    times = Counter(flow.log.calls[row].call_site for row, _ in calls_named(flow, ("randperm",)))
    for row, parts in parts_of_permutation(flow) if tables else ():
        if times[flow.log.calls[row].call_site] > 1 or not _is_split(flow, row, parts):
            continue
        taken = [table for part in parts if (table := _table_indexed(flow, tables, row, part)) is not None]
        if len(taken) >= _BOTH and taken[0] == taken[1]:
            yield row, taken[0]


def _is_split(flow: Dataflow, row: int, parts: list[int]) -> bool:
    """Whether parts of a permutation may be those of a split: two or three, or folds of which several are joined. Many
    parts are the batches of a single epoch."""
    joined = (flow.log.calls[user] for part in parts for user in flow.users(part, row))
    return len(parts) <= _MOST_PARTS or any(plain_name(each.function) == "cat" for each in joined)


def _table_indexed(flow: Dataflow, tables: dict[int, Windows], row: int, numbers: int) -> Windows | None:
    """The table from which rows are taken by these numbers."""
    for part in taken_alike(flow, row, numbers):
        for user in flow.users(part, row):
            call = flow.log.calls[user]
            is_take = plain_name(call.function) in _TAKE and len(call.inputs) == _BOTH and call.inputs[1].tensor == part
            table = table_of(flow, tables, call.inputs[0].tensor) if is_take else None
            if table is not None:
                return table
    return None
