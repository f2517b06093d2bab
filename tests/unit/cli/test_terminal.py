"""Whether output is coloured follows the common conventions."""

from __future__ import annotations

import pytest

from gradviz.cli.terminal.terminal import wants_colors


@pytest.mark.parametrize(
    ("environment", "in_a_terminal", "in_a_pipe"),
    [
        ({}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_the_environment_says_whether_there_is_colour(
    environment: dict[str, str], in_a_terminal: bool, in_a_pipe: bool
) -> None:
    assert wants_colors("auto", environment, is_interactive=True) is in_a_terminal
    assert wants_colors("auto", environment, is_interactive=False) is in_a_pipe


def test_the_command_line_has_the_last_word() -> None:
    assert wants_colors("always", {"NO_COLOR": "1"}, is_interactive=False)
    assert not wants_colors("never", {"FORCE_COLOR": "1"}, is_interactive=True)
