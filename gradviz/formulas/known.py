"""The formulas that can be had here: from the cache, or else from the installed torch; without either, none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import msgspec

from gradviz.errors import MissingDependency
from gradviz.formulas.derivative import Derivative, FormulaTable
from gradviz.formulas.formula_cache import cache_file, read_cached, write_cached
from gradviz.formulas.installed import FormulaFiles, find_formula_files, read_formulas


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
