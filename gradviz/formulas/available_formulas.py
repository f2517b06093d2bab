"""The formulas of the installed torch, from the cache or read anew; empty if there are none."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from gradviz.errors import MissingDependency
from gradviz.formulas.derivative import Derivative, FormulaTable
from gradviz.formulas.torch_formulas import FINGERPRINT, FormulaFiles, find_formula_files, read_formulas


@dataclass(frozen=True)
class KnownFormulas:
    """torch's formulas, and what went wrong while they were read."""

    table: FormulaTable
    disclosures: tuple[str, ...] = ()
    """Why there are no formulas, or why they must be read again next time; one sentence each."""

    @cached_property
    def by_node(self) -> dict[str, Derivative]:
        """Every node name that torch generates: ``MulBackward0``."""
        return {each.node: each for each in self.table.derivatives}


def of(node_name: str) -> Derivative | None:
    """The derivative of that node in the installed torch; None where it has none, or torch is missing.

    The first call reads the formulas, which takes a second or two if they are not in the cache; later calls are a
    lookup.
    """
    return known_formulas().by_node.get(node_name)


@lru_cache(maxsize=1)
def known_formulas() -> KnownFormulas:
    """Read torch's formulas. Never raises: the result says what went wrong."""
    try:
        return _cached_or_read(find_formula_files())
    except MissingDependency as error:
        return KnownFormulas(FormulaTable(""), (str(error),))


def _cached_or_read(files: FormulaFiles) -> KnownFormulas:
    try:
        path = cache_file(files)
        cached = read_cached(path)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_and_cache(files, path, f"the cached formulas in {path} are damaged and were read anew")
    except (OSError, RuntimeError) as error:
        return KnownFormulas(read_formulas(files), (_not_cached(error),))
    return KnownFormulas(cached) if cached is not None else _read_and_cache(files, path)


def _read_and_cache(files: FormulaFiles, path: Path, *disclosures: str) -> KnownFormulas:
    table = read_formulas(files)
    try:
        write_cached(path, table)
    except OSError as error:
        disclosures = (*disclosures, _not_cached(error))
    return KnownFormulas(table, disclosures)


def _not_cached(error: Exception) -> str:
    return f"formulas cannot be cached: {error}"


# The cache in the user's cache folder: reading takes a second the first time, milliseconds later.
#
# A file name contains the release, a hash of the files that were read, and of the code that read them, so no cache is
# taken for another's.

MAX_CACHE_FILES = 8
"""Cache files: enough for as many environments with different torch versions."""


def cache_folder() -> Path:
    """``$GRADVIZ_CACHE_DIR``, or the folder in which this system keeps caches.

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
    """The cache file for this torch."""
    return cache_folder() / f"formulas-{files.torch_version}-{files.fingerprint()}.json"


def read_cached(path: Path) -> FormulaTable | None:
    """The cached formulas, None if there are none; raises `msgspec.DecodeError` for a damaged file and `OSError`."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    table = msgspec.json.decode(content, type=FormulaTable)
    if not table.derivatives:
        raise msgspec.ValidationError("there is no formula in it")
    return table


def write_cached(path: Path, table: FormulaTable) -> None:
    """Write all or nothing, even where two processes write at once; raises `OSError`."""
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
    """Remove the oldest files: every new torch and every new gradviz leaves one behind."""
    # Another process may be removing files at the same time, or the file may belong to somebody else: then it stays.
    with suppress(OSError):
        ours = [*folder.glob(f"formulas-*-{'?' * FINGERPRINT}.json"), *folder.glob("formulas-*.part")]
        for path in sorted(ours, key=lambda each: each.stat().st_mtime_ns)[:-MAX_CACHE_FILES]:
            path.unlink()
