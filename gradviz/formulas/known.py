"""The formulas that can be had here: from the cache, or else from the installed torch; without either, none."""

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
from gradviz.formulas.installed import FINGERPRINT, FormulaFiles, find_formula_files, read_formulas


@dataclass(frozen=True)
class KnownFormulas:
    """What torch says about its backward functions, and what went wrong while it was read."""

    table: FormulaTable
    disclosures: tuple[str, ...] = ()
    """Plain sentences: why there are no formulas, or why they will have to be read again next time."""

    @cached_property
    def by_node(self) -> dict[str, Derivative]:
        """Every node name that torch generates: ``MulBackward0``."""
        return {each.node: each for each in self.table.derivatives}


def of(node_name: str) -> Derivative | None:
    """What the installed torch does in the backward of that node; None where it does not say, or there is no torch.

    The first call reads the formulas, a second or two where they are not in the cache; later ones are a lookup.
    """
    return known_formulas().by_node.get(node_name)


@lru_cache(maxsize=1)
def known_formulas() -> KnownFormulas:
    """Never raises: what could not be had is disclosed."""
    try:
        return _cached_or_read(find_formula_files())
    except MissingDependency as error:
        return KnownFormulas(FormulaTable(""), (str(error),))


def _cached_or_read(files: FormulaFiles) -> KnownFormulas:
    try:
        path = cache_file(files)
        cached = read_cached(path)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_and_keep(files, path, f"the formulas kept in {path} are damaged and were read anew")
    except (OSError, RuntimeError) as error:
        return KnownFormulas(read_formulas(files), (_not_kept(error),))
    return KnownFormulas(cached) if cached is not None else _read_and_keep(files, path)


def _read_and_keep(files: FormulaFiles, path: Path, *disclosures: str) -> KnownFormulas:
    table = read_formulas(files)
    try:
        write_cached(path, table)
    except OSError as error:
        disclosures = (*disclosures, _not_kept(error))
    return KnownFormulas(table, disclosures)


def _not_kept(error: Exception) -> str:
    return f"formulas cannot be kept for the next time: {error}"


# What was read from the installed torch, kept in the user's cache folder: a second the first time, milliseconds later.
#
# A file is named for the release, for the contents that it was read from and for the code that read them, so that none
# is ever taken for another's.

MAX_KEPT = 8
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
        for path in sorted(ours, key=lambda each: each.stat().st_mtime_ns)[:-MAX_KEPT]:
            path.unlink()
