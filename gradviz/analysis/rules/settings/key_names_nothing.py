"""GV989."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from difflib import get_close_matches

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.names.written_keys import (
    WrittenKey,
    expressions_behind,
    lines_of_key,
    reads_attribute,
)
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, last_line
from gradviz.graph.modules_and_schedules import UnknownKeys


class KeyNamesNothing(Rule):
    """A tensor is given to ``functional_call()`` for a parameter that the module does not have.

    What it finds
    -------------
    Keys of ``torch.func.functional_call()`` that are the name of no parameter, no buffer and no attribute of the
    module, where nothing in its class reads such an attribute, and where what was computed for the key, or the
    parameter that was given for it, has no part in any loss. Keys of a dict that also serves another module are left
    alone, as long as their values are used there.

    Why it matters
    --------------
    Without ``strict=True`` torch sets an attribute of that name for the time of the call, and says nothing. The module
    computes with the parameters and buffers that it has, and what was to replace one of them never trains.

    Example
    -------
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("gain", torch.ones(4))

        def forward(self, x):
            return x * self.gain

    scaled, hyper, head = Scaled(), torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*hyper.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(5, 4)
        weights = {"scale": 1 + hyper(x.mean(0))}
        optimizer.zero_grad()
        head(torch.func.functional_call(scaled, weights, (x,))).square().mean().backward()
        optimizer.step()

    Instead
    -------
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("gain", torch.ones(4))

        def forward(self, x):
            return x * self.gain

    scaled, hyper, head = Scaled(), torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*hyper.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(5, 4)
        weights = {"gain": 1 + hyper(x.mean(0))}
        optimizer.zero_grad()
        head(torch.func.functional_call(scaled, weights, (x,))).square().mean().backward()
        optimizer.step()
    """

    code = "GV989"
    name = "key_names_nothing"
    severity = "warning"
    needs = ("replaced parameters",)

    def check(self, case: Case) -> Iterator[Finding]:
        if not case.dataflow.log.unknown_keys or not case.histories.steps:
            return
        files = [*own_files(case)]
        for unknown in case.dataflow.log.unknown_keys:
            places = defaultdict[Location | None, list[_Key]](list)
            for key, owner in zip(unknown.keys, unknown.owners, strict=True):
                if not any(reads_attribute(tree, owner, _last(key)) for _, tree in files):
                    found = _key(case, key, files)
                    places[found.location].append(found)
            for location, keys in places.items():
                told = [each for each in keys if each.tensors or each.is_unused]
                if told:
                    yield self._finding(case, unknown, location, told)

    def _finding(self, case: Case, unknown: UnknownKeys, location: Location | None, keys: list[_Key]) -> Finding:
        called, first = case.location_of_site(unknown.call_site), keys[0]
        place = first.key.rpartition(".")[0]
        there = [each for each in unknown.names if each.rpartition(".")[0] == place] or list(unknown.names)
        of_place = f"{place} has" if place and there and there[0].startswith(f"{place}.") else "it has"
        near = next(iter(get_close_matches(first.key, there, 1, 0.0)), None)
        verb = "name" if len(keys) > 1 else "names"
        has = f"; {of_place} {together(map(_last, there))}, and no key for that" if there else ""
        return self.finding(
            f"{together(f'{each.key!r}' for each in keys)} {verb} no parameter or buffer of {unknown.class_name}: "
            f"functional_call() ignores what is given for {'them' if len(keys) > 1 else 'it'}{has}",
            symptom="grad_wrong" if any(each.is_unused for each in keys) else "grad_none",
            why="without strict=True a key that the module does not have is an attribute that nothing reads: what was "
            "computed for it has no part in the loss",
            fix=_advice(first, near),
            location=location or called,
            symptom_location=called if location is not None and called != location else None,
            tensors=names_of(case.dataflow, list(dict.fromkeys(number for each in keys for number in each.tensors))),
            evidence={"keys": len(keys)},
        )


class _Key(Struct, frozen=True):
    """A key that names nothing."""

    key: str
    location: Location | None
    """The line that writes it."""
    text: str
    """As that line writes it."""
    tensors: tuple[int, ...] = ()
    """Trained parameters that its value was computed from, or is."""
    is_unused: bool = False
    """Whether backward reaches them, and yet nothing used the result of the line: they serve something else, too."""


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _key(case: Case, key: str, files: list[tuple[str, SourceTree]]) -> _Key:
    """Where a key is written, and what is not trained because of it."""
    histories = case.histories
    untrained = histories.trained - histories.reached
    found = [(file, tree, each) for file, tree in files for each in lines_of_key(tree, key)]
    for file, tree, written in found:
        rows = _rows_behind(case, file, tree, written)
        named = {each.attr for each in ast.walk(written.value) if isinstance(each, ast.Attribute)}
        used = {use.tensor for row in rows for use in histories.log.calls[row].inputs}
        idle = {
            number
            for number in untrained
            if number in used or any(_last(name) in named for name in histories.tensor(number).names)
        }
        is_unused = not idle and _is_unused(case, _rows_of(case, file, written.value))
        if idle or is_unused:
            told = idle or (used & histories.trained)
            return _Key(key, Location(file, written.line), written.text, tuple(sorted(told)), is_unused)
    if found:
        return _Key(key, Location(found[0][0], found[0][2].line), found[0][2].text)
    return _Key(key, None, key, tuple(sorted(each for each in untrained if histories.forward_uses(each))))


def _rows_behind(case: Case, file: str, tree: SourceTree, written: WrittenKey) -> list[int]:
    behind = expressions_behind(tree, written.value)
    return sorted({row for each in behind for row in _rows_of(case, file, each)})


def _rows_of(case: Case, file: str, value: ast.expr) -> list[int]:
    return LinesThatRan(case.dataflow, file).rows_in(value.lineno, last_line(value))


def _is_unused(case: Case, rows: list[int]) -> bool:
    """Whether calls made something that could have a gradient, and nothing outside of them used any of it."""
    flow, own = case.dataflow, set(rows)
    outputs = [use for row in rows for use in flow.log.calls[row].outputs if use.requires_grad]
    return bool(outputs) and all(own.issuperset(flow.users(use.tensor)) for use in outputs)


def _advice(key: _Key, near: str | None) -> str:
    name = _last(key.key)
    register = f"register_buffer({name!r}, ...) in the module, if its forward is to read self.{name}"
    if near is None:
        return register
    head, dot, written = key.text.rpartition(".")
    is_same_place = written == name and near.rpartition(".")[0] == key.key.rpartition(".")[0]
    new = f"{head}{dot}{_last(near)}" if is_same_place else near
    return f"write the name of what it is to replace, such as {new!r}; or {register}"
