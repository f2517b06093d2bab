"""Finds and compiles the script or module that is to run, as ``python`` would, and makes it the main program."""

from __future__ import annotations

import linecache
import os
import pkgutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from gradviz.capture.capture_file import CAPTURE_SUFFIX
from gradviz.errors import BadInput, near_matches


@dataclass(frozen=True)
class Program:
    """A program that is ready to run."""

    name: str
    """As the user wrote it."""
    code: CodeType
    argv0: str
    path0: str
    """What becomes ``sys.path[0]``."""
    file: str
    spec: ModuleSpec | None = None
    loader: Any = None


def find_script(path: str) -> Program:
    """A script file, compiled; or a folder or zip file with ``__main__.py``.

    Raises `BadInput` with one line, or `SyntaxError` as Python shows it.
    """
    script = Path(path)
    if script.is_dir() or (script.suffix != CAPTURE_SUFFIX and _is_zip_file(script)):
        return _main_inside(path)
    try:
        source = script.read_bytes()
    except FileNotFoundError:
        is_recording = script.suffix == CAPTURE_SUFFIX
        ending = CAPTURE_SUFFIX if is_recording else ".py"
        siblings = sorted(str(p) for p in script.parent.glob(f"*{ending}")) if script.parent.is_dir() else []
        hint = near_matches(path, siblings, ending=ending) if siblings else "check the path"
        raise BadInput(f"no such {'recording' if is_recording else 'script'}: {path}", hint=hint) from None
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    if b"\0" in source or script.suffix == ".ipynb":
        raise BadInput(f"{path} is not a Python script", hint="give a .py file or a recording made by `gradviz record`")
    if not source.strip():
        raise BadInput(f"{path} is empty", hint="there is nothing to run")
    absolute = str(script.absolute())
    return Program(
        name=path,
        code=_compiled(path, source, absolute),
        argv0=path,
        path0=os.path.realpath(script.parent),
        file=absolute,
        loader=SourceFileLoader("__main__", absolute),
    )


def _compiled(path: str, source: bytes, absolute: str) -> CodeType:
    """The code of a script. Of a file that is named as something else, such as a picture, no line is shown."""
    try:
        return compile(source, absolute, "exec", dont_inherit=True)
    except SyntaxError as error:
        if Path(path).suffix in ("", ".py", ".pyw"):
            raise
        raise BadInput(
            f"{path} is not a Python script: {error.msg} in line {error.lineno}",
            hint="give a .py file or a recording made by `gradviz record`",
        ) from None


def _is_zip_file(script: Path) -> bool:
    try:
        return zipfile.is_zipfile(script)
    except (OSError, ValueError):
        return False  # reading it as a script says why it cannot be read


def _main_inside(path: str) -> Program:
    """The ``__main__`` of a folder or zip file, which is what ``python PATH`` runs."""
    absolute = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 - as python has it: a slash at its end stays
    importer = pkgutil.get_importer(absolute)
    find = getattr(importer, "find_spec", None)
    spec = find("__main__") if find is not None else None
    code = spec.loader.get_code("__main__") if spec is not None and spec.loader is not None else None
    if spec is None or code is None or spec.origin is None:
        if Path(path).is_dir():
            hint = "name a .py file in it, or use -m for a package"
            raise BadInput(f"{path} is a directory without __main__.py, not a script", hint=hint)
        raise BadInput(
            f"{path} is a zip file without __main__.py, not a Python script",
            hint="give a .py file or a recording made by `gradviz record`",
        )
    return Program(path, code, path, absolute, spec.origin, spec, spec.loader)


def find_module(name: str) -> Program:
    """A module or package, found as ``python -m`` does."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
            if spec is None:
                raise BadInput(f"{name} is a package without __main__", hint="name a module inside it")
    except ModuleNotFoundError as error:
        raise BadInput(f"no module named {error.name!r}", hint="-m takes a dotted name, as python -m does") from error
    except (ImportError, ValueError) as error:
        raise BadInput(f"-m {name}: {error}", hint="-m takes a dotted name, as python -m does") from error
    finally:
        sys.path.pop(0)
    if spec is None:
        raise BadInput(f"no module named {name!r}", hint="-m takes a dotted name, as python -m does")
    code = spec.loader.get_code(spec.name) if hasattr(spec.loader, "get_code") else None  # type: ignore[union-attr]
    if code is None or spec.origin is None:
        raise BadInput(f"module {name!r} has no Python code to run")
    return Program(name, code, spec.origin, str(Path.cwd()), spec.origin, spec, spec.loader)


@contextmanager
def as_main_program(program: Program, arguments: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Make `program` the program of ``__main__``, ``sys.argv`` and ``sys.path``."""
    main = ModuleType("__main__")
    namespace = main.__dict__
    namespace.update(
        __file__=program.file,
        __spec__=program.spec,
        __loader__=program.loader,
        __package__=program.spec.parent if program.spec is not None else None,
        __builtins__=sys.modules["builtins"],
        __annotations__={},
        __cached__=program.spec.cached if program.spec is not None else None,
    )
    if not os.path.exists(program.file):  # noqa: PTH110 - in a zip file
        linecache.lazycache(program.file, namespace)
    saved = sys.modules["__main__"], sys.argv, sys.path[:]
    sys.modules["__main__"] = main
    sys.argv = [program.argv0, *arguments]
    sys.path[0:1] = [program.path0]
    try:
        yield namespace
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = saved
        _finished_programs.append(main)


_finished_programs: list[ModuleType] = []
"""Modules of programs that ran: as under python, their variables live until the interpreter ends."""
