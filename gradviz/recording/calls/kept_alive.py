"""Which tensors with a history are still alive at some moments of a run, and which variable holds them.

A graph lives as long as somebody holds a tensor at its end. Who does is found by looking from the program's variables
down into what they hold; nothing is asked of Python's garbage collector, which would have to look at every object.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

import torch

from gradviz.graph.call_log import Holder
from gradviz.recording.calls.known_tensors import KnownTensor
from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import Row
from gradviz.recording.forward.tensors_in_containers import MAX_ELEMENTS, closure_variables, stored_attributes
from gradviz.recording.torch_access.modules import own_buffers, own_modules

_MAX_LOOKS = 50_000
_DEEPEST = 8


class LivingTensors:
    """Looks at moments when asked to."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self.moments: list[Row] = []
        """The newest row at each of them."""

    def look(self, namespaces: Iterable[Mapping[str, Any]]) -> None:
        """Note which tensors with a history are alive, and which of them these variables hold."""
        newest = self._writer.rows.newest
        if newest is None:
            return
        self.moments.append(newest)
        living = [known for known in self._writer.uses.tensors.living() if _has_history(known)]
        for known in living:
            known.alive_after, known.holder = newest, None
        for holder, tensor in _held(namespaces) if living else ():
            found = self._writer.uses.tensors.find(tensor)
            if found is not None and found.alive_after is newest and found.holder is None:
                found.holder = holder


def _has_history(known: KnownTensor) -> bool:
    """Also inputs that require grad: a graph that hangs on their ``.grad`` lives with them."""
    return known.role == "tensor" and known.status[0]


def _held(namespaces: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Holder, torch.Tensor]]:
    """Tensors that variables, and what they hold, lead to; the shortest way to each first."""
    waiting: deque[tuple[str, Any, bool, int]] = deque()
    for namespace in namespaces:
        waiting.extend((name, value, False, 0) for name, value in list(namespace.items()) if _is_opened(name, value))
    seen: set[int] = set()
    looks = 0
    while waiting and looks < _MAX_LOOKS:
        looks += 1
        path, value, in_module, depth = waiting.popleft()
        if issubclass(type(value), torch.Tensor):
            yield Holder(path, in_module), value
        elif depth < _DEEPEST and id(value) not in seen:
            seen.add(id(value))
            inside = in_module or issubclass(type(value), torch.nn.Module)
            waiting.extend((f"{path}{way}", inner, inside, depth + 1) for way, inner in _parts(value))


def _is_opened(name: str, value: Any) -> bool:
    is_of_python = name.startswith("__") or not name.isidentifier()
    return not is_of_python and not issubclass(type(value), (type, ModuleType, *_ATOMS))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, read past whatever its class computes: looking must not run the program's code."""
    kind = type(value)
    if issubclass(kind, dict):
        yield from _of_interest((f"[{key!r}]", inner) for key, inner in list(dict.items(value)) if type(key) in _KEYS)
    elif issubclass(kind, (list, tuple, set, frozenset, deque)):
        yield from _of_interest((f"[{number}]", inner) for number, inner in enumerate(list(value)))
    elif kind is FunctionType:
        yield from ((f".{name}", inner) for name, inner in closure_variables(value))
    elif issubclass(kind, torch.nn.Module):
        stored = vars(value)
        own = ((f".{name}", inner) for name, inner in list(stored.items()) if name not in _OF_EVERY_MODULE)
        tables = own_modules(value), own_buffers(value)
        children = ((f".{name}", inner) for table in tables for name, inner in table.items())
        yield from _of_interest(own)
        yield from _of_interest(children)
    elif not kind.__module__.startswith(("torch", "builtins")):
        yield from _of_interest((f".{name}", inner) for name, inner in list(stored_attributes(value).items()))


def _of_interest(parts: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    return ((way, inner) for way, inner in islice(parts, MAX_ELEMENTS) if not issubclass(type(inner), _ATOMS))


_ATOMS = (int, float, complex, str, bytes, type(None), type, ModuleType, BuiltinFunctionType)
_KEYS = (int, str, float, bool)
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))


Line = tuple[str, int]

_MAX_SOURCE_LINES = 20_000
"""Of one file; what is longer was written by a program."""
_PUTTING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "setdefault", "push", "put"})
_CONTAINER = re.compile(r"(?:^|\.)([^\W\d]\w*)((?:\[[^\]]*\])+)")
"""In ``agent.saved['log_probs'][3]``: the name of what is indexed, and all keys into it."""
_KEY = re.compile(r"\[([^\]]*)\]")


class _Store(NamedTuple):
    """A statement that puts something into a container, or into one that is in there."""

    line: Line
    level: int
    """How many keys lead from the container's name to what is put there: 2 for ``saved[name].append(a)``."""
    key: str
    """The first of them, as it is written, where it is a text; empty where it is not known."""


class StoringLines:
    """Those of some files, which are read when they are first asked for."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = tuple(files)

    def into(self, path: str) -> tuple[Line, ...]:
        """Lines that put something into the innermost list on the way to a value; none where no line names it."""
        for name, written in reversed(_CONTAINER.findall(path)):
            keys = _KEY.findall(written)
            level = max((place for place, key in enumerate(keys, 1) if key.isdigit()), default=len(keys))
            stores = [each for each in self._by_name.get(name, ()) if each.level == level]
            fitting = [
                each.line for each in stores if not (each.key and keys[0].startswith("'")) or each.key == keys[0]
            ]
            if fitting:
                return tuple(dict.fromkeys(fitting))
        return ()

    @cached_property
    def _by_name(self) -> dict[str, list[_Store]]:
        found: dict[str, list[_Store]] = defaultdict(list)
        for file in self._files:
            for node, receiver, is_call in _stores(file):
                name, keys = _named(receiver)
                found[name].append(_Store((file, node.lineno), len(keys) + is_call, keys[0] if keys else ""))
        return found


def _stores(file: str) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr, bool]]:
    """Calls and assignments that put something into a container, each with the expression of that, and whether it is
    a call."""
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines) if len(lines) <= _MAX_SOURCE_LINES else "")
    except (SyntaxError, ValueError, RecursionError):
        return  # A notebook's magic commands, say.
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PUTTING:
            yield node, node.func.value, True
        elif isinstance(node, ast.Assign):
            yield from ((node, each, False) for each in node.targets if isinstance(each, ast.Subscript))
        elif isinstance(node, ast.AugAssign):
            yield node, node.target, False


def _named(receiver: ast.expr) -> tuple[str, list[str]]:
    """The name of a container, and the keys into it, empty for those that are no text: ``saved``, ``'log_probs'``.

    ``saved.setdefault(name, [])`` and ``saved.get(name)`` are keys, too.
    """
    keys: list[str] = []
    while isinstance(receiver, (ast.Subscript, ast.Call)):
        if isinstance(receiver, ast.Subscript):
            keys.append(_text(receiver.slice))
            receiver = receiver.value
        else:
            keys.append("")
            receiver = receiver.func.value if isinstance(receiver.func, ast.Attribute) else receiver.func
    name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
    return name, keys[::-1]


def _text(key: ast.expr) -> str:
    return repr(key.value) if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
