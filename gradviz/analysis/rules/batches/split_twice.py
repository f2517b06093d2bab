"""GV636."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.rows_by_number import drawn_twice
from gradviz.analysis.rules.bases.batches.seeds_between import may_be_seeded, may_callers_seed
from gradviz.analysis.rules.bases.batches.split_lists import split_by_two
from gradviz.analysis.rules.bases.samples.parts_of_permutations import UsedPart, used_parts
from gradviz.analysis.rules.bases.sources.own_files import own_files


class SplitTwice(Rule):
    """Data is split for training and validation by two different permutations.

    What it finds
    -------------
    Two calls of ``randperm()``, or of ``rand(n).argsort()``, of the same length, of which one is only used up to an
    index, and the other one only from that index on: by slices, ``split()`` or ``narrow()``, also where a function or a
    class that is called for each of the two parts draws. Also where lists of the permutations are cut, and two calls of
    ``random_split()`` of the same data of which other parts are used, or where rows that are read without gradients are
    read with them as well. Programs that seed a generator on one of these lines, between them, or before them in such a
    function, are left alone: both permutations may be the same.

    Why it matters
    --------------
    The two parts overlap: of a split of 80 to 20, 80 % of the validation samples are trained on. The validation loss
    then looks as good as that of training, and early stopping never stops.

    Example
    -------
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    train, held_out = torch.randperm(40)[8:], torch.randperm(40)[:8]
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = (model(x[train]) - y[train]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print((model(x[held_out]) - y[held_out]).square().mean())

    Instead
    -------
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    order = torch.randperm(40)
    train, held_out = order[8:], order[:8]
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = (model(x[train]) - y[train]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print((model(x[held_out]) - y[held_out]).square().mean())
    """

    code = "GV636"
    name = "split_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        parts = list(used_parts(case))
        heads = {(part.count, part.bound): part for part in parts if part.is_head}
        tails = {(part.count, part.bound): part for part in parts if not part.is_head}
        for key in heads.keys() & tails.keys():
            flow, head, tail = case.dataflow, heads[key].call, tails[key].call
            first, second = (location_of_call(flow, row) for row in sorted((head, tail)))
            if first is None or second is None or _are_of_other_data(flow, head, tail):
                continue
            if not may_be_seeded(case, first, second) and not may_callers_seed(case, head, tail):
                yield self._finding(heads[key], first, second)

        told = {location_of_call(case.dataflow, part.call) for part in parts}
        for finding in self._of_lists(case, told):
            told |= {finding.location, finding.symptom_location}
            yield finding
        yield from self._of_rows_read(case, told)

    def _of_rows_read(self, case: Case, known: set[Location | None]) -> Iterator[Finding]:
        """Random splits of which rows are read with gradients and without them, whatever the program calls them."""
        started = next(iter(case.histories.backward_calls), 0)
        for found in drawn_twice(case.dataflow, started):
            first, second = (
                location_of_line(line_apart(case.dataflow, *rows))
                for rows in ((found.first, found.second), (found.second, found.first))
            )
            if first is not None and second is not None and not {first, second} & known:
                yield self._of_list(found.count, first, second)

    def _of_lists(self, case: Case, known: set[Location | None]) -> Iterator[Finding]:
        """Permutations that are cut as lists of Python, and random splits."""
        for file, tree in own_files(case):
            drawn = _draws_by_line(case, file)
            for one, other in split_by_two(tree):
                first, second = Location(file, one.line), Location(file, other.line)
                rows = [drawn[line] for line in (one.line, other.line) if drawn[line]]
                is_drawn = len(rows) == _BOTH and (one is not other or len(rows[0]) >= _BOTH)
                if not is_drawn or {first, second} & known:
                    continue
                head, tail = rows[0][0], rows[1][-1]
                if not may_be_seeded(case, first, second) and not may_callers_seed(case, head, tail):
                    count = shape_of(case.dataflow, case.dataflow.log.calls[head].outputs[0].tensor)[0]
                    yield self._of_list(count, first, second)

    def _of_list(self, count: int, first: Location, second: Location) -> Finding:
        return self.finding(
            f"two different permutations of {count:,} are split, and the program uses one part of the first and the "
            "other part of the second, so the two parts overlap",
            symptom="grad_wrong",
            why="what is held out is a sample of all, of which most is trained on",
            fix="split once, and take both parts of it: train, held_out = random_split(data, sizes)",
            location=second,
            symptom_location=first if first != second else None,
            evidence={"samples": count},
        )

    def _finding(self, part: UsedPart, first: Location, second: Location) -> Finding:
        count, bound = part.count, part.bound % part.count
        share = max(bound, count - bound) / count
        return self.finding(
            f"two different permutations of {count:,} are split at {bound:,}: one gives what is before it, the other "
            "one what is behind it, so the two parts overlap",
            symptom="grad_wrong",
            why=f"about {share:.0%} of the smaller part is in the larger one, too: what is held out is trained on",
            fix="draw one permutation, and take both parts of it: order = torch.randperm(n); order[k:], order[:k]",
            location=second,
            symptom_location=first if first != second else None,
            evidence={"samples": count, "split_at": bound},
        )


_BOTH = 2


def _draws_by_line(case: Case, file: str) -> dict[int, list[int]]:
    """By line of a file: the permutations that it drew."""
    flow, found = case.dataflow, defaultdict[int, list[int]](list)
    for row, call in enumerate(flow.log.calls):
        location = location_of_call(flow, row) if plain_name(call.function) == "randperm" and call.outputs else None
        if location is not None and location.file == file:
            found[location.line].append(row)
    return found


def _are_of_other_data(flow: Dataflow, head: int, tail: int) -> bool:
    """Whether two permutations choose from tensors that are not the same."""
    chosen = [set(_chosen_from(flow, row)) for row in (head, tail)]
    return all(chosen) and chosen[0].isdisjoint(chosen[1])


def _chosen_from(flow: Dataflow, row: int) -> Iterator[int]:
    """The tensors from which the parts of a permutation choose."""
    for part in flow.users(flow.log.calls[row].outputs[0].tensor, row):
        for use in flow.log.calls[part].outputs:
            for user in flow.users(use.tensor, part):
                call = flow.log.calls[user]
                if plain_name(call.function) in ("getitem", "index_select") and call.inputs[0].tensor != use.tensor:
                    yield call.inputs[0].tensor
