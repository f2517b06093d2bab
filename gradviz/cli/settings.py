"""How a check is to be done: what the command line says, and below it the table ``[tool.gradviz]``."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec

from gradviz.analysis.finding import SEVERITIES, Severity
from gradviz.cli.byte_sizes import bytes_in
from gradviz.errors import BadInput, check_choice, near_matches

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FailOn = Literal["error", "warning", "note", "never"]
SETTINGS_FILE = "pyproject.toml"


@dataclass(frozen=True)
class CheckSettings:
    """What may stand in ``[tool.gradviz]``, with dashes in place of underscores."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    format: str = "terminal"
    fail_on: FailOn = "warning"
    baseline: str | None = None
    seconds: float = 60.0
    """How long the script runs on after its first backward."""
    steps: int | None = None
    max_saved: str | None = None
    """Memory that a graph may keep until its backward: ``2GiB``."""

    @property
    def saved_limit(self) -> int | None:
        """The same in bytes."""
        return None if self.max_saved is None else bytes_in(self.max_saved, "max-saved")

    @property
    def threshold(self) -> Severity | None:
        """The mildest severity that is a failure; None where none is."""
        return next((severity for severity in SEVERITIES if severity == self.fail_on), None)


def check_settings(given: dict[str, Any], folder: Path) -> CheckSettings:
    """The settings for a check that is started in `folder`; `given` are options of the command line, None if not used.

    The table is that of the nearest ``pyproject.toml``, in the folder or above it, that has one.
    Raises `BadInput` for what cannot be read or is no setting.
    """
    names = [field.name for field in fields(CheckSettings)]
    own = {name: given[name] for name in names if given.get(name) not in (None, ())}
    settings = CheckSettings(**{**_from_file(folder), **own})
    check_choice("severity for --fail-on", settings.fail_on, get_args(FailOn))
    if not 0 < settings.seconds < float("inf"):
        raise BadInput(f"seconds = {settings.seconds:g} is no time to run", hint="give a number above 0")
    if settings.steps is not None and settings.steps < 1:
        raise BadInput(f"steps = {settings.steps} is no number of steps", hint="give a number from 1 on")
    if settings.max_saved is not None:
        bytes_in(settings.max_saved, "max-saved")
    return settings


def _from_file(folder: Path) -> dict[str, Any]:
    for place in (folder, *folder.parents):
        path = place / SETTINGS_FILE
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
        raise BadInput(f"{path}: tool.gradviz is no table", hint="write [tool.gradviz] on a line of its own")
    return {_name(path, text, key): _value(path, text, key, value) for key, value in table.items()}


def _name(path: Path, text: str, key: str) -> str:
    names = {field.name.replace("_", "-"): field.name for field in fields(CheckSettings)}
    if key not in names:
        where = f"{path}, line {_line_of(text, key)}"
        raise BadInput(f"{where}: [tool.gradviz] has no {key!r}", hint=near_matches(key, names))
    return names[key]


def _value(path: Path, text: str, key: str, value: object) -> Any:
    try:
        return msgspec.convert(value, get_type_hints(CheckSettings)[key.replace("-", "_")])
    except msgspec.ValidationError as error:
        where = f"{path}, line {_line_of(text, key)}"
        reason = str(error)
        raise BadInput(f"{where}: {key} = {value!r} cannot be: {reason[:1].lower()}{reason[1:]}") from error


def _line_of(text: str, key: str) -> int:
    """The line of a key in the table; the parser has found it there, but does not tell where."""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\s*(.*?)\s*\]", line)
        if header and "=" not in line.partition("]")[0]:
            inside = header[1].replace(" ", "") == "tool.gradviz"
        elif inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return number
    return 1
