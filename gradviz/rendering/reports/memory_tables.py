"""The tables of a memory report: the memory kept by line, module, operation, dtype or storage, the largest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from gradviz.analysis.memory.checkpointing import Checkpointing
from gradviz.analysis.memory.kept_memory import GraphMemory
from gradviz.analysis.memory.memory_document import source_text
from gradviz.analysis.memory.memory_groups import Group, ModuleMemory, by_dtype, by_line, by_module, by_operation
from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph
from gradviz.graph.number_words import byte_words
from gradviz.graph.query.operation_names import stem_of
from gradviz.rendering.reports.terminal_tables import empty_table
from gradviz.rendering.words.memory_words import first_location_words, location_words, module_words, tensor_words, times


@dataclass(frozen=True)
class MemoryTables:
    """Makes the tables of one graph. Each has at most `rows` rows and one for the rest, within `width` columns."""

    capture: Capture
    graph: Graph
    memory: GraphMemory
    checkpointing: dict[str, Checkpointing]
    rows: int
    width: int

    def by(self, kind: str) -> Table:
        """The table by ``line``, ``module``, ``operation``, ``dtype`` or ``storage``."""
        match kind:
            case "line":
                return self._lines()
            case "module":
                return self._modules()
            case "operation":
                return self._groups("operation", by_operation(self.memory))
            case "dtype":
                return self._groups("dtype", by_dtype(self.memory))
            case _:
                return self._storages()

    def _lines(self) -> Table:
        groups = [group for group in by_line(self.memory) if group.bytes]
        rows = []
        for group in groups[: self.rows]:
            text, keepers = source_text(self.capture, group.key), ", ".join(map(stem_of, group.operations))
            rows.append(_Row(group.bytes, (location_words(group.key), text, keepers)))
        return self._table(("line", "source", "kept by"), rows, [group.bytes for group in groups])

    def _modules(self) -> Table:
        modules = [module for module in by_module(self.graph, self.memory, merge_numbered=True) if module.bytes]
        shown = {id(module) for module in sorted(modules, key=lambda each: -each.bytes)[: self.rows]}
        rows = []
        for module in modules:
            if id(module) in shown:
                names = module_words(module.path, module.depth), module.class_name + times(module.calls)
                rows.append(_Row(module.bytes, (*names, *self._checkpointed(module))))
        table = self._table(("module", "class", "checkpointed", "recomputes"), rows, ())
        if len(modules) > len(shown):
            table.add_row("", "", Text(f"{len(modules) - len(shown):,} smaller", style="dim"))
        return table

    def _checkpointed(self, module: ModuleMemory) -> tuple[str, str]:
        total = Checkpointing(module.path, module.class_name)
        for path in module.paths:
            if path in self.checkpointing:
                total.add(self.checkpointing[path])
        return (f"−{byte_words(total.saved_bytes)}", f"{total.operations:,}") if total.calls else ("", "")

    def _groups(self, what: str, groups: list[Group]) -> Table:
        groups = [group for group in groups if group.bytes]
        rows = [
            _Row(
                group.bytes,
                (stem_of(str(group.key[0])), tensor_words(group.largest), first_location_words(group.largest)),
            )
            for group in groups[: self.rows]
            if group.largest is not None
        ]
        return self._table((what, "largest tensor", "at"), rows, [group.bytes for group in groups])

    def _storages(self) -> Table:
        uses = [use for use in self.memory.storages if use.counts]
        rows = []
        for use in uses[: self.rows]:
            keepers = dict.fromkeys(f"{stem_of(holder.operation)}.{holder.slot}" for holder in use.held_by)
            cells = first_location_words(use), tensor_words(use), ", ".join(keepers), ", ".join(use.names)
            rows.append(_Row(use.bytes, cells))
        return self._table(("line", "tensor", "kept by", "names"), rows, [use.bytes for use in uses])

    def _table(self, headings: Sequence[str], rows: Sequence[_Row], sizes: Sequence[int]) -> Table:
        table = empty_table()
        table.add_column("kept", justify="right", width=_SIZE_WIDTH, no_wrap=True)
        table.add_column("%", justify="right", width=_SHARE_WIDTH, no_wrap=True)
        columns = zip(headings, *(row.cells for row in rows), strict=True)
        natural = [max(map(len, column)) for column in columns]
        space = self.width - _SIZE_WIDTH - _SHARE_WIDTH - 2 * (len(natural) + 1)
        for heading, width in zip(headings, _fitted(natural, space), strict=True):
            table.add_column(heading, width=width, no_wrap=True, overflow="ellipsis")
        for row in rows:
            self._add(table, row.size, map(Text, row.cells))
        left = sizes[self.rows :]
        if left:
            self._add(table, sum(left), [Text(f"{len(left):,} more", style="dim")])
        return table

    def _add(self, table: Table, size: int, cells: Iterable[Text]) -> None:
        total = self.memory.saved_bytes
        table.add_row(byte_words(size), f"{size / total:.1%}" if total else "", *cells)


_SIZE_WIDTH = 8
_SHARE_WIDTH = 6


class _Row(NamedTuple):
    size: int
    cells: Sequence[str]


def _fitted(widths: list[int], space: int) -> list[int]:
    """The widths, with the largest cut until all fit. The first column names the row, and is cut last."""
    first, *others = widths
    while others and first + sum(others) > space and max(others) > _MIN_WIDTH:
        others[others.index(max(others))] -= 1
    return [max(min(first, space - sum(others)), _MIN_WIDTH), *others]


_MIN_WIDTH = 8
