"""The doors through which names of the table in `capabilities` are looked up.

A name begins with where it is: ``torch.`` and a module, or ``Tensor.``, ``Storage.``, ``Node.``, ``SavedTensor.``
and the like for attributes that only an object tells.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter, methodcaller
from types import ModuleType
from typing import Any


def find(path: str) -> Any:
    """What torch has under this name; None where it has nothing, or has not loaded the module.

    A module that is not loaded stays so: asking torch for one of its lazy modules would load it.
    """
    owner, name = owner_of(path)
    return None if owner is None else _member(owner, name)


def owner_of(path: str) -> tuple[Any, str]:
    """The module or object that has the last part of a name, and that part; None where there is no such owner."""
    *parts, name = path.split(".")
    owner: Any = sys.modules.get(parts[0])
    for place, part in enumerate(parts[1:], start=2):
        module = sys.modules.get(".".join(parts[:place]))
        owner = module if module is not None else _member(owner, part)
    return owner, name


def _member(owner: Any, name: str) -> Any:
    if isinstance(owner, ModuleType):
        return vars(owner).get(name)
    return getattr(owner, name, None)


def attribute(path: str) -> Callable[[Any], Any]:
    """Reads that attribute of an object; raises `AttributeError` where it has none."""
    return attrgetter(path.rpartition(".")[2])


def method(path: str) -> Callable[[Any], Any]:
    """Calls that method of an object, without arguments; raises `AttributeError` where it has none."""
    return methodcaller(path.rpartition(".")[2])


def attributes_like(path: str, owner: Any) -> list[str]:
    """Names of the attributes of an object that begin like the last part of `path`."""
    beginning = path.rpartition(".")[2]
    return [name for name in dir(owner) if name.startswith(beginning)]


def tensor_attribute(name: str) -> Callable[[Any], Any]:
    """Reads an attribute of any tensor as torch has it, past properties that a subclass defines under its name."""
    tensor = find("torch.Tensor")
    found = next((vars(kind)[name] for kind in tensor.__mro__ if name in vars(kind)), None)
    if found is None:
        raise AttributeError(f"torch's tensors have no {name}")
    return found.__get__  # type: ignore[no-any-return]
