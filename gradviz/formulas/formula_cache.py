"""What was read from the installed torch, kept in the user's cache folder: a second the first time, milliseconds later.

A file is named for the release, for the contents that it was read from and for the code that read them, so that none
is ever taken for another's.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from gradviz.formulas.derivative import FormulaTable
from gradviz.formulas.installed import FINGERPRINT, FormulaFiles

MOST_KEPT = 8
"""Files: as many environments with a torch of their own as somebody may work in."""


def cache_folder() -> Path:
    """``$GRADVIZ_CACHE_DIR``, or where this system keeps what can be computed again.

    Raises `RuntimeError` where the user has no home.
    """
    if own := os.environ.get("GRADVIZ_CACHE_DIR"):
        return Path(own)
    if os.name == "nt" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "gradviz" / "Cache"
    # The XDG base directory specification calls relative paths invalid.
    if (xdg := os.environ.get("XDG_CACHE_HOME")) and Path(xdg).is_absolute():
        return Path(xdg) / "gradviz"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "gradviz"


def cache_file(files: FormulaFiles) -> Path:
    """Where the formulas of this torch belong."""
    return cache_folder() / f"formulas-{files.torch_version}-{files.fingerprint()}.json"


def read_cached(path: Path) -> FormulaTable | None:
    """None where nothing was kept; raises `msgspec.DecodeError` for a damaged file and `OSError`."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    table = msgspec.json.decode(content, type=FormulaTable)
    if not table.derivatives:
        raise msgspec.ValidationError("there is no formula in it")
    return table


def write_cached(path: Path, table: FormulaTable) -> None:
    """All of it or nothing, also where two processes write at once; raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix="formulas-", suffix=".part", delete=False) as part:
        try:
            part.write(msgspec.json.encode(table))
            part.close()
            Path(part.name).replace(path)
        except OSError:
            Path(part.name).unlink(missing_ok=True)
            raise
    _remove_oldest(path.parent)


def _remove_oldest(folder: Path) -> None:
    """Every new torch and every new gradviz leaves a file behind that nobody will ask for again."""
    # Another process may be tidying up at the same time, or the file be somebody else's: then it stays.
    with suppress(OSError):
        ours = [*folder.glob(f"formulas-*-{'?' * FINGERPRINT}.json"), *folder.glob("formulas-*.part")]
        for path in sorted(ours, key=lambda each: each.stat().st_mtime_ns)[:-MOST_KEPT]:
            path.unlink()
