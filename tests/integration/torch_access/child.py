"""``gradviz`` on a torch that lacks one name of the table: ``python child.py NAME ARGUMENTS...``; ``-`` lacks none.

The name is taken away at the doors through which gradviz looks names up, before torch is imported. torch itself keeps
it: it would use the new name of what has moved.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gradviz.recording.torch_access import names


def take_away(path: str) -> None:
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


if __name__ == "__main__":
    lacking, *arguments = sys.argv[1:]
    if lacking != "-":
        take_away(lacking)
    from gradviz.cli import main

    sys.argv = ["gradviz", *arguments]
    main()
