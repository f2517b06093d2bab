"""Whether lines of a program may copy or mix parameters later, though they have not run yet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.sources.parsed_lines import indent_of
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.model import CallSite

_UPDATES = re.compile(
    r"load_state_dict|deepcopy|hard|replac|transfer|copy_|copy\w+\(|lerp|polyak|sync|_foreach|\.data\b|swap|refresh|\.set_\(|"
    r"(?:mul|add|sub)_\(|zip\(.*param|to_parameters|_params?\(|_weights?\(|"
    r"(?:soft|hard|target|ema|avg|average|polyak|momentum)\w*update|update\w*(?:target|ema|avg|average)",
    re.IGNORECASE,
)
_BLOCKS = re.compile(r"\s*(?:for|while|if|elif|else)\b")
_ONCE = re.compile(r"\s*if\s+__name__\b")
_DEFINES = re.compile(r"\s*(?:async\s+)?def\s+(\w+)|\s*class\s")
_IMPORTS = re.compile(r"\s*(?:import|from)\s")
_ITSELF_AND_ONE_CALL = 2


def may_be_updated_later(case: Case, copies: Iterable[int]) -> bool:
    """Whether a line may copy or mix parameters, beside those that made these copies at the beginning, and those that
    ran during the training and changed none of them."""
    flow, ran = case.dataflow, _lines_of_training(case)
    rows = {row for number in copies for each in flow.sharing_memory(number) for row in flow.producers(each)}
    sites = {(site.file, site.line): site for row in rows for site in callers(flow, row)}
    if any(_is_repeated(case, site) for line, site in sites.items() if line not in ran):
        return True
    lines = (
        (file, number, text)
        for file, of_file in _own_lines(case)
        for words in [_lines_of_words(of_file) if of_file else frozenset()]
        for number, text in of_file.items()
        if number not in words
    )
    return any(
        (file, number) not in sites
        and (file, number) not in ran
        and _UPDATES.search(text.partition("#")[0])
        and not _IMPORTS.match(text)
        and not _is_called(case, text)
        for file, number, text in lines
    )


def _lines_of_words(lines: dict[int, str]) -> frozenset[int]:
    """The lines of docstrings, which say what a program does, and do nothing."""
    texts = (
        node for node in tree_of(lines).nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
    return frozenset(number for node in texts for number in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _is_called(case: Case, text: str) -> bool:
    """Whether a line defines a function that other lines call: these say whether it may still run."""
    defined = _DEFINES.match(text)
    name = None if defined is None else defined.group(1)
    return name is not None and _mentions(case, name) > 1


def _lines_of_training(case: Case) -> set[tuple[str, int]]:
    """The lines that ran after the first step of an optimizer, with all that called them."""
    flow, first = case.dataflow, next(iter(case.histories.steps), None)
    rows: dict[int | None, int] = {}
    for row in range(first + 1, len(flow.log.calls)) if first is not None else ():
        rows.setdefault(flow.log.calls[row].call_site, row)
    return {(site.file, site.line) for row in rows.values() for site in callers(flow, row)}


def _own_lines(case: Case) -> Iterator[tuple[str, dict[int, str]]]:
    """The known lines of the program itself, by file."""
    flow = case.dataflow
    files = {line.file for row in range(len(flow.log.calls)) if (line := flow.line_of(row)) is not None}
    return ((file, case.capture.sources.get(file, {})) for file in sorted(files))


def _is_repeated(case: Case, site: CallSite) -> bool:
    """Whether a line is in a block that may run again, or in a function that others call, too."""
    lines, number = case.capture.sources.get(site.file, {}), site.line
    least = indent_of(lines.get(number, ""))
    while least and number - 1 in lines:
        number -= 1
        text = lines[number]
        if not text.strip() or indent_of(text) >= least:
            continue
        least = indent_of(text)
        if defined := _DEFINES.match(text):
            name = defined.group(1)
            is_special = name is None or name.startswith("__")
            return not is_special and _mentions(case, name) > _ITSELF_AND_ONE_CALL
        if _BLOCKS.match(text) and not _ONCE.match(text):
            return True
    return False


def _mentions(case: Case, name: str) -> int:
    called = re.compile(rf"\b{re.escape(name)}\b")
    return sum(bool(called.search(text)) for _, lines in _own_lines(case) for text in lines.values())
