"""Describes functions of the program that torch calls: custom backwards and hooks.

Their results decide gradients, but torch calls them where no function mode sees it. So the lines on which they return a
value are read from their code.
"""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Iterator
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from gradviz.graph.call_log import Definition
from gradviz.graph.model import CustomFunction
from gradviz.recording.run.file_kinds import is_torch_file
from gradviz.recording.run.line_attribution import function_name


class Callback(NamedTuple):
    """The code of a function of the program, and the decorators around it."""

    code: CodeType
    name: str
    """Its qualified name, which Python 3.10 does not keep with the code."""
    decorators: tuple[str, ...] = ()
    """Names, the outermost first."""
    forward: tuple[CodeType, ...] = ()
    """For a custom function's backward: the code that sets attributes on its ``ctx``."""


def callback_of(function: Any) -> Callback | None:
    """The function inside its decorators; None if it is not written in Python."""
    decorators = []
    while hasattr(function, "__wrapped__"):
        decorators.append(_maker_of(function))
        function = function.__wrapped__
    own = getattr(function, "func", getattr(function, "__func__", function))
    if not hasattr(own, "__code__"):
        own = getattr(type(own), "__call__", None)  # noqa: B004  only its code is wanted
    code = getattr(own, "__code__", None)
    return Callback(code, own.__qualname__, tuple(decorators)) if isinstance(code, CodeType) else None


def backward_of(function: Any) -> Callback | None:
    """The backward of a custom function."""
    backward = callback_of(getattr(function, "backward", None))
    if backward is None:
        return None
    before = [callback_of(getattr(function, name, None)) for name in ("forward", "setup_context")]
    return backward._replace(forward=tuple(each.code for each in before if each is not None))


def custom_function_of(function: type, node_name: str) -> CustomFunction | None:
    """The source range of a custom function, from its ``class`` line to the end of its last method.

    None if it is in no file, and for the functions that torch makes of operators which a program registers. It is read
    from the code objects, because `inspect.getsource` would parse the whole file.
    """
    methods = ("forward", "setup_context", "backward")
    # What it inherits is written elsewhere.
    own = [name for name in methods if name in vars(function)] or methods
    found = [callback_of(getattr(function, name, None)) for name in own]
    codes = [each.code for each in found if each is not None]
    file = codes[-1].co_filename if codes else ""
    spans = [(code.co_firstlineno, _last_line(code)) for code in codes if code.co_filename == file]
    lines = linecache.getlines(file)
    if not spans or is_torch_file(file) or len(lines) < max(last for _, last in spans):
        return None
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    heads = (number for number in range(first, 0, -1) if lines[number - 1].lstrip().startswith("class "))
    return CustomFunction(node_name, function.__qualname__, file, next(heads, first), last)


def _last_line(code: CodeType) -> int:
    return max([code.co_firstlineno, *(line for _, _, line in code.co_lines() if line)])


def _maker_of(wrapper: Any) -> str:
    """The function that made a wrapper: ``once_differentiable`` for ``once_differentiable.<locals>.wrapper``."""
    code = getattr(wrapper, "__code__", None)
    if not isinstance(code, CodeType):
        return type(wrapper).__name__
    # Its own name is that of the function it wraps, and Python 3.10 keeps no other qualified one.
    makers = (name for name, value in wrapper.__globals__.items() if code in _constants_of(value))
    return next(makers, None) or function_name(code).partition(".")[0]


def _constants_of(function: Any) -> tuple[Any, ...]:
    return function.__code__.co_consts if isinstance(function, FunctionType) else ()


def definition_of(callback: Callback) -> Definition:
    """Where it is defined, and on which lines it returns a value."""
    code = callback.code
    last = _last_line(code)
    return Definition(
        name=callback.name,
        file=code.co_filename,
        first_line=code.co_firstlineno,
        last_line=last,
        returns=tuple(dict.fromkeys(_lines_giving_back(code))),
        in_place=_lines_changing(code),
        attributes=tuple(_lines_of_attributes(callback)),
        once_differentiable_line=_line_of_decorator(callback, "once_differentiable", last),
    )


def _lines_giving_back(code: CodeType) -> Iterator[int]:
    """Lines of ``return`` with a value. Falling off the end, and a bare ``return``, load None just before."""
    lines = [(start, end, line) for start, end, line in code.co_lines() if line]
    before: dis.Instruction | None = None
    for instruction in dis.get_instructions(code):
        is_constant = instruction.opname == "RETURN_CONST" and instruction.argval is not None
        loads_none = before is not None and before.opname == "LOAD_CONST" and before.argval is None
        if is_constant or (instruction.opname == "RETURN_VALUE" and not loads_none):
            yield from (line for start, end, line in lines if start <= instruction.offset < end)
        before = instruction


def _lines_changing(code: CodeType) -> tuple[int, ...]:
    lines = [(start, end, line) for start, end, line in code.co_lines() if line]
    changing: list[int] = []
    assigning: list[int] = []
    for instruction in dis.get_instructions(code):
        found = (
            changing if _changes_in_place(instruction) else assigning if instruction.opname == "STORE_SUBSCR" else []
        )
        found += [line for start, end, line in lines if start <= instruction.offset < end]
    return tuple(dict.fromkeys(changing or assigning))


def _changes_in_place(instruction: dis.Instruction) -> bool:
    if instruction.opname.startswith("INPLACE_") or instruction.opname == "BINARY_OP":
        return instruction.opname != "BINARY_OP" or instruction.argrepr.endswith("=")
    name = instruction.argval if instruction.opname in ("LOAD_METHOD", "LOAD_ATTR") else ""
    return isinstance(name, str) and name.endswith("_") and not name.endswith("__")


def _lines_of_attributes(callback: Callback) -> Iterator[tuple[str, int]]:
    for code in callback.forward:
        lines = [(start, end, line) for start, end, line in code.co_lines() if line]
        for instruction in dis.get_instructions(code) if code.co_filename == callback.code.co_filename else ():
            if instruction.opname == "STORE_ATTR":
                line = next(line for start, end, line in lines if start <= instruction.offset < end)
                yield instruction.argval, line


def _line_of_decorator(callback: Callback, name: str, last: int) -> int | None:
    """The line of a decorator; the function's first line if there is no source."""
    if name not in callback.decorators:
        return None
    first = callback.code.co_firstlineno
    text = dedent("".join(linecache.getlines(callback.code.co_filename)[first - 1 : last]))
    try:
        function = ast.parse(text).body[0]
    except (SyntaxError, IndexError):
        return first
    from_within = len(callback.decorators) - callback.decorators.index(name)
    decorators = getattr(function, "decorator_list", [])
    return first if from_within > len(decorators) else first + decorators[-from_within].lineno - 1
