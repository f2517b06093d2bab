"""Settings from ``[tool.gradviz]`` and from the command line, and errors in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.cli.options.settings import CheckSettings, check_settings
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
        ('[tool.gradviz]\n\nselect = "GV1"\n', r"line 3: select = 'GV1' is not allowed"),
        ('[tool.gradviz]\nfail-on = "warnings"\n', r"line 2: .*'warnings'; did you mean 'warning'"),
        ('[tool.gradviz]\nsteps = 5\nselect = ["GV1O1"]\n', r"line 3: no rule 'GV1O1'"),
        ('[tool.gradviz]\nformat = "xml"\n', r"line 2: unknown format 'xml'"),
        ("[tool.gradviz]\nseconds = -1\n", r"line 2: seconds = -1 is not a duration"),
        ("[tool.gradviz]\nsteps = 0\n", r"line 2: steps = 0 is not a number"),
        ('[tool.gradviz]\nmax-saved = "2XB"\n', r"line 2: max-saved '2XB' is not a size"),
        ('[tool.gradviz]\nall-params-get-grad = "yes"\n', r"line 2: all-params-get-grad = 'yes' is not allowed"),
        ("[tool]\ngradviz = 3\n", r"tool.gradviz is not a table"),
        ("[tool.gradviz\n", r"cannot read .*line 1"),
    ],
)
def test_a_broken_table_is_refused_with_its_line(table: str, refusal: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=refusal):
        check_settings({}, folder_with(tmp_path, table))


def test_every_option_of_the_check_itself_can_be_in_the_table(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path,
        """[tool.gradviz]
select = ["GV1", "vanishing_chain"]
ignore = ["GV101"]
format = "json"
fail-on = "never"
baseline = "known.json"
seconds = 5
steps = 3
max-saved = "2GiB"
all-params-get-grad = true
""",
    )
    assert check_settings({}, folder) == CheckSettings(
        select=("GV1", "vanishing_chain"),
        ignore=("GV101",),
        format="json",
        fail_on="never",
        baseline=str(tmp_path / "known.json"),
        seconds=5.0,
        steps=3,
        max_saved="2GiB",
        all_params_get_grad=True,
    )


def test_an_unknown_severity_on_the_command_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"'eror'.*did you mean 'error'"):
        check_settings({"fail_on": "eror"}, tmp_path)
