"""``gradviz`` on a torch that lacks one name of the table: what a forked process can become.

The name is taken away at the doors through which gradviz looks names up, before the modules that ask there are
loaded. torch itself keeps it: it would use the new name of what has moved.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

LOADED_ANEW = ("gradviz.recording.", "gradviz.cli.")


def run_gradviz() -> None:
    """``gradviz`` with the arguments in ``sys.argv``; the first of them is the name that is lacking, or ``-``."""
    unload_recording()
    lacking = sys.argv.pop(1)
    if lacking != "-":
        take_away(lacking)
    import_module("gradviz.cli").main()


def unload_recording() -> None:
    """Have what asks torch for names loaded anew, and the commands, which hold parts of it.

    Modules keep what they found when they were loaded; the check is that none of the others does.
    """
    for name in [name for name in sys.modules if f"{name}.".startswith(LOADED_ANEW)]:
        del sys.modules[name]
    keepers = [
        f"{name}.{attribute}"
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "gradviz"
        for attribute, value in vars(module).items()
        if attribute not in ("recording", "cli") and is_of_recording(value)
    ]
    if keepers:
        raise AssertionError(f"these keep what they found with all names: {keepers}")


def is_of_recording(value: object) -> bool:
    defined_in = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return f"{defined_in}.".startswith("gradviz.recording.")


def take_away(path: str) -> None:
    names = import_module("gradviz.recording.torch_access.name_lookup")

    def is_gone(other: str) -> bool:
        # Of some names only the beginning stands in the table.
        return other == path or other.startswith(path if path.endswith("_") else f"{path}.")

    def missing(_: object) -> Any:
        raise AttributeError(f"{path} was taken away")

    find, owner_of, attribute, method = names.find, names.owner_of, names.attribute, names.method
    attributes_like, tensor_attribute = names.attributes_like, names.tensor_attribute
    doors: dict[str, Callable[..., Any]] = {
        "find": lambda other: None if is_gone(other) else find(other),
        "owner_of": lambda other: (None, "") if is_gone(other) else owner_of(other),
        "attribute": lambda other: missing if is_gone(other) else attribute(other),
        "method": lambda other: missing if is_gone(other) else method(other),
        "attributes_like": lambda other, owner: [] if is_gone(other) else attributes_like(other, owner),
        "tensor_attribute": lambda name: missing(name) if is_gone(f"Tensor.{name}") else tensor_attribute(name),
    }
    for name, door in doors.items():
        setattr(names, name, door)
