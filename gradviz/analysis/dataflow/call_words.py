"""The words for calls in findings, and the lines of the program that made them.

>>> [short_name(each) for each in ("torch.Tensor.detach", "Square.apply", "torch.Tensor.__setitem__")]
['detach', 'Square.apply', 'assigning to its elements']
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import cache
from itertools import chain
from pathlib import PurePath

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location, location_of_line
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite
from gradviz.graph.query.own_line import own_lines_around
from gradviz.graph.traversal import scopes_around

_OPERATORS = {
    "__setitem__": "assigning to its elements",
    "__getitem__": "indexing",
    "data.__set__": "assigning to .data",
}
_SPELLINGS = {
    "truediv": "div", "rtruediv": "div", "rdiv": "div", "itruediv": "div", "divide": "div", "ipow": "pow",
    "rpow": "pow", "radd": "add", "iadd": "add", "rmul": "mul", "imul": "mul", "multiply": "mul", "rsub": "sub",
    "isub": "sub", "rmatmul": "matmul", "imatmul": "matmul", "true_divide": "div", "subtract": "sub", "negative": "neg",
    "absolute": "abs", "concatenate": "cat", "concat": "cat", "swapaxes": "transpose", "swapdims": "transpose",
    "moveaxis": "movedim", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne",
    "expit": "sigmoid", "_threshold": "threshold", "arccos": "acos", "vdot": "dot", "log_sigmoid": "logsigmoid",
    "floordiv": "floor_divide", "rfloordiv": "floor_divide", "ifloordiv": "floor_divide",
}  # fmt: skip
"""Other spellings of an operation: the methods of operators, and synonyms."""


def operation(call: Call) -> str:
    """``relu``, ``Adam.step``, or ``assigning to its elements``."""
    if call.kind in ("step", "zero_grad"):
        return ".".join(call.function.split(".")[-2:])
    return short_name(call.function)


def short_name(function: str) -> str:
    """The name of a call in a program: ``detach``; a custom function's class, an operator in words."""
    method = function.removeprefix("torch.Tensor.")
    if method in _OPERATORS:
        return _OPERATORS[method]
    owner, _, name = function.rpartition(".")
    return f"{owner.rpartition('.')[2]}.apply" if name == "apply" else name


