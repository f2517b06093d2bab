"""The words of a memory report."""

from __future__ import annotations

from collections.abc import Sequence

from gradviz.analysis.memory.allocator_balance import Balance
from gradviz.analysis.memory.checkpointing import Checkpointing
from gradviz.analysis.memory.compiled_memory import CompiledMemory
from gradviz.analysis.memory.kept_memory import ChangedSince, StorageUse, Unknown, keeps_unknown, kept_bytes
from gradviz.analysis.memory.remedies import Repeated, SavedTwice
from gradviz.graph.model import Graph
from gradviz.graph.number_words import byte_words
from gradviz.graph.query.operation_names import stem_of
from gradviz.graph.query.own_line import line_words_of
from gradviz.graph.saved_tensors import OlderGraph, TorchObjects
from gradviz.rendering.words.common_words import counted, listed

_MAX_VARIABLES = 4


def tensor_words(use: StorageUse) -> str:
    """``[8, 64] float32``: the first tensor that is saved from a storage."""
    return f"[{', '.join(map(str, use.shape))}] {use.dtype}"


def kept_words(graph: Graph, nodes: Sequence[int]) -> str:
    """``1.2 MiB + ?``: what some nodes keep together; ``?`` if some of it has an unknown size."""
    size = kept_bytes(graph, nodes)
    return " + ".join([byte_words(size)] * bool(size) + ["?"] * keeps_unknown(graph, nodes))


def location_words(key: Sequence[str | int | None]) -> str:
    """``train.py:41``, from a key of `by_line`."""
    if len(key) != 2 or key[0] is None:
        return "unknown line"
    return line_words_of(str(key[0]), int(key[1] or 0))


def first_location_words(use: StorageUse) -> str:
    """The line that keeps it first."""
    return location_words((use.held_by[0].file, use.held_by[0].line))


def module_words(path: str, depth: int) -> str:
    """The last name of a path, indented; a number comes with the name of its list: ``h.0``."""
    parts = path.split(".")
    is_numbered = parts[-1].isdigit() or parts[-1] == "*"
    return "  " * depth + (".".join(parts[-2:]) if is_numbered else parts[-1] or "(outside modules)")


def times(calls: int) -> str:
    """`` ×3``; empty for a single call."""
    return f" ×{calls}" if calls > 1 else ""


def compiled_words(each: CompiledMemory) -> list[str]:
    """What a compiled function keeps, and the lines with what it computes again."""
    of = f"{each.function}()" if each.function else "compiled code"
    calls = f" in {each.calls} calls" if each.calls > 1 else ""
    keeps, instead = _keeps_words(each.kept_bytes), byte_words(each.uncompiled_bytes)
    first = f"{of}, by {each.backend}{calls}: {keeps}; without compilation it would be {instead}"
    guessed = [_GUESSED] * each.is_guessed
    if not each.is_known:
        return [f"{first}; what it computes again is not known: torch took it from its cache", *guessed]
    if not each.operations:
        return [f"{first}; nothing is computed again in backward", *guessed]
    lines = [
        f"{counts.total():>10,}  {line_words_of(file, line) if line else 'at lines that are not known'}: "
        + ", ".join(f"{name} x{count}" if count > 1 else name for name, count in counts.most_common())
        for (file, line), counts in sorted(each.recomputed.items(), key=lambda entry: -entry[1].total())
    ]
    return [f"{first}; {counted(each.operations, 'operation')} computed again in backward", *lines, *guessed]


_GUESSED = "torch does not tell which operation each result is of: lines and modules go by size, and may be others"


def _keeps_words(kept: int | None) -> str:
    if kept is None:
        return "torch does not show which of its results it keeps"
    return f"keeps {byte_words(kept)} of its results"


def balance_words(balance: Balance) -> list[str]:
    """The reading of an allocator and what explains it, one line for each part."""
    reading = balance.reading
    parts = [
        (balance.saved, "kept by nodes, and made by forward"),
        (balance.in_variables, "made by forward, and kept by variables only"),
        (balance.objects, _objects_words(balance.reading.objects)),
        (balance.rounding, f"rounded up to blocks of {reading.block} bytes"),
        (-reading.freed, "older tensors that were freed, such as old gradients"),
        (balance.rest, _rest_words(balance)),
    ]
    retained = byte_words(balance.retained)
    first = f"{reading.device}: {reading.allocator} gave out {retained} more since forward began"
    return [first, *(f"{byte_words(size):>10}  {what}" for size, what in parts if size)]


