"""Trainable tensors that a module holds in another way than as a parameter or in a child module."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from types import FunctionType, MethodType
from typing import Any

import torch

from gradviz.recording.forward.module_tree import modules_inside
from gradviz.recording.forward.tensors_in_containers import MAX_DEPTH, MAX_ELEMENTS, closure_variables
from gradviz.recording.torch_access.distributed.sharded_parameters import is_flat_parameter
from gradviz.recording.torch_access.modules import own_parameters

_OWN_ATTRIBUTES = frozenset(torch.nn.Module().__dict__)


def hidden_tensors(module: torch.nn.Module, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Leaves that require grad in attributes of the module that ``parameters()`` does not search, with their names.

    They are in plain lists and dicts, or in modules inside these, or in objects of the program's own classes, such as
    dataclasses, or in functions that keep them: a ``partial()``, a closure, the bound method of a layer. Attributes
    are read from ``vars()``: reading must not run code of the user.
    """
    program = type(module).__module__.partition(".")[0]
    for attribute, value in list(vars(module).items()):
        if attribute not in _OWN_ATTRIBUTES:
            yield from (
                (name, tensor)
                for name, tensor in _tensors_in(value, f"{path}.{attribute}", program)
                if not is_flat_parameter(tensor)
            )


def _tensors_in(value: Any, name: str, program: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors in a value, with their names; in objects of classes only if these belong to the package `program`."""
    waiting = [(name, value, 0)]
    seen: set[int] = set()
    while waiting and len(seen) < MAX_ELEMENTS:
        index, each, depth = waiting.pop()
        kind = type(each)
        if id(each) in seen:
            continue
        if issubclass(kind, torch.Tensor):
            seen.add(id(each))
            yield index, each
        elif issubclass(kind, torch.nn.Module):
            seen.add(id(each))
            for path, inner in modules_inside(each, index):
                yield from (
                    (f"{path}.{own}", tensor) for own, tensor in own_parameters(inner).items() if tensor is not None
                )
        elif issubclass(kind, (list, tuple, dict, deque)) and depth < MAX_DEPTH:
            seen.add(id(each))
            pairs = list(islice(_elements_of(each), MAX_ELEMENTS))
            waiting.extend((f"{index}[{key!r}]", inner, depth + 1) for key, inner in reversed(pairs))
        elif depth < MAX_DEPTH and kind in (partial, FunctionType, MethodType):
            seen.add(id(each))
            waiting.extend((f"{index}{own}", inner, depth + 1) for own, inner in reversed(_kept_by_function(each)))
        elif depth < MAX_DEPTH and _is_plain_object(each, program):
            seen.add(id(each))
            attributes = list(vars(each).items())[:MAX_ELEMENTS]
            waiting.extend((f"{index}.{own}", inner, depth + 1) for own, inner in reversed(attributes))


def _elements_of(container: Any) -> Iterator[tuple[Any, Any]]:
    """The elements of a list or dict with their keys, read without code of its own class."""
    kind = type(container)
    if issubclass(kind, dict):
        return iter(dict.items(container))
    read = next(each for each in (list, tuple, deque) if issubclass(kind, each))
    return enumerate(read.__iter__(container))


def _kept_by_function(function: Any) -> list[tuple[str, Any]]:
    """What something that is called holds, with what to write behind its own name to get there."""
    if type(function) is partial:
        keywords = ((f".keywords[{key!r}]", inner) for key, inner in function.keywords.items())
        arguments = ((f".args[{at}]", inner) for at, inner in enumerate(function.args))
        return [*arguments, *keywords, (".func", function.func)]
    if type(function) is MethodType:
        return [(".__self__", function.__self__)]
    return [(f".{name}", inner) for name, inner in closure_variables(function)]


def _is_plain_object(value: Any, program: str) -> bool:
    """Whether it is an object of a class that the program itself defines, such as a dataclass."""
    kind = type(value)
    is_own = kind.__module__.partition(".")[0] == program != "torch"
    return is_own and type(getattr(value, "__dict__", None)) is dict and not issubclass(kind, torch.optim.Optimizer)