DIFFERENCES = frozenset({"sub", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
"""Functions of two tensors that subtract one from the other, by their plain names."""
ERRORS_OF_VALUES = DIFFERENCES - {"l1_loss"}
"""Those of them with which the values of states are learned."""


@cache
def plain_name(function: str) -> str:
    """The name of the function without affixes: ``div`` for ``torch.Tensor.__rtruediv__`` and ``torch.Tensor.div_``."""
    name = function.rpartition(".")[2]
    name = name.strip("_") if name.startswith("__") else name.rstrip("_")
    return _SPELLINGS.get(name, name)


def calls_named(flow: Dataflow, names: Container[str]) -> Iterator[tuple[int, Call]]:
    """The calls of functions with these plain names, in order, each behind its row; no other call is looked at."""
    rows = chain.from_iterable(flow.rows_of_function(each) for each in flow.functions if plain_name(each) in names)
    return ((row, flow.log.calls[row]) for row in sorted(rows))


def single_name(call: Call) -> str:
    """What a call does to each tensor that it takes: ``add`` also for ``torch._foreach_add``, which takes lists."""
    return plain_name(call.function).removeprefix("_foreach_")


def call_words(call: Call) -> str:
    """The name of the called function, as users know it: ``div()``, or the name of a custom function."""
    return call.function.removesuffix(".apply") if call.kind == "custom" else f"{plain_name(call.function)}()"


def at_line(site: CallSite | Location | None) -> str:
    """`` at line 15``; empty if the line is unknown."""
    return "" if site is None else f" at line {site.line}"


def at_line_beside(line: Location | None, told: Location | None) -> str:
    """`` at line 12``, or `` in models.py:12`` in a finding that stands in another file."""
    if line is None or told is None or line.file == told.file:
        return at_line(line)
    return f" in {PurePath(line.file).name}:{line.line}"


def is_in_library(flow: Dataflow, row: int) -> bool:
    """Whether the code that made a call is not the user's own: `location_of_call` is the line that led there."""
    site = flow.log.calls[row].call_site
    return site is not None and flow.log.call_sites[site].is_library


def location_of_call(flow: Dataflow, row: int) -> Location | None:
    """The user's own line that made a call of the log."""
    return location_of_line(flow.line_of(row))


def two_lines(flow: Dataflow, edited: int, shown: int) -> tuple[Location | None, Location | None]:
    """The line of a call, and that of another one; None for the other one where it is on the same line."""
    location, other = location_of_call(flow, edited), location_of_call(flow, shown)
    return location, other if other != location else None


# -- callers -----------------------------------------------------------------------------------------------------------


def callers(flow: Dataflow, call: int) -> Iterator[CallSite]:
    """The user's own lines from which a call was made, innermost first."""
    sites = flow.log.call_sites
    return (sites[site] for site in own_lines_around(sites, flow.log.calls[call].call_site))


def line_in_function_of(flow: Dataflow, call: int, other: int) -> CallSite | None:
    """The line from which a call was made, in the innermost function that also made another call.

    A value that one function computes and keeps for later is best detached there, whatever that function calls for it.
    """
    functions = {(line.file, line.function) for line in callers(flow, other)}
    return _first(callers(flow, call), lambda line: (line.file, line.function) in functions) or flow.line_of(call)


def line_in_class_of(flow: Dataflow, call: int, other: int) -> CallSite | None:
    """The line from which a call was made, in another method of the class that made another call.

    The object keeps what one of its methods computes and another one uses.
    """
    own, users = list(callers(flow, call)), list(callers(flow, other))
    functions = {(line.file, line.function) for line in users}
    classes = {(line.file, class_of(line)) for line in users if class_of(line)}
    return _first(
        iter(own), lambda line: (line.file, class_of(line)) in classes and (line.file, line.function) not in functions
    )


def line_that_gave(flow: Dataflow, call: int, maker: int) -> CallSite | None:
    """The line that gave a tensor to the function that made a call; None if that function computed it itself."""
    lines = list(callers(flow, call))
    own = {(line.file, function_of(line)) for line in lines[:1]}
    if not own.isdisjoint((line.file, function_of(line)) for line in callers(flow, maker)):
        return None
    return _first(iter(lines), lambda line: (line.file, function_of(line)) not in own)


def function_of(line: CallSite) -> str:
    """The function that a line is in, without the comprehensions inside, which Python 3.11 calls like functions."""
    name = line.function
    while name.endswith(_COMPREHENSIONS):
        name = name.rpartition("<")[0].removesuffix(".").removesuffix("<locals>").removesuffix(".")
    return name or "<module>"


_COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")


def class_of(line: CallSite) -> str:
    """The class of the method that a line is in, also for functions nested in the method; "" if Python does not say."""
    outer, _, own = line.function.rpartition(".<locals>.")
    method = outer if own.startswith("<") else line.function
    return method.rpartition(".")[0]


def line_outside_modules(flow: Dataflow, call: int) -> CallSite | None:
    """The line that received the result of a call; if modules made it, the line that called the outermost module."""
    sites = flow.log.call_sites
    site = flow.log.calls[call].call_site
    found, is_just_outside = None, False
    while site is not None:
        if sites[site].is_library:
            is_just_outside |= sites[site].function.endswith("Module._call_impl")
        elif is_just_outside:
            found, is_just_outside = sites[site], False
        site = sites[site].caller
    return found or _line_outside_classes(flow, call)


def _line_outside_classes(flow: Dataflow, call: int) -> CallSite | None:
    """The same by the classes of the modules around a call: the record may have no line of torch between the lines of
    two modules."""
    scopes = flow.log.scopes
    classes = {scopes[scope].class_name for scope in scopes_around(scopes, flow.log.calls[call].scope)}
    return _first(callers(flow, call), lambda line: class_of(line) not in classes) or flow.line_of(call)


def _first(lines: Iterator[CallSite], fits: Callable[[CallSite], bool]) -> CallSite | None:
    return next((line for line in lines if fits(line)), None)
