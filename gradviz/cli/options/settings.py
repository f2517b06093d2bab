"""The settings of a check: options of the command line, then the table ``[tool.gradviz]``, then defaults."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec

from gradviz.analysis.finding import SEVERITIES, Severity
from gradviz.errors import BadInput, check_choice, near_matches
from gradviz.rendering.reports.findings.formats import FINDING_FORMATS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FailOn = Literal["error", "warning", "note", "never"]
SETTINGS_FILE = "pyproject.toml"


@dataclass(frozen=True)
class CheckSettings:
    """The keys of ``[tool.gradviz]``, which are written with dashes in place of underscores."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    format: str = "terminal"
    fail_on: FailOn = "warning"
    baseline: str | None = None
    seconds: float = 60.0
    """How long the script runs on after its first backward."""
    steps: int | None = None
    max_saved: str | None = None
    """How much memory a graph may keep until its backward: ``2GiB``."""
    all_params_get_grad: bool = False
    """Whether a parameter without a gradient is an error."""

    @property
    def saved_limit(self) -> int | None:
        """`max_saved` in bytes."""
        return None if self.max_saved is None else bytes_in(self.max_saved, "max-saved")

    @property
    def threshold(self) -> Severity | None:
        """The lowest severity that is a failure; None if none is."""
        return next((severity for severity in SEVERITIES if severity == self.fail_on), None)


def check_settings(given: Mapping[str, Any], folder: Path) -> CheckSettings:
    """The settings of a check that is started in `folder`; `given` are the command-line options, None if not given.

    The table is that of the nearest ``pyproject.toml`` with such a table, in the folder or above it.
    Raises `BadInput` for a file that cannot be read or a wrong setting.
    """
    names = [field.name for field in fields(CheckSettings)]
    own = {name: given[name] for name in names if given.get(name) not in (None, ())}
    for name, value in own.items():
        _check(name, value)
    return CheckSettings(**{**_from_file(folder), **own})


_CHOICES = ("fail_on", "format")


def _check(name: str, value: Any) -> None:
    """Raise `BadInput` for a value that has the right type and is not allowed."""
    if name == "fail_on":
        check_choice("severity for --fail-on", value, get_args(FailOn))
    elif name == "format":
        check_choice("format", value, ("terminal", *(each.name for each in FINDING_FORMATS)))
    elif name in ("select", "ignore"):
        _check_rules(value)
    elif name == "max_saved":
        bytes_in(value, "max-saved")
    elif name == "seconds" and not 0 < value < float("inf"):
        raise BadInput(f"seconds = {value:g} is not a duration", hint="give a number above 0")
    elif name == "steps" and value < 1:
        raise BadInput(f"steps = {value} is not a number of steps", hint="give a number from 1 on")


def _check_rules(names: tuple[str, ...]) -> None:
    # Loading all rules takes a fifth of a second, which only those who name rules should wait for.
    from gradviz.analysis.check.checker import named_rules
    from gradviz.analysis.check.installed_rules import all_rules

    named_rules(all_rules().rules, names)


def _from_file(folder: Path) -> dict[str, Any]:
    for parent in (folder, *folder.parents):
        path = parent / SETTINGS_FILE
        if path.is_file():
            table = _table_in(path)
            if table is not None:
                return table
    return {}


def _table_in(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text).get("tool", {}).get("gradviz")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}") from error
    if table is None:
        return None
    if not isinstance(table, dict):
        raise BadInput(f"{path}: tool.gradviz is not a table", hint="write [tool.gradviz] on a separate line")
    return {_name(path, text, key): _value(path, text, key, value) for key, value in table.items()}


def _name(path: Path, text: str, key: str) -> str:
    names = {field.name.replace("_", "-"): field.name for field in fields(CheckSettings)}
    if key not in names:
        raise BadInput(f"{_where(path, text, key)}: [tool.gradviz] has no {key!r}", hint=near_matches(key, names))
    return names[key]


def _value(path: Path, text: str, key: str, value: object) -> Any:
    name = key.replace("-", "_")
    try:
        if name in _CHOICES and isinstance(value, str):
            _check(name, value)  # It suggests near matches, which the conversion does not.
        converted = msgspec.convert(value, get_type_hints(CheckSettings)[name])
        _check(name, converted)
    except msgspec.ValidationError as error:
        reason = str(error)
        raise BadInput(
            f"{_where(path, text, key)}: {key} = {value!r} is not allowed: {reason[:1].lower()}{reason[1:]}"
        ) from error
    except BadInput as error:
        raise BadInput(f"{_where(path, text, key)}: {error.message}", hint=error.hint) from error
    # The path is relative to the folder of pyproject.toml, not to the working directory.
    return str(path.parent / converted) if name == "baseline" and converted is not None else converted


def _where(path: Path, text: str, key: str) -> str:
    """The file, and the line of a key in the table, which the parser does not report."""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\s*(.*?)\s*\]", line)
        if header and "=" not in line.partition("]")[0]:
            inside = header[1].replace(" ", "") == "tool.gradviz"
        elif inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return f"{path}, line {number}"
    return str(path)


# Sizes of memory: ``2GiB``, ``512 MB``, ``1000000``.

_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def bytes_in(text: str, what: str) -> int:
    """Convert to bytes: 1 ``GB`` is 1000 MB, 1 ``GiB`` or ``G`` is 1024 MiB. Raises `BadInput`, naming `what`."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise BadInput(f"{what} {text!r} is not a size", hint="write it as 2GiB, 512MB or a number of bytes")
    number, unit, is_binary = found.groups()
    is_decimal = bool(unit) and not is_binary and text.strip().lower().endswith("b")
    return int(float(number) * (1000 if is_decimal else 1024) ** _POWERS[unit.lower()])
