"""Finds which tensors with a graph are still alive, which variable holds them, and which line stored them there.

A graph lives as long as something holds a tensor at its end. The holder is found by following the program's variables
and what they hold; Python's garbage collector would have to search every object. Python does not record who appended to
a list, so the lines that store something are found in the source: ``self.maps.append(a)``,
``features[name].append(output)``.
"""

from __future__ import annotations

import ast
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
from gradviz.recording.run.parsed_files import nodes_of
from gradviz.recording.torch_access.modules import own_buffers, own_modules

_MAX_LOOKS = 50_000
_MAX_DEPTH = 8


class LivingTensors:
    """Searches at some moments of a run."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self.moments: list[Row] = []
        """The newest row at each moment."""

    def note_living(self, namespaces: Iterable[Mapping[str, Any]]) -> None:
        """Note which tensors with a graph are alive, and which of them these variables hold.

        What a list or an object held at the moment before, it may hold still, although no variable leads to it now:
        when a function that runs a library's training has returned, its model waits for Python's garbage collector.
        """
        newest = self._writer.rows.newest
        if newest is None:
            return
        newest.is_moment = True
        self.moments.append(newest)
        living = [known for known in self._writer.uses.tensors.living() if _has_history(known)]
        for known in living:
            known.alive_after = newest
        held_now: dict[int, Holder] = {}
        for holder, tensor in _held(namespaces) if living else ():
            found = self._writer.uses.tensors.find(tensor)
            if found is not None and found.alive_after is newest:
                held_now.setdefault(id(found), holder)
        for known in living:
            known.holder = held_now.get(id(known)) or _if_inside(known.holder)


def _if_inside(holder: Holder | None) -> Holder | None:
    return None if holder is None or holder.path.isidentifier() else holder


def _has_history(known: KnownTensor) -> bool:
    """True also for inputs that require grad: a graph that hangs on their ``.grad`` lives as long as they do."""
    return known.role != "parameter" and known.status[0]


def _held(namespaces: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Holder, torch.Tensor]]:
    """Tensors that variables lead to, also through containers and objects; the shortest path to each comes first."""
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
        elif depth < _MAX_DEPTH and id(value) not in seen:
            seen.add(id(value))
            inside = in_module or issubclass(type(value), torch.nn.Module)
            waiting.extend((f"{path}{part}", inner, inside, depth + 1) for part, inner in _parts(value))


def _is_opened(name: str, value: Any) -> bool:
    is_of_python = name.startswith("__") or not name.isidentifier()
    return not is_of_python and not issubclass(type(value), (type, ModuleType, *_ATOMS))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, with the suffix of its path. Reads stored values only, so no code of the program runs."""
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
    return ((part, inner) for part, inner in islice(parts, MAX_ELEMENTS) if not issubclass(type(inner), _ATOMS))


_ATOMS = (int, float, complex, str, bytes, type(None), type, ModuleType, BuiltinFunctionType)
_KEYS = (int, str, float, bool)
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))


Line = tuple[str, int]

_PUTTING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "setdefault", "push", "put"})
_CONTAINER = re.compile(r"(?:^|\.)([^\W\d]\w*)((?:\[[^\]]*\])+)")
"""In ``agent.saved['log_probs'][3]``: the name of what is indexed, and all keys."""
_KEY = re.compile(r"\[([^\]]*)\]")


class _Store(NamedTuple):
    """A statement that stores something in a container, or in a container inside it."""

    line: Line
    level: int
    """The number of keys between the container's name and the stored value: 2 for ``saved[name].append(a)``."""
    key: str
    """The first key as written, if it is a string; empty if it is not known."""


class StoringLines:
    """Lines that store something, in these files, which are read on first use."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = tuple(files)

    def into(self, path: str) -> tuple[Line, ...]:
        """Lines that store something in the innermost list on a path to a value; empty if no line names it."""
        for name, written in reversed(_CONTAINER.findall(path)):
            keys = _KEY.findall(written)
            level = max((index for index, key in enumerate(keys, 1) if key.isdigit()), default=len(keys))
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
    """Statements that store something in a container: node, expression of the container, and whether it is a call."""
    for node in nodes_of(file) or ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PUTTING:
            yield node, node.func.value, True
        elif isinstance(node, ast.Assign):
            yield from ((node, each, False) for each in node.targets if isinstance(each, ast.Subscript))
        elif isinstance(node, ast.AugAssign):
            yield node, node.target, False


def _named(receiver: ast.expr) -> tuple[str, list[str]]:
    """The name of a container and the keys into it, empty unless they are strings: ``saved``, ``'log_probs'``.

    The arguments of ``saved.setdefault(name, [])`` and ``saved.get(name)`` are keys as well.
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
