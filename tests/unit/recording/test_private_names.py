"""Private names of torch are looked up in one folder only, and all of them are in its table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import gradviz
from gradviz.recording.torch_access.capabilities import CAPABILITIES

ROOT = Path(gradviz.__file__).parent
ACCESS = ROOT / "recording" / "torch_access"
DOORS = {"find", "attribute", "method", "attributes_like", "owner_of"}
PUBLIC = {"_replace", "_fields", "_asdict", "_make", "_getframe", "_value_", "_name_", "_exit", "_current_frames"}
"""Of Python's own."""


def own_names() -> set[str]:
    """Private attributes and functions that gradviz itself defines."""
    found = set()
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def private_attributes(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            yield node.lineno, "" if is_own else node.attr


def test_no_file_outside_the_folder_reads_a_private_attribute_of_something_else() -> None:
    of_torch = {name.rpartition(".")[2] for capability in CAPABILITIES for name in capability.names}
    allowed = (
        (own_names() - of_torch) | PUBLIC | {""} | {"_initializing"}
    )  # of a module's specification, for Python's own import system
    strangers = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in sorted((ROOT / "recording").rglob("*.py"))
        if ACCESS not in file.parents
        for line, name in private_attributes(file)
        if name not in allowed
    ]
    assert strangers == []


def looked_up() -> Iterator[str]:
    """Names that are looked up as string constants."""
    for file in sorted(ACCESS.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DOORS and node.args:
                path = node.args[0]
                if isinstance(path, ast.Constant) and isinstance(path.value, str):
                    yield path.value


def is_covered(path: str, name: str) -> bool:
    """The table has only the beginning of some names; attributes of a name in the table are covered."""
    return path == name or path.startswith(name if name.endswith("_") else f"{name}.")


def test_what_is_looked_up_is_in_the_table() -> None:
    known = {name for capability in CAPABILITIES for name in capability.names} | {"torch.Tensor"}
    strangers = {path for path in looked_up() if not any(map(partial(is_covered, path), known))}
    assert strangers == {"Storage.data_ptr"}  # public, and only asked where nothing else is there


def test_names_of_capabilities_are_distinct() -> None:
    names = [capability.name for capability in CAPABILITIES]
    assert len(set(names)) == len(names)
