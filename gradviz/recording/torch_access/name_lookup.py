"""Looks up the names of torch in the table in `capabilities`.

A name begins with its owner: ``torch.`` and a module, or ``Tensor.``, ``Storage.``, ``Node.``, ``SavedTensor.`` and
similar for attributes of objects.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from operator import attrgetter, methodcaller
from types import ModuleType
from typing import Any


def find(path: str) -> Any:
    """The object of torch with this name; None if there is none, or if its module is not loaded.

    This loads no module: reading one of torch's lazy modules as an attribute would load it.
    """
    owner, name = owner_of(path)
    return None if owner is None else _member(owner, name)


def owner_of(path: str) -> tuple[Any, str]:
    """The module or object that owns the last part of a name (None if there is none), and that part."""
    *parts, name = path.split(".")
    owner: Any = sys.modules.get(parts[0])
    for place, part in enumerate(parts[1:], start=2):
        module = sys.modules.get(".".join(parts[:place]))
        owner = module if module is not None else _member(owner, part)
    return owner, name


def is_loaded(module: str) -> bool:
    """Whether the program has loaded that module, to its end."""
    loaded = sys.modules.get(module)
    return loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False)


def _member(owner: Any, name: str) -> Any:
    if isinstance(owner, ModuleType):
        contents = vars(owner)
        is_setting = name in contents.get("_config", ())  # torch keeps those of a module of settings there
        return getattr(owner, name) if is_setting else contents.get(name)
    return getattr(owner, name, None)


def attribute(path: str) -> Callable[[Any], Any]:
    """Reads that attribute of an object; raises `AttributeError` where it has none."""
    return attrgetter(path.rpartition(".")[2])


def method(path: str) -> Callable[[Any], Any]:
    """Calls that method of an object, without arguments; raises `AttributeError` where it has none."""
    return methodcaller(path.rpartition(".")[2])


def attributes_like(path: str, owner: Any) -> list[str]:
    """Names of the attributes of `owner` that begin with the last part of `path`."""
    beginning = path.rpartition(".")[2]
    kind: type = type(owner)
    if kind.__flags__ & _MADE_BY_PYTHON:
        return [name for name in dir(owner) if name.startswith(beginning)]
    return list(_names_beginning(beginning, kind))


_MADE_BY_PYTHON = 1 << 9
"""Set in ``__flags__`` of classes that can get further attributes, as can their objects (``Py_TPFLAGS_HEAPTYPE``)."""


@cache
def _names_beginning(beginning: str, kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith(beginning))


def tensor_attribute(name: str) -> Callable[[Any], Any]:
    """Reads an attribute of any tensor as torch defines it, even if a subclass overrides it."""
    tensor = find("torch.Tensor")
    found = next((vars(kind)[name] for kind in tensor.__mro__ if name in vars(kind)), None)
    if found is None:
        raise AttributeError(f"torch's tensors have no {name}")
    return found.__get__  # type: ignore[no-any-return]
