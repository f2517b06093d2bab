"""The memory of a graph as data for programs: ``gradviz memory --json``."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from gradviz.analysis.finding import Location, text_at
from gradviz.analysis.memory.compiled_memory import CompiledMemory, compiled_memory
from gradviz.analysis.memory.job_memory import JobMemory
from gradviz.analysis.memory.kept_memory import StorageUse, Unknown, memory_of
from gradviz.analysis.memory.memory_groups import Group, by_line, by_module
from gradviz.capture.capture import Capture
from gradviz.capture.encoding import json_text
from gradviz.graph.model import Graph


class ModuleBytes(Struct, frozen=True):
    """One module, with all its calls."""

    module: str
    """Dotted path; empty for what is outside of all modules."""
    class_name: str
    calls: int
    bytes: int
    """Including the modules inside of it."""
    own_bytes: int


class LineBytes(Struct, frozen=True):
    """One line of source."""

    file: str | None
    line: int | None
    text: str
    bytes: int
    """Of storages that this line keeps first; all lines add up to `MemoryDocument.saved_bytes`."""
    shared_bytes: int
    """Of storages that it keeps as well, but that count at another line."""
    storages: int


class RecomputedLine(Struct, frozen=True):
    """Operations of one line that compiled code computes again in backward."""

    file: str | None
    line: int | None
    operations: dict[str, int]
    """How often each."""


class CompiledBytes(Struct, frozen=True):
    """What all calls of one compiled function keep of their results."""

    function: str
    backend: str
    calls: int
    kept_bytes: int | None
    """None where torch does not show what is kept."""
    uncompiled_bytes: int
    """What autograd would keep without compilation."""
    recomputed: tuple[RecomputedLine, ...] | None
    """None where torch does not tell it."""
    is_guessed: bool = False
    """Whether only sizes say which lines and modules keep these results."""


class MemoryDocument(Struct, frozen=True):
    """What ``gradviz memory --json`` prints. Each storage counts once."""

    saved_bytes: int
    """What nodes keep for their backward, without parameters and buffers."""
    parameter_bytes: int
    """Parameters and buffers that nodes keep: they exist anyway."""
    input_bytes: int
    """The part of `saved_bytes` that the program held before the forward: batches, targets."""
    unknown: tuple[Unknown, ...]
    """Saved tensors whose size is unknown without unpacking them; no figure includes them."""
    by_module: tuple[ModuleBytes, ...]
    by_line: tuple[LineBytes, ...]
    storages: tuple[StorageUse, ...]
    """Parameters and buffers included; the largest first."""
    compiled: tuple[CompiledBytes, ...] = ()
    rank: int | None = None
    """Of which rank of a job all of the above is; None for a program of one process."""
    job: JobMemory | None = None
    """All ranks of the job, if there are several; None if one of them was asked for."""


def memory_document(capture: Capture, graph: Graph, job: JobMemory | None = None) -> MemoryDocument:
    """Everything about one graph of a capture, and about the job that it belongs to."""
    memory = memory_of(graph)
    return MemoryDocument(
        saved_bytes=memory.saved_bytes,
        parameter_bytes=memory.parameter_bytes,
        input_bytes=memory.input_bytes,
        unknown=memory.unknown,
        by_module=tuple(
            ModuleBytes(module.path, module.class_name, module.calls, module.bytes, module.own_bytes)
            for module in by_module(graph, memory)
        ),
        by_line=tuple(_line(capture, group) for group in by_line(memory)),
        storages=memory.storages,
        compiled=tuple(map(_compiled, compiled_memory(graph))),
        rank=None if capture.rank is None else capture.rank.number,
        job=job,
    )


def _compiled(each: CompiledMemory) -> CompiledBytes:
    lines = (
        RecomputedLine(file or None, line or None, dict(counts)) for (file, line), counts in each.recomputed.items()
    )
    recomputed = tuple(lines) if each.is_known else None
    return CompiledBytes(
        each.function,
        each.backend,
        each.calls,
        each.kept_bytes,
        each.uncompiled_bytes,
        recomputed,
        each.is_guessed,
    )


def _line(capture: Capture, group: Group) -> LineBytes:
    file, line = group.key if group.key else (None, None)
    return LineBytes(
        None if file is None else str(file),
        None if line is None else int(line),
        source_text(capture, group.key),
        group.bytes,
        group.shared_bytes,
        group.storages,
    )


def source_text(capture: Capture, key: tuple[str | int, ...]) -> str:
    """The line of source for a key of `by_line`; empty if it was not recorded."""
    if len(key) != 2:
        return ""
    file, line = key
    return text_at(capture.sources, Location(str(file), int(line))).strip()


def memory_json(capture: Capture, graph: Graph, job: JobMemory | None = None) -> str:
    """The document as text."""
    return json_text(memory_document(capture, graph, job))


def memory_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return msgspec.json.schema(MemoryDocument)
