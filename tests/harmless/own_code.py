"""Which code is the examined program's own, and not torch's, the standard library's, gradviz's or the harness'."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from types import CodeType, ModuleType

_HARNESS = tuple(str(Path(__file__).resolve().parents[1] / name) for name in ("harmless", "prepared"))
_PROGRAMS = str(Path(__file__).resolve().parent / "programs")
_GRADVIZ = str(Path(__file__).resolve().parents[2] / "gradviz") + "/"
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def is_own_file(file: str) -> bool:
    """True for a file that somebody wrote who uses torch."""
    if file.startswith((_PROGRAMS, "<ipython")):
        return True
    return not file.startswith((*_HARNESS, _GRADVIZ, "<", *_LIBRARIES)) and "/site-packages/" not in file


def is_own_code(code: CodeType) -> bool:
    """The same for code."""
    return is_own_file(code.co_filename)


def is_written_by_the_program(module: ModuleType | None) -> bool:
    """The same for a module."""
    file = getattr(module, "__file__", None)
    return file is not None and is_own_file(file)