def _objects_words(objects: Sequence[TorchObjects]) -> str:
    counts = {each.what: each.count for each in objects}
    tensors = sum(counts.get(sort, 0) for sort in ("tensors", "views", "results"))
    parts = ((counts.get("nodes", 0), "node"), (tensors, "tensor"), (counts.get("storages", 0), "storage"))
    listed = ", ".join(counted(count, what) for count, what in parts if count)
    return f"torch's objects, without their data: {listed}, each at what one takes in this process"


def _rest_words(balance: Balance) -> str:
    share = f", {abs(balance.rest) / balance.retained:.1%}" if balance.retained > 0 else ""
    if 0 > balance.rest >= -balance.objects:
        return f"counted too much{share}: small objects that took memory which malloc had ready"
    if balance.rest < 0:
        return f"counted too much{share}: older saved tensors that no variable held"
    if balance.reading.device != "cpu":
        return f"unexplained{share}: tensors that gradviz cannot see, and what libraries allocate at first use"
    modules = balance.reading.imported_modules
    imported = f", {counted(modules, 'imported module')}" if modules else ""
    first = "; --backward 3 shows a later call, without it" if balance.rest > balance.retained // 50 else ""
    return f"unexplained{share}: what libraries allocate at first use{imported}{first}"


def checkpointing_words(entry: Checkpointing, operations: int) -> str:
    """What checkpointing of some modules would change."""
    size, peak = byte_words(entry.saved_bytes), byte_words(entry.largest_call)
    return (
        f"checkpoint {entry.path} ({entry.class_name}{times(entry.calls)}): at least {size} less, up to {peak} of it "
        f"back at a time; computes {entry.operations:,} of {operations:,} operations again"
    )


def repeated_words(repeated: Repeated) -> str:
    """Forward computations that are kept together, if one at a time might be enough."""
    each = byte_words(repeated.bytes // repeated.calls)
    called = (
        f"{repeated.path} was called {repeated.calls:,} times before this backward, which keeps {each} for each call"
    )
    if repeated.is_chain:
        return (
            f"{called}, each computed from the one before: shorter sequences, or .detach() every few calls on what "
            "is handed on, keep fewer of them; checkpoints around several calls compute them again instead"
        )
    return (
        f"{called}: a backward() after each call keeps one at a time; a loss that is only to be printed needs .item()"
    )


def older_graphs_words(older: Sequence[OlderGraph]) -> str:
    """Variables that keep older graphs."""
    names = [each.name if each.tensors == 1 else f"{each.name} ({each.tensors:,} tensors)" for each in older]
    holds = "holds a graph" if len(older) == 1 and older[0].tensors == 1 else "hold graphs"
    return (
        f"{listed(names, _MAX_VARIABLES)} {holds} from before that this backward does not free: .item() or .detach() "
        "lets go of it where only numbers are wanted"
    )


def changed_words(changed: ChangedSince) -> str:
    """A saved tensor that was changed in place, so that backward will refuse it."""
    location = location_words((changed.file, changed.line))
    return (
        f"{stem_of(changed.operation)}.{changed.slot} at {location}: saved at version {changed.saved_version}, "
        f"now at version {changed.version}"
    )


def saved_twice_words(copy: SavedTwice) -> str:
    """A copy that is kept in addition to its source."""
    location = location_words((copy.file, copy.line))
    return (
        f"saved twice: {stem_of(copy.operation)} at {location} keeps {byte_words(copy.bytes)}, {copy.what}, "
        "beside what it was made from"
    )


def small_view_words(use: StorageUse) -> str:
    """A large storage of which only a part is needed."""
    holder = use.held_by[0]
    return (
        f"{stem_of(holder.operation)}.{holder.slot} at {first_location_words(use)} sees "
        f"{byte_words(use.seen_bytes)} of a storage of {byte_words(use.bytes)}, and keeps all of it; "
        "a .clone() of the view would let the rest go"
    )


def unknown_words(entry: Unknown) -> str:
    """A saved tensor of unknown size."""
    slot = f".{entry.slot}" if entry.slot else ""
    return f"{stem_of(entry.operation)}{slot} at {location_words((entry.file, entry.line))}: {entry.why}"


def names_words(names: Sequence[str]) -> str:
    """``: x, y``, or empty."""
    return f": {', '.join(names[:4])}{', ...' if len(names) > 4 else ''}" if names else ""
