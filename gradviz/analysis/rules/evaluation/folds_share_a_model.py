"""GV945."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import first_writes
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.rows_of_data import RowKey, rows_taken
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_line


class FoldsShareAModel(Rule):
    """A cross-validation scores each part of the data with a model that an earlier round has trained on it.

    What it finds
    -------------
    Three or more optimizers of the same parameters, one after the other, each of which trains on most of the data and
    is followed by a score on a part that it left out, where an earlier one has trained on that part, and nothing has
    set the parameters back. Tasks that share no data are left alone.

    Why it matters
    --------------
    From the second round on, the model has seen what it is scored on, so the scores are too good: they grow from fold
    to fold, and what was remembered counts as learned.

    Example
    -------
    x, y = torch.randn(48, 4), torch.randint(0, 2, (48,))
    folds = torch.randperm(48).chunk(4)
    model = torch.nn.Linear(4, 2)
    for k in range(4):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        rest = torch.cat([fold for i, fold in enumerate(folds) if i != k])
        for step in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[rest]), y[rest]).backward()
            optimizer.step()
        with torch.no_grad():
            print((model(x[folds[k]]).argmax(1) == y[folds[k]]).float().mean())

    Instead
    -------
    x, y = torch.randn(48, 4), torch.randint(0, 2, (48,))
    folds = torch.randperm(48).chunk(4)
    for k in range(4):
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        rest = torch.cat([fold for i, fold in enumerate(folds) if i != k])
        for step in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[rest]), y[rest]).backward()
            optimizer.step()
        with torch.no_grad():
            print((model(x[folds[k]]).argmax(1) == y[folds[k]]).float().mean())
    """

    code = "GV945"
    name = "folds_share_a_model"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        by_parameters = defaultdict[frozenset[int], list[int]](list)
        for number, optimizer in enumerate(case.dataflow.log.optimizers):
            held = frozenset(tensor for group in optimizer.groups for tensor in group)
            if held and case.histories.given_at(number):
                by_parameters[held].append(number)
        for held, numbers in by_parameters.items():
            if _MIN_ROUNDS <= len(numbers) <= _MAX_ROUNDS and not _is_set_back(case, held, numbers):
                rounds = list(_rounds(case, numbers))
                seen = _scored_after_training(rounds)
                if not seen and _are_folds_of_arrays(case, numbers, rounds):
                    seen = len(numbers) - 1
                if seen:
                    yield self._finding(case, held, numbers, seen)

    def _finding(self, case: Case, held: frozenset[int], numbers: list[int], seen: int) -> Finding:
        names, made = case.histories.together(sorted(held)), case.histories.given_at(numbers[0])[0]
        return self.finding(
            f"{len(numbers):,} trainings follow each other on the same {names}, and {seen:,} of them "
            "or more are scored on data that they leave out, but that an earlier one has trained on",
            symptom="grad_wrong",
            why="nothing sets the parameters back, so the model has seen what it is scored on",
            fix="make the model in the loop over the folds, before its optimizer",
            location=_line_that_makes(case, held, made),
            symptom_location=location_of_call(case.dataflow, case.histories.given_at(numbers[1])[0]),
            tensors=names_of(case.dataflow, sorted(held)),
            evidence={"rounds": len(numbers), "seen": seen},
        )


class _Round(Struct, frozen=True):
    """What one of several trainings trains on, and what is scored before the next one begins."""

    trained: frozenset[RowKey]
    scored: frozenset[RowKey]
    is_scored: bool
    """Whether anything was computed without gradients behind the training."""


_MIN_ROUNDS = 3
_MAX_ROUNDS = 20
_MAX_BACKWARDS = 40
_MAX_SCORED = 40


def _line_that_makes(case: Case, held: frozenset[int], optimizer: int) -> Location | None:
    """The outermost line that made the parameters and not the optimizer as well."""
    flow = case.dataflow
    beside = {(line.file, line.line) for line in callers(flow, optimizer)}
    for number in sorted(held):
        for row in first_writes(flow, number, optimizer)[:1]:
            lines = [line for line in callers(flow, row) if (line.file, line.line) not in beside]
            return location_of_line(lines[-1]) if lines else location_of_call(flow, optimizer)
    return location_of_call(flow, optimizer)


def _is_set_back(case: Case, held: frozenset[int], numbers: list[int]) -> bool:
    """Whether anything else than a step changes one of the parameters after the first training."""
    flow = case.dataflow
    begin = case.histories.given_at(numbers[0])[0]
    changes = (row for number in held for row in flow.changes(number, begin, len(flow.log.calls)))
    is_changed = any(flow.log.calls[row].kind != "step" and flow.log.calls[row].inside is None for row in changes)
    return is_changed or any(row > begin for number in held for row in flow.data_replacements(number))


def _rounds(case: Case, numbers: list[int]) -> Iterator[_Round]:
    flow, histories = case.dataflow, case.histories
    begins, since = sorted(histories.given_at(number)[0] for number in numbers), 0
    for begin, end in pairwise((*begins, len(flow.log.calls))):
        backwards = [(row, tensor) for row, tensor in flow.roots() if begin < row < end]
        if not backwards:
            continue
        above = {each for row, root in backwards[:_MAX_BACKWARDS] for each in flow.ancestors(root, row, since)}
        since = last = backwards[-1][0]  # The next one may take its data before it makes its optimizer.
        scoring = [
            row
            for row in range(last, end)
            if flow.log.calls[row].grad_mode != "enabled"
            and flow.log.calls[row].kind == "operation"
            and flow.log.calls[row].live_inputs
        ]
        scored = {
            each
            for row in scoring[:_MAX_SCORED]
            for use in flow.log.calls[row].inputs
            if not use.requires_grad
            for each in flow.ancestors(use.tensor, row, last)
        }
        yield _Round(rows_taken(flow, above), rows_taken(flow, scored), bool(scoring))


def _are_folds_of_arrays(case: Case, numbers: list[int], rounds: list[_Round]) -> bool:
    """Whether each optimizer is made in one turn of a loop over the folds of ``KFold``, where it is not known which
    rows NumPy took, and each training is followed by a score. No earlier round sees the later parts of a series."""
    if len(rounds) != len(numbers) or not all(each.is_scored and not (each.trained and each.scored) for each in rounds):
        return False
    lines = {(line.file, line.line) for line in callers(case.dataflow, case.histories.given_at(numbers[0])[0])}
    return any(
        isinstance(node, ast.For)
        and any(file == at and node.lineno < line <= last_line(node) for at, line in lines)
        and _goes_over_folds(tree, node.iter)
        for file, tree in own_files(case)
        for node in tree.nodes
    )


def _goes_over_folds(tree: SourceTree, iterated: ast.expr) -> bool:
    """``KFold(5).split(x)``, ``enumerate(folds.split(x, y))``"""
    while called_name(iterated) in ("enumerate", "list", "tqdm") and isinstance(iterated, ast.Call) and iterated.args:
        iterated = iterated.args[0]
    if called_name(iterated) != "split" or not isinstance(getattr(iterated, "func", None), ast.Attribute):
        return False
    maker = iterated.func.value  # type: ignore[attr-defined]
    key = tree.key_of(maker)
    made = [maker, *tree.values_of(key)]
    return any(re.search("(?<!un)fold", called_name(each), re.IGNORECASE) for each in made)


def _scored_after_training(rounds: list[_Round]) -> int:
    """How many trainings are scored on data that they leave out and that earlier ones have trained on, while they train
    on data of earlier ones, too; 0 if any is scored on what it trains on. The scores of some may not be recorded.

    One that trains on no more than it is scored on goes from task to task, and may look for what is forgotten.
    """
    if any(not each.scored.isdisjoint(each.trained) for each in rounds):
        return 0
    found = 0
    for number, each in enumerate(rounds[1:], start=1):
        earlier = frozenset[RowKey]().union(*(other.trained for other in rounds[:number]))
        is_of_most = len(each.trained) > len(each.scored) > 0
        found += is_of_most and each.scored <= earlier and not earlier.isdisjoint(each.trained)
    return found
