"""Tells whose code a file holds: the user's, a library's, or gradviz's own. Works before torch is imported."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType

GRADVIZ_FOLDER = str(Path(__file__).resolve().parent.parent) + "/"
_WHOLE_PACKAGE = str(Path(__file__).resolve().parents[2]) + "/"
STAND_IN = "<gradviz stands in>"
"""Name of code that imitates a frame of the program, with its file and line: see `function_stand_in`."""


@cache
def torch_folder() -> str:
    """The folder of torch's Python files, found without importing torch."""
    spec = find_spec("torch")
    locations = spec.submodule_search_locations if spec is not None else None
    return locations[0] + "/" if locations else "<no torch>"


@cache
def _library_folders() -> tuple[str, ...]:
    standard = {str(Path(sysconfig.get_path(name)).resolve()) + "/" for name in ("stdlib", "purelib", "platlib")}
    return (*sorted(standard), torch_folder(), "<frozen ")


def is_torch_file(file: str) -> bool:
    """True for torch's own Python code."""
    return file.startswith(torch_folder())


def is_library_file(file: str) -> bool:
    """True for the standard library and installed packages, which the user did not write."""
    return _is_installed(file) or _is_made_by_library(file)


def _is_installed(file: str) -> bool:
    return file.startswith(_library_folders()) or "/site-packages/" in file


@cache
def _is_made_by_library(file: str) -> bool:
    """True for code that an installed package wrote to a file elsewhere, and loaded as one of its modules.

    torch_geometric does so for every class of its convolutions, in ``/tmp`` under a name that changes with each run.
    """
    package = sys.modules.get(_packages_by_file(len(sys.modules)).get(file, ""))
    made_by = getattr(package, "__dict__", {}).get("__file__")
    return made_by is not None and _is_installed(made_by)


@lru_cache(maxsize=1)
def _packages_by_file(_modules: int) -> dict[str, str]:
    """By the file of each module: the first part of its name. It is read anew where there are more modules than before,
    and not for each file of a program, because with torch there are thousands."""
    modules = reversed(list(sys.modules.items()))  # of two with one file, the first counts
    files = ((getattr(module, "__dict__", {}).get("__file__"), name) for name, module in modules)
    return {file: name.partition(".")[0] for file, name in files if isinstance(file, str)}


def imported_beside(files: Iterable[str]) -> list[str]:
    """The files of modules of the user's that lie in the folders of these files, or below."""
    folders = tuple({str(Path(file).parent) + "/" for file in files})
    found = (getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values()))
    own = {file for file in found if isinstance(file, str) and file.startswith(folders) and file.endswith(".py")}
    return sorted(file for file in own if not is_library_file(file) and not file.startswith(_WHOLE_PACKAGE))


_MODULE_FILE = str(Path("torch", "nn", "modules", "module.py"))


def is_hook_detour(code: CodeType) -> bool:
    """True for the inner function in which `Module._call_impl` runs a call while any hook is registered."""
    return code.co_name == "inner" and code.co_filename.endswith(_MODULE_FILE)


def own_line(lines: Iterable[tuple[CodeType, int]]) -> tuple[str, int] | None:
    """File and line of the first of these that is in the user's own code, neither in a library nor in gradviz."""
    own = ((code.co_filename, line) for code, line in lines if not is_gradviz_code(code))
    return next((location for location in own if not is_library_file(location[0])), None)


def is_gradviz_code(code: CodeType) -> bool:
    """True for code of this package, and for code that imitates a frame of the program."""
    return code.co_filename.startswith(GRADVIZ_FOLDER) or code.co_name == STAND_IN
