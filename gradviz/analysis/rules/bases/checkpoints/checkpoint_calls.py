"""Which calls of the log ran in a checkpoint: the line that calls it, and the functions that it runs.

>>> tree = SourceTree(dict(enumerate('''from torch.utils.checkpoint import checkpoint as again
... import torch.utils.checkpoint
... x = again(layer, x)
... x = layer(checkpoint(x))
... x = torch.utils.checkpoint.checkpoint_sequential(layers, 2, x)
... '''.splitlines(), start=1)))
>>> [calls_checkpoint(tree, line) for line in (3, 4, 5)]
[True, False, True]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import class_of, function_of
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name
from gradviz.graph.model import CallSite
from gradviz.graph.query.own_line import own_lines_around

_MODULE = "torch.utils.checkpoint"
_NAMES = frozenset({"checkpoint", "checkpoint_sequential"})


def calls_checkpoint(tree: SourceTree, line: int) -> bool:
    """Whether a statement on this line calls torch's checkpoint."""
    statement = tree.statement_at(line)
    return statement is not None and any(_is_checkpoint(tree, each) for each in ast.walk(statement))


def _is_checkpoint(tree: SourceTree, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in _imported(tree)
    # A method of the same name may write files.
    return called_name(node) in _NAMES and isinstance(node.func, ast.Attribute) and _is_module(tree, node.func.value)


def _is_module(tree: SourceTree, owner: ast.expr) -> bool:
    names = {
        alias.asname or alias.name
        for node in tree.nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if _MODULE in (alias.name, f"{getattr(node, 'module', '')}.{alias.name}")
    }
    return ast.unparse(owner) in {*names, _MODULE} or (
        isinstance(owner, ast.Attribute) and last_name(owner) == "checkpoint" and last_name(owner.value) == "utils"
    )


def _imported(tree: SourceTree) -> set[str]:
    """The names that torch's functions have in a file."""
    imports = (node for node in tree.nodes if isinstance(node, ast.ImportFrom) and node.module == _MODULE)
    return {alias.asname or alias.name for node in imports for alias in node.names if alias.name in _NAMES}


class CheckpointRun(Struct, frozen=True):
    """Where a call stands that ran in a checkpoint."""

    line: Location
    """The line that called the checkpoint."""
    frames: tuple[CallSite, ...]
    """The lines inside of it that led to the call, innermost first."""


class Root(Struct, frozen=True):
    """A function that a checkpoint runs."""

    file: str
    class_name: str
    """The class of a method; "" for other functions."""
    function: ast.FunctionDef | ast.AsyncFunctionDef


class CheckpointCalls:
    """The calls of a run that ran inside checkpoints which the program itself calls."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.trees = dict(own_files(case))
        self._by_site: dict[int | None, CheckpointRun | None] = {None: None}
        self._calling: dict[Location, bool] = {}

    @cached_property
    def rows(self) -> dict[int, CheckpointRun]:
        """Each call that ran in one, by its row."""
        if not any(_imported(tree) or _mentions(tree) for tree in self.trees.values()):
            return {}
        found = ((row, self.run_of(call.call_site)) for row, call in enumerate(self._case.dataflow.log.calls))
        return {row: run for row, run in found if run is not None}

    @property
    def runs(self) -> list[CheckpointRun]:
        """The different ones of them, in order."""
        return list(dict.fromkeys(self.rows.values()))

    def run_of(self, site: int | None) -> CheckpointRun | None:
        """The outermost checkpoint around a call site."""
        if site not in self._by_site:
            sites = self._case.dataflow.log.call_sites
            self._by_site[site] = self.run_of_lines([sites[each] for each in own_lines_around(sites, site)])
        return self._by_site[site]

    def run_of_lines(self, lines: list[CallSite]) -> CheckpointRun | None:
        """The same of a stack, innermost line first."""
        for index in range(len(lines) - 1, 0, -1):
            line = Location(lines[index].file, lines[index].line)
            if self._calls(line):
                return CheckpointRun(line, tuple(lines[:index]))
        return None

    def _calls(self, line: Location) -> bool:
        if line not in self._calling:
            tree = self.trees.get(line.file)
            self._calling[line] = tree is not None and calls_checkpoint(tree, line.line)
        return self._calling[line]

    def roots(self, run: CheckpointRun) -> Iterator[Root]:
        """The functions through which a run gets into each class, and the first one that is in none."""
        known = set[tuple[str, str]]()
        for frame in reversed(run.frames):
            owner, tree = (frame.file, class_of(frame)), self.trees.get(frame.file)
            function = None if tree is None else _function_at(tree, frame)
            if function is not None and owner not in known:
                known.add(owner)
                yield Root(*owner, function)


def _mentions(tree: SourceTree) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in _NAMES for node in tree.nodes)


def _function_at(tree: SourceTree, frame: CallSite) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function that a line of a stack is in; None for a lambda."""
    name = function_of(frame).rpartition(".")[2]
    statement = tree.statement_at(frame.line)
    around = () if statement is None else (statement, *tree.around(statement))
    return next((each for each in around if isinstance(each, FUNCTIONS) and each.name == name), None)
