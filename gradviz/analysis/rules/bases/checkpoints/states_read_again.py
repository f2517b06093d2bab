"""State that a checkpointed function reads and changes: the second run of the function, in backward, reads another
value than the first. Calls of the second run are in no log."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.cuts import REENTRANT_CHECKPOINT
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.checkpoints.carried_states import Carried, carried_states
from gradviz.analysis.rules.bases.checkpoints.checkpoint_calls import CheckpointCalls, CheckpointRun, Root
from gradviz.analysis.sources.source_tree import Key, called_name, last_line, last_name
from gradviz.graph.call_log import Call, TensorUse
from gradviz.graph.traversal import scopes_around

_HEADS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)
_NEW_TENSORS = frozenset({
    "zeros", "ones", "empty", "full", "new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like",
    "randn", "rand", "tensor", "list", "dict", "set", "deque", "defaultdict", "Parameter",
})  # fmt: skip


class ChangedState(Struct, frozen=True):
    """A variable of a checkpointed function, with the lines that read and change it."""

    name: str
    read: Location
    written: Location
    checkpoint: Location
    """The line that calls the checkpoint."""
    is_made_once: bool = False
    """Whether it is only made where it is missing: the second run finds it there."""


class StatesReadAgain:
    """Finds such state."""

    def __init__(self, case: Case) -> None:
        self._case, self._flow = case, case.dataflow
        self.checkpoints = CheckpointCalls(case)
        self._states: dict[Root, list[Carried]] = {}
        self._roots: dict[CheckpointRun, list[Root]] = {}

    # -- where the second run raised ---------------------------------------------------------------------------------

    def explaining(self, failed: Iterable[CheckpointRun]) -> ChangedState | None:
        """The state that explains why the second run of a checkpoint computed other tensors.

        Args:
            failed: where its operations ran in forward; if that is unknown, all that ran in checkpoints.
        """
        made_once: ChangedState | None = None
        for run in failed:
            for root in self._roots_of(run):
                for state in self._states_of(root):
                    if state.writes:
                        return _changed_state(root, state.name, state.reads[0], _newest_value(state.writes), run.line)
                    if made_once is None and self._has_graph(root, state):
                        made = state.made_once[-1]
                        read = next((each for each in state.reads if each.lineno > made.lineno), state.reads[-1])
                        found = _changed_state(root, state.name, read, made, run.line)
                        made_once = replace(found, is_made_once=True)
        return made_once

    def _has_graph(self, root: Root, state: Carried) -> bool:
        """Whether what is made once is a tensor with its graph: the second run saves less for backward."""
        rows = (row for each in state.made_once for row in self._rows_of(root.file, each))
        return any(use.requires_grad for row in rows for use in self._flow.log.calls[row].outputs)

    def _roots_of(self, run: CheckpointRun) -> list[Root]:
        if run not in self._roots:
            self._roots[run] = list(self.checkpoints.roots(run))
        return self._roots[run]

    def _states_of(self, root: Root) -> list[Carried]:
        if root not in self._states:
            self._states[root] = carried_states(self.checkpoints.trees[root.file], root.function)
        return self._states[root]

    # -- where nothing raised ----------------------------------------------------------------------------------------

    def silent(self) -> Iterator[ChangedState]:
        """State of which the log shows that one run reads a tensor that it changes afterwards, where nothing outside of
        the function puts the old value back."""
        backwards = self._case.histories.backward_calls
        told = set[tuple[str, Key]]()
        for (_, _, line, root), rows in self._runs.items() if backwards else ():
            for state in self._states_of(root) if rows[0] < backwards[-1] else ():
                if (root.file, state.key) in told or not state.writes:
                    continue
                found = self._seen(root, state, line, rows)
                if found is not None and not self._is_put_back(state):
                    told.add((root.file, state.key))
                    yield found

    @cached_property
    def _runs(self) -> dict[tuple[int | None, int | None, Location, Root], list[int]]:
        """The calls of each run of a function, by the call of its module, or by the backward before it."""
        calls, scopes = self._flow.log.calls, self._flow.log.scopes
        found: dict[tuple[int | None, int | None, Location, Root], list[int]] = defaultdict(list)
        for row, run in self.checkpoints.rows.items():
            for root in self._roots_of(run):
                around = scopes_around(scopes, calls[row].scope)
                own = next((each for each in around if scopes[each].class_name == root.class_name), None)
                step = self._flow.backward_before(row) if own is None else None
                found[own, step, run.line, root].append(row)
        return {key: rows for key, rows in found.items() if self._states_of(key[3])}

    def _seen(self, root: Root, state: Carried, line: Location, rows: list[int]) -> ChangedState | None:
        calls = self._flow.log.calls
        changes = {row for each in state.writes for row in self._rows_of(root.file, each)}
        changing = [row for row in rows if row in changes]
        made = {row for each in state.made_once for row in self._rows_of(root.file, each)}
        changed = {use.tensor: row for row in changing for use in calls[row].changed}
        for statement in state.reads if changing else ():
            if isinstance(statement, _HEADS):
                continue
            for row in _among(self._rows_of(root.file, statement), rows):
                if changing[-1] < row:
                    break
                is_first = row <= changing[0] or row in changes
                for use in calls[row].inputs:
                    producer = self._flow.newest_producer(use.tensor, row)
                    is_state = (
                        changed.get(use.tensor, -1) >= row
                        or (producer is not None and producer < rows[0] and producer in changes)
                        or (is_first and producer is not None and producer in made)
                        or (is_first and self._is_left_by_second_run(use, row, calls[changing[-1]]))
                    )
                    if is_state and self._is_live(row, use.tensor, rows[-1]):
                        return _changed_state(root, state.name, statement, _newest_value(state.writes), line)
        return None

    def _is_left_by_second_run(self, use: TensorUse, row: int, changing: Call) -> bool:
        """Whether a tensor may come from the second run of an earlier step: the log has not seen it before."""
        known = self._flow.log.tensors[use.tensor]
        is_new = known.first_seen == row and known.producer is None and known.role == "tensor" and not use.requires_grad
        shapes = {self._flow.log.tensors[each.tensor].facts.shape for each in changing.outputs}
        return is_new and self._flow.backward_before(row) is not None and known.facts.shape in shapes

    def _is_live(self, row: int, tensor: int, last: int) -> bool:
        """Whether a gradient goes through what a run computes of a tensor; what the program computes without gradients,
        such as a step of a power iteration, is left out. A reentrant checkpoint has none at first."""
        calls = self._flow.log.calls
        call = calls[row]
        if call.inside is not None and calls[call.inside].function == REENTRANT_CHECKPOINT:
            is_meant = self._case.location_of_site(call.grad_mode_site) != self._case.location_of_call(call.inside)
            return not is_meant and any(use.requires_grad for use in calls[call.inside].outputs)
        return call.grad_mode == "enabled" and any(
            use.requires_grad
            for each in self._flow.descendants(tensor, row - 1, last + 1)
            for use in calls[each].outputs
        )

    def _rows_of(self, file: str, statement: ast.stmt) -> list[int]:
        """The calls in checkpoints that a statement led to, and those that made the variable which it keeps."""
        lines = [range(statement.lineno, last_line(statement) + 1)]
        value = getattr(statement, "value", None)
        tree = self.checkpoints.trees[file]
        if isinstance(statement, ast.Assign) and isinstance(value, ast.Name):
            scope = tree.scope(statement)
            lines += [
                range(each.lineno, last_line(given) + 1)
                for each, given in tree.assignments
                if isinstance(each, ast.Name) and each.id == value.id and tree.scope(each) is scope
            ]
        return sorted({row for each in lines for line in each for row in self._rows_by_line.get((file, line), ())})

    @cached_property
    def _rows_by_line(self) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row, run in self.checkpoints.rows.items():
            for place in {(frame.file, frame.line) for frame in run.frames}:
                found[place].append(row)
        return found

    def _is_put_back(self, state: Carried) -> bool:
        """Whether something else than the function may give the variable an older value again."""
        own, attribute = [*state.writes, *state.made_once], state.name.rpartition(".")[2]
        for tree in self.checkpoints.trees.values():
            for target, value in tree.assignments:
                statement = tree.parent(target)
                is_other = statement not in own and getattr(tree.scope(target), "name", "") != "__init__"
                if is_other and last_name(target) == attribute and not _is_new_value(value, attribute):
                    return True
        return False


def _among(rows: list[int], run: list[int]) -> Iterator[int]:
    """Those of some rows that belong to a run."""
    inside = set(run)
    for row in rows[bisect_left(rows, run[0]) :]:
        if row > run[-1]:
            return
        if row in inside:
            yield row


def _changed_state(root: Root, name: str, read: ast.stmt, written: ast.stmt, checkpoint: Location) -> ChangedState:
    return ChangedState(name, Location(root.file, read.lineno), Location(root.file, written.lineno), checkpoint)


def _newest_value(writes: tuple[ast.stmt, ...]) -> ast.stmt:
    """The last of the statements that change a variable, except those that clear it."""
    values = [each for each in writes if not isinstance(getattr(each, "value", None), ast.Constant)]
    return (values or writes)[-1]


def _is_new_value(value: ast.expr, attribute: str) -> bool:
    """Whether an assignment clears a variable, or keeps it with what it has."""
    if isinstance(value, (ast.Constant, ast.List, ast.Dict, ast.Set)) or called_name(value) in _NEW_TENSORS:
        return True
    return any(isinstance(each, ast.Attribute) and each.attr == attribute for each in ast.walk(value))
