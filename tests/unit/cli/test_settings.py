"""What ``[tool.gradviz]`` says, what the command line says above it, and what is wrong with either."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.cli.settings import CheckSettings, check_settings
from gradviz.errors import BadInput


def folder_with(tmp_path: Path, table: str) -> Path:
    (tmp_path / "pyproject.toml").write_text(table)
    below = tmp_path / "below"
    below.mkdir()
    return below


def test_the_command_line_goes_before_the_nearest_table(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, '[tool.gradviz]\nselect = ["GV1"]\nfail-on = "error"\n')
    assert check_settings({"select": (), "fail_on": None}, folder) == CheckSettings(select=("GV1",), fail_on="error")
    assert check_settings({"select": ("GV2",)}, folder).select == ("GV2",)


def test_a_project_without_a_table_has_the_defaults(tmp_path: Path) -> None:
    assert check_settings({}, folder_with(tmp_path, "[tool.other]\nselect = 1\n")) == CheckSettings()


@pytest.mark.parametrize(
    ("table", "refusal"),
    [
        ('[tool.other]\nx = 1\n[tool.gradviz]\nselct = ["GV1"]\n', r"line 4: .*no 'selct'; did you mean 'select'"),
        ('[tool.gradviz]\n\nselect = "GV1"\n', r"line 3: select = 'GV1' cannot be"),
        ('[tool.gradviz]\nfail-on = "warnings"\n', r"line 2: fail-on = 'warnings'"),
        ("[tool]\ngradviz = 3\n", r"tool.gradviz is no table"),
        ("[tool.gradviz\n", r"cannot read .*line 1"),
    ],
)
def test_a_broken_table_is_refused_with_its_line(table: str, refusal: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=refusal):
        check_settings({}, folder_with(tmp_path, table))


def test_an_unknown_severity_on_the_command_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"'eror'.*did you mean 'error'"):
        check_settings({"fail_on": "eror"}, tmp_path)
