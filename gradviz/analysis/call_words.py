"""What a finding calls the calls and tensors of a log, and the lines that it names for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gradviz.analysis.dataflow import Dataflow
from gradviz.analysis.finding import Place
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite

_OPERATORS = {
    "__setitem__": "assigning to its elements",
    "__getitem__": "indexing",
    "data.__set__": "assigning to .data",
}
_MOST_NAMES = 3


def operation(call: Call) -> str:
    """``relu``, ``Adam.step``, or ``assigning to its elements``."""
    name = call.function.removeprefix("torch.Tensor.")
    if name in _OPERATORS:
        return _OPERATORS[name]
    words = name.split(".")
    return ".".join(words[-2:]) if call.kind in ("step", "custom", "zero_grad") else words[-1]


def tensor_name(flow: Dataflow, tensor: int) -> str:
    """Its variable or parameter, else what made it: ``the result of relu at line 15``."""
    known = flow.log.tensors[tensor]
    if known.names:
        return known.names[0]
    if known.producer is None:
        shape = ", ".join(str(size) for size in known.facts.shape)
        return f"a tensor of shape ({shape})"
    return f"the result of {operation(flow.log.calls[known.producer])}{at_line(flow.line_of(known.producer))}"


def at_line(site: CallSite | None) -> str:
    """`` at line 15``; nothing where the line is not known."""
    return "" if site is None else f" at line {site.line}"


def place(site: CallSite | None) -> Place | None:
    """The line as a finding names it."""
    return None if site is None else Place(site.file, site.line)


def names_of(flow: Dataflow, tensors: Iterable[int]) -> tuple[str, ...]:
    """The full names of those that have one."""
    return tuple(known.names[0] for tensor in tensors if (known := flow.log.tensors[tensor]).names)


def listed(names: Iterable[str]) -> str:
    """``a, b, c and 4 others``."""
    known = list(names)
    if len(known) <= _MOST_NAMES + 1:
        return " and ".join(filter(None, (", ".join(known[:-1]), known[-1]))) if known else ""
    return f"{', '.join(known[:_MOST_NAMES])} and {len(known) - _MOST_NAMES:,} others"


# -- lines further up --------------------------------------------------------------------------------------------------


def callers(flow: Dataflow, call: int) -> Iterator[CallSite]:
    """The reader's own lines from which a call was made, innermost first."""
    sites = flow.log.call_sites
    site = flow.log.calls[call].call_site
    while site is not None:
        if not sites[site].is_library:
            yield sites[site]
        site = sites[site].caller


def line_in_function_of(flow: Dataflow, call: int, other: int) -> CallSite | None:
    """The line from which a call was made, in the innermost function from which another one was made, too.

    A value that one function computed and keeps for later is best cut off there, whatever it called to do so.
    """
    functions = {(line.file, line.function) for line in callers(flow, other)}
    return _first(callers(flow, call), lambda line: (line.file, line.function) in functions) or flow.line_of(call)


def line_outside_modules(flow: Dataflow, call: int) -> CallSite | None:
    """The line that got the result of a call: where it was made in modules, the one that called the outermost."""
    sites = flow.log.call_sites
    site = flow.log.calls[call].call_site
    found = flow.line_of(call)
    is_just_outside = False
    while site is not None:
        if sites[site].is_library:
            is_just_outside |= sites[site].function.endswith("Module._call_impl")
        elif is_just_outside:
            found, is_just_outside = sites[site], False
        site = sites[site].caller
    return found


def _first(lines: Iterator[CallSite], fits: Callable[[CallSite], bool]) -> CallSite | None:
    return next((line for line in lines if fits(line)), None)
