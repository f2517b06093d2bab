"""Writes output files. No other module of the command line writes them.

- A file is written completely or not at all: the content goes to a temporary file in the same folder, which then gets
  the final name.
- Whether a file can be written is checked before the user's script runs, not an hour later.
- A file that gradviz did not write, such as the script, is never overwritten.
- ``-`` is standard output. If its reader closes it early (``| head``), that is no error.

Missing folders are made when the file is written. Every failure is one `BadInput`.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gradviz.capture.capture_file import CAPTURE_SUFFIX
from gradviz.capture.whole_file import write_whole_file
from gradviz.errors import BadInput, near_matches
from gradviz.rendering.formats import FORMATS, Format, format_named, format_of

STANDARD_OUTPUT = "-"

_OWN_SUFFIXES = (*(suffix for entry in FORMATS for suffix in entry.suffixes), CAPTURE_SUFFIX)

_notes_on_new_folders: list[Callable[[Path], None]] = []


@contextmanager
def noting_new_folders(note: Callable[[Path], None]) -> Iterator[None]:
    """Call `note` with each folder that is made for a file meanwhile: it may be a slip of the pen."""
    _notes_on_new_folders.append(note)
    try:
        yield
    finally:
        _notes_on_new_folders.remove(note)


_REMEDIES = {
    errno.ENOSPC: "free some space, or choose another folder",
    errno.EDQUOT: "free some space, or choose another folder",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.EROFS: "choose a folder that you may write to",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "a part of that path is a file, not a folder",
    errno.EEXIST: "a part of that path is a file, not a folder",
}


def output_format(path: Path | str, explicit: str | None = None) -> Format:
    """The format to write to `path`: the explicit one, or the one of its suffix."""
    name = Path(path).name
    by_suffix = format_of(name)
    if explicit is None:
        if by_suffix is None:
            raise _unknown_format(path)
        return by_suffix
    wanted = format_named(explicit)
    if by_suffix is not None and by_suffix != wanted and not _may_be_called(name, wanted):
        other_name = name.removesuffix(by_suffix.suffix_of(name)) + wanted.suffixes[0]
        raise BadInput(
            f"{str(path)!r} is named as {by_suffix.name}, but the format asked for is {wanted.name}",
            hint=f"name it {other_name!r}, or leave the format out",
        )
    return wanted


def _may_be_called(name: str, wanted: Format) -> bool:
    """Whether the last suffix fits the format as well: ``net.json`` for a format of ``.something.json``."""
    return any(suffix.endswith(Path(name).suffix.lower()) for suffix in wanted.suffixes)


def check_outputs(paths: Sequence[Path | str], *, inputs: Iterable[Path | str] = ()) -> None:
    """Raise `BadInput`, before any work is done, for an output that cannot be written or is one of `inputs`."""
    sources = [Path(source) for source in inputs]
    seen: dict[str, Path | str] = {}
    for path in paths:
        if "\0" in str(path):
            raise BadInput(f"cannot write {str(path)!r}: it has a zero byte", hint="no file can have such a name")
        location = STANDARD_OUTPUT if _is_standard_output(path) else os.path.realpath(path)
        if location in seen:
            raise BadInput(
                f"{str(seen[location])!r} and {str(path)!r} are the same file", hint="give each its own name"
            )
        seen[location] = path
        if location != STANDARD_OUTPUT:
            _check_file(Path(path), sources)


def write_output(path: Path | str, content: str | bytes) -> bool:
    """Write `content` completely, text as UTF-8, or leave everything as it was.

    Returns False if standard output was closed by its reader.
    """
    # Python turns a file name that is not UTF-8 into lone surrogates, which UTF-8 cannot encode.
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    if _is_standard_output(path):
        return _write_standard_output(data)
    try:
        _write_file(Path(path), data)
    except OSError as error:
        raise _cannot_write(path, error) from error
    return True


def _is_standard_output(path: Path | str) -> bool:
    return str(path) == STANDARD_OUTPUT


def _unknown_format(path: Path | str) -> BadInput:
    if _is_standard_output(path):
        return BadInput("standard output does not determine the format", hint="add --format")
    suffix = Path(path).suffix
    fault = f"ends in {suffix!r}, which is not a known format" if suffix else "does not determine the format"
    # Without the dots, which would make all of them similar.
    known = [known.lstrip(".") for entry in FORMATS for known in entry.suffixes]
    return BadInput(f"{str(path)!r} {fault}", hint=near_matches(suffix.lstrip(".").lower(), known))


def _check_file(path: Path, sources: Sequence[Path]) -> None:
    try:
        kind = _file_kind(path)
        if kind == stat.S_IFDIR:
            raise BadInput(f"{str(path)!r} is a folder", hint="add a file name")
        if kind == stat.S_IFREG:
            _check_replaceable(path, sources)
        if kind in (stat.S_IFREG, None):
            _check_folder(Path(os.path.realpath(path)).parent)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _file_kind(path: Path) -> int | None:
    """One of `stat`'s ``S_IF...``, or None if nothing exists. `Path.is_file` would hide other errors."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _check_replaceable(path: Path, sources: Sequence[Path]) -> None:
    if any(source.exists() and path.samefile(source) for source in sources):
        raise BadInput(f"{str(path)!r} is the input itself", hint="choose another name for the output")
    if path.suffix.lower() not in _OWN_SUFFIXES:
        raise BadInput(
            f"{str(path)!r} exists already and does not look like a file of gradviz",
            hint="choose another name, or remove it first",
        )
    if not os.access(path, os.W_OK):
        raise BadInput(f"{str(path)!r} is write-protected", hint="choose another name, or remove it first")


def _check_folder(folder: Path) -> None:
    """Make a file without a name in the folder, or in the nearest existing parent; permission bits are not enough."""
    while not folder.exists():
        folder = folder.parent
    tempfile.TemporaryFile(dir=folder).close()


def _write_file(path: Path, data: bytes) -> None:
    if _file_kind(path) not in (stat.S_IFREG, None):
        # A device or a pipe cannot be replaced by a new file; for a folder, open() raises.
        path.write_bytes(data)
        return
    is_new = not path.parent.exists()
    write_whole_file(path, data)
    if is_new:
        for note in _notes_on_new_folders:
            note(path.parent)


def _write_standard_output(data: bytes) -> bool:
    """Returns False if its reader closed it."""
    if sys.stdout is None:
        return False  # closed by the program that started this process
    # Bytes, so that the encoding of the terminal does not change the content of a file or pipe.
    buffer = getattr(sys.stdout, "buffer", None)
    try:
        if buffer is None:
            sys.stdout.write(data.decode())
        else:
            sys.stdout.flush()
            buffer.write(data)
            buffer.flush()
    except BrokenPipeError:
        _discard_standard_output()
        return False
    except OSError as error:
        _discard_standard_output()
        raise _cannot_write("standard output", error) from error
    return True


def _discard_standard_output() -> None:
    """Discard what is still buffered: Python would write it at exit, fail, and print a traceback."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _cannot_write(path: Path | str, error: OSError) -> BadInput:
    remedy = _REMEDIES.get(error.errno) if error.errno is not None else None
    return BadInput(f"cannot write {str(path)!r}: {error.strerror or error}", hint=remedy)
