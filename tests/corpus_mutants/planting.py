"""Sources of healthy programs, and edits that plant one fault in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Edit:
    """Replaces the characters from `start` to `end` of the source."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Planted:
    """One way to plant a fault: the edits, and the lines of the healthy source that one would edit to mend it.

    The lines that the edits write count too.
    """

    edits: tuple[Edit, ...]
    lines: tuple[int, ...] = ()
    value: Edit | None = None
    """Wraps a result in a probe that raises if the result has a history: without one, there is nothing to cut."""


@dataclass(frozen=True)
class Operator:
    """Plants one kind of fault."""

    name: str
    causes: frozenset[str]
    """What a finding may call it."""
    plant: Callable[[Program], Iterator[Planted]]
    needs: str = "change"
    """What has to differ from the healthy run: `change` of any gradient or parameter, `loss` of a gradient that was
    there, `raise` where only autograd's refusal shows that it is a fault, or `nothing` (graphs that are kept)."""


@dataclass(frozen=True)
class Mutant:
    """A program with one fault."""

    program: str
    operator: Operator
    source: str
    lines: frozenset[int]
    """Where one would edit it."""
    number: int = 0
    probe: str | None = None
    """The healthy program, which raises where the fault would cut a history."""

    @property
    def name(self) -> str:
        return f"{self.program}-{self.operator.name}-{self.number}"


OPERATORS: list[Operator] = []
PROBE = "tests.corpus_mutants.probe"


def operator(
    *causes: str, needs: str = "change"
) -> Callable[[Callable[[Program], Iterator[Planted]]], Callable[[Program], Iterator[Planted]]]:
    """Register a function that plants faults, under its own name."""

    def register(plant: Callable[[Program], Iterator[Planted]]) -> Callable[[Program], Iterator[Planted]]:
        OPERATORS.append(Operator(plant.__name__, frozenset(causes), plant, needs))
        return plant

    return register


@dataclass(frozen=True)
class Program:
    """A healthy script, taken apart."""

    name: str
    text: str
    _starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._starts.append(0)
        self._starts.extend(found.end() for found in re.finditer("\n", self.text))

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)}

    def all(self, kind: type[Node]) -> Iterator[Node]:
        """Every node of a kind, in the order of the source."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, kind)]
        yield from sorted(found, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))

    def methods(self, *names: str) -> Iterator[tuple[ast.Call, ast.Attribute]]:
        """Calls of something's attribute with one of these names."""
        for call in self.all(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in names:
                yield call, call.func

    def start(self, node: ast.AST) -> int:
        return self._starts[node.lineno - 1] + self._characters(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self._starts[node.end_lineno - 1] + self._characters(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _characters(self, line: int, column: int) -> int:
        return len(self.text.splitlines()[line - 1].encode()[:column].decode())

    def of(self, node: ast.AST) -> str:
        """The text of a node."""
        return self.text[self.start(node) : self.end(node)]

    def replace(self, node: ast.AST, text: str) -> Edit:
        return Edit(self.start(node), self.end(node), text)

    def drop(self, statement: ast.AST) -> Edit:
        return self.replace(statement, "pass")

    def cut(self, start: int, end: int) -> Edit:
        return Edit(start, end, "")

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node belongs to."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements of the block in which one stands."""
        parent = self.parents[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        raise ValueError(f"line {statement.lineno} is in no block")

    def loop(self, node: ast.AST) -> ast.For | ast.While | None:
        """The innermost loop around a node, in the same function."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, (ast.For, ast.While)):
                return node
            if isinstance(node, (ast.FunctionDef, ast.Lambda)):
                return None
        return None

    def function(self, node: ast.AST) -> ast.FunctionDef | None:
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, ast.FunctionDef):
                return node
        return None

    def stands_alone(self, statement: ast.stmt) -> bool:
        """Whether its lines hold nothing else, so that lines can be inserted around it."""
        before = self.text[self._starts[statement.lineno - 1] : self.start(statement)]
        after = self.text[self.end(statement) :].partition("\n")[0]
        return not before.strip() and not after.partition("#")[0].strip()

    def after(self, statement: ast.stmt, *lines: str) -> Edit:
        """Insert lines behind a statement that stands alone."""
        indent = " " * statement.col_offset
        line_end = self.text.find("\n", self.end(statement))
        return Edit(line_end, line_end, "".join(f"\n{indent}{line}" for line in lines))

    def before(self, statement: ast.stmt, *lines: str) -> Edit:
        indent = " " * statement.col_offset
        first = min([statement, *getattr(statement, "decorator_list", [])], key=lambda node: node.lineno)
        start = self._starts[first.lineno - 1]
        return Edit(start, start, "".join(f"{indent}{line}\n" for line in lines))

    def within(self, statement: ast.stmt, head: str) -> Edit:
        """Put a statement that stands alone inside a block with this head."""
        indent = " " * statement.col_offset
        body = self.of(statement).replace("\n", "\n    ")
        return self.replace(statement, f"{head}\n{indent}    {body}")

    def mutant(self, by: Operator, planted: Planted, number: int) -> Mutant | None:
        """The program after the edits; None if that is no Python."""
        text, lines = self.text, dict[int, int]()
        written: set[int] = set()
        edits = sorted(planted.edits, key=lambda edit: (edit.start, edit.end))
        for edit in reversed(edits):
            text = text[: edit.start] + edit.text + text[edit.end :]
        shift = 0
        for edit in edits:
            first = self.text.count("\n", 0, edit.start) + 1 + shift
            skipped = len(edit.text) - len(edit.text.lstrip("\n"))
            kept = edit.text.rstrip("\n")
            written.update(range(first + skipped, first + kept.count("\n") + 1))
            shift += edit.text.count("\n") - self.text.count("\n", edit.start, edit.end)
        for line in planted.lines:
            lines[line] = line + sum(
                edit.text.count("\n") - self.text.count("\n", edit.start, edit.end)
                for edit in edits
                if self.text.count("\n", 0, edit.start) + 1 < line
                or (edit.start == self._starts[line - 1] and edit.text.endswith("\n"))
            )
        try:
            ast.parse(text)
        except SyntaxError:
            return None
        probe = planted.value
        probing = None if probe is None else self.text[: probe.start] + probe.text + self.text[probe.end :]
        return Mutant(self.name, by, text, frozenset(written | set(lines.values())), number, probing)

    def probe(self, value: ast.expr) -> Edit:
        """An edit for `Planted.value`."""
        return self.replace(value, f"__import__({PROBE!r}, fromlist=['live']).live({self.of(value)})")


def one_line(node: ast.AST) -> bool:
    """Whether it is written on one line."""
    return bool(node.lineno == node.end_lineno)  # type: ignore[attr-defined]


def lines_of(*statements: ast.AST | None) -> tuple[int, ...]:
    """The lines of these nodes."""
    return tuple(
        line
        for node in statements
        if node is not None
        for line in range(node.lineno, node.end_lineno + 1)  # type: ignore[attr-defined]
    )


def name_of(node: ast.AST | None) -> str | None:
    """The dotted name that an expression is, if it is one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = name_of(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None
