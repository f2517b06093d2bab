"""The memory of a graph in text: totals, the largest lines and modules, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, get_args

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gradviz.analysis.memory.allocator_balance import balances
from gradviz.analysis.memory.checkpointing import checkpointing, worth_checkpointing
from gradviz.analysis.memory.compiled_memory import compiled_memory
from gradviz.analysis.memory.kept_memory import changed_since, memory_of
from gradviz.analysis.memory.remedies import (
    forwards_kept_at_once,
    halved_by_autocast,
    large_for_small_views,
    saved_twice,
)
from gradviz.capture.capture import Capture
from gradviz.errors import BadInput, check_choice
from gradviz.graph.model import Graph
from gradviz.graph.number_words import byte_words
from gradviz.graph.query.own_line import line_words
from gradviz.rendering.reports.memory_tables import MemoryTables
from gradviz.rendering.reports.terminal_tables import printed
from gradviz.rendering.words import memory_words as words
from gradviz.rendering.words.common_words import counted

MemoryTable = Literal["line", "module", "operation", "dtype", "storage"]
TABLES: tuple[MemoryTable, ...] = get_args(MemoryTable)
"""What the rows of a table can be."""

MIN_WIDTH = 40
_MAX_REMEDIES = 4
_WORTH_DOING = 50
"""A remedy that saves less than a fiftieth of the total is not suggested."""


def check_knows_saved_tensors(capture: Capture, graph: Graph) -> None:
    """Raise `BadInput` for a graph that was recorded by a version without saved tensors."""
    if not graph.knows_saved_tensors:
        raise BadInput(
            f"{capture.program.name} was recorded by an older gradviz, without saved tensors",
            hint="record the script again",
        )


@dataclass(frozen=True)
class ReportOptions:
    """The appearance of the report; raises `BadInput` for an unknown table or a wrong number."""

    by: MemoryTable | None = None
    """One of `TABLES`; None for lines, then modules, then everything else."""
    rows: int = 10
    """Of the longest tables."""
    width: int = 100
    """In columns, at least `MIN_WIDTH`."""
    color: bool = False

    def __post_init__(self) -> None:
        if self.by is not None:
            check_choice("memory table", self.by, TABLES)
        for name, value, least in (("rows", self.rows, 1), ("width", self.width, MIN_WIDTH)):
            if type(value) is not int or value < least:
                raise BadInput(f"{name}={value!r} is not a whole number from {least} on")


def memory_report(capture: Capture, graph: Graph, options: ReportOptions) -> str:
    """The whole report of one graph, as text that ends in a line feed.

    Raises `BadInput` for a graph that was recorded by a version without saved tensors.
    """
    check_knows_saved_tensors(capture, graph)
    return printed(_Report(capture, graph, options).parts(), options.width, color=options.color)


class _Report:
    def __init__(self, capture: Capture, graph: Graph, options: ReportOptions) -> None:
        self.capture, self.graph, self.options = capture, graph, options
        self.memory = memory_of(graph)
        self.checkpointing = checkpointing(graph)

    def parts(self) -> Iterator[RenderableType]:
        yield from self._totals()
        rows, width = self.options.rows, self.options.width
        tables = MemoryTables(self.capture, self.graph, self.memory, self.checkpointing, rows, width)
        for kind in [self.options.by] if self.options.by else ["line", "module"]:
            if self.memory.saved_bytes and (kind != "module" or self.graph.scopes or self.options.by):
                yield Text()
                yield tables.by(kind)
        if self.options.by is None:
            yield from _section("compiled code", self._compiled())
            yield from _section("against the allocator", self._balances())
            yield from _section("what would help", self._remedies())
        yield from _section("changed in place since it was saved: backward refuses it", self._changed())
        yield from _section("not known, and not in the figures", self._unknown())
        yield from _section("notes", self.capture.disclosures)

    def _totals(self) -> Iterator[RenderableType]:
        memory, total = self.memory, byte_words(self.memory.saved_bytes)
        count = sum(use.counts for use in memory.storages)
        storages = counted(count, "storage")
        yield Text(f"{total} kept {self._until()}, in {storages}", style="bold")
        inputs = [use.names[0] for use in memory.storages if use.kind == "input" and use.names]
        sizes = (
            (memory.input_bytes, f"of it is input that existed before{words.names_words(inputs)}"),
            (memory.parameter_bytes, "of parameters and buffers are not counted: they exist in any case"),
            (memory.recomputed_bytes, "were not kept: checkpointing computes them again in backward"),
        )
        for size, what in sizes:
            if size:
                yield from _hanging(f"{byte_words(size):>10}  {what}")
        if memory.freed_nodes:
            nodes = counted(memory.freed_nodes, "node")
            yield Text(
                f"not counted: what {nodes} kept until an earlier backward freed it; --backward N shows that call"
            )

    def _until(self) -> str:
        backward = self.graph.backward
        if backward is None:
            return f"by the graph of {', '.join(root.name or 'an unnamed tensor' for root in self.graph.roots[:3])}"
        site = self.graph.call_sites[backward.call_site] if backward.call_site is not None else None
        return f"until {backward.function} {backward.number}" + (f" at {line_words(site)}" if site else "")

    def _compiled(self) -> Iterator[str]:
        for each in compiled_memory(self.graph):
            first, *lines = words.compiled_words(each)
            yield first
            yield from lines[: self.options.rows]
            if len(lines) > self.options.rows:
                yield f"and {counted(len(lines) - self.options.rows, 'more line')}"

    def _balances(self) -> Iterator[str]:
        for balance in balances(self.graph):
            yield from words.balance_words(balance)
        if not self.graph.allocators:
            yield "not compared: the start of forward was not recorded, or no allocator here reports its memory"

    def _remedies(self) -> Iterator[str]:
        least = self.memory.saved_bytes // _WORTH_DOING + 1
        repeated = [each for each in forwards_kept_at_once(self.graph, self.memory) if each.bytes >= least]
        yield from map(words.repeated_words, repeated[:_MAX_REMEDIES])
        operations = sum(not node.is_leaf for node in self.graph.nodes)
        for entry in worth_checkpointing(self.checkpointing, least)[:_MAX_REMEDIES]:
            yield words.checkpointing_words(entry, operations)
        halved = halved_by_autocast(self.graph)
        if halved >= least:
            yield f"autocast to 16 bits: up to {byte_words(halved)} less of float32"
        twice = [copy for copy in saved_twice(self.graph) if copy.bytes >= least]
        yield from map(words.saved_twice_words, twice[:_MAX_REMEDIES])
        views = [use for use in large_for_small_views(self.memory) if use.bytes - use.seen_bytes >= least]
        yield from map(words.small_view_words, views[:_MAX_REMEDIES])
        if self.graph.older_graphs:
            yield words.older_graphs_words(self.graph.older_graphs)

    def _changed(self) -> Iterator[str]:
        return map(words.changed_words, islice(changed_since(self.graph), self.options.rows))

    def _unknown(self) -> Iterator[str]:
        unknown, most = self.memory.unknown, self.options.rows
        yield from map(words.unknown_words, unknown[:most])
        if len(unknown) > most:
            yield f"and {len(unknown) - most:,} more saved tensors"


def _section(title: str, sentences: Iterable[str]) -> Iterator[RenderableType]:
    lines = list(sentences)
    if lines:
        yield Text()
        yield Text(title, style="bold")
    for line in lines:
        yield from _hanging(f"  {line}")


def _hanging(line: str) -> Iterator[RenderableType]:
    """A line whose continuations are indented; if it begins with a figure, to the end of the figure."""
    figure, gap, sentence = line.rpartition("  ")
    table = Table.grid()
    table.add_column(width=len(figure + gap), no_wrap=True)
    table.add_column()
    table.add_row(Text(figure + gap), Text(sentence))
    yield table
