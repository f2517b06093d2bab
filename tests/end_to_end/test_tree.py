"""`gradviz tree` in use: windows, colours, pagers, searches, and misspelt names."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gradviz.capture.capture import Capture, Program
from gradviz.capture.capture_file import write_capture
from gradviz.graph.model import BackwardCall
from tests.builders import chain_graph, graph_of, transformer
from tests.end_to_end.command import gradviz, refusal, refused, written_script
from tests.end_to_end.in_a_terminal import in_a_terminal

LINK = "\x1b]8;;"


@pytest.fixture
def captures(folder: Path) -> Path:
    """The folder with a script and a small capture, and two larger captures in it."""
    for name, graph in (("transformer", transformer(12)), ("chain", chain_graph(200))):
        capture = Capture(Program("train.py"), graphs=(graph,))
        (folder / f"{name}.gradviz").write_bytes(write_capture(capture))
    return folder


def test_a_terminal_gets_colours_and_links_and_a_pipe_gets_neither(captures: Path) -> None:
    shown = in_a_terminal("tree", "run.gradviz", cwd=captures)
    assert shown.exit_code == 0
    assert f"{LINK}file:///project/train.py\x1b\\train.py:7" in shown.text
    assert "\x1b[36m○" in shown.text
    assert "\x1b" not in gradviz("tree", "run.gradviz", cwd=captures).stdout


def test_colours_follow_the_user(captures: Path) -> None:
    assert "\x1b[" not in in_a_terminal("tree", "run.gradviz", cwd=captures, env={"NO_COLOR": "1"}).text
    assert "\x1b[" not in in_a_terminal("tree", "run.gradviz", "--color", "never", cwd=captures).text
    piped = gradviz("tree", "run.gradviz", "--color", "always", cwd=captures, env={"NO_COLOR": "1"})
    assert "\x1b[36m○" in piped.stdout
    assert LINK not in piped.stdout


def test_lines_open_in_the_users_editor(captures: Path) -> None:
    shown = in_a_terminal("tree", "run.gradviz", cwd=captures, env={"GRADVIZ_EDITOR": "vscode"})
    assert f"{LINK}vscode://file/project/train.py:7\x1b\\train.py:7" in shown.text
    own = "my://open?where={file}&at={line}"
    assert f"{LINK}my://open?where=/project/train.py&at=7" in in_a_terminal(
        "tree", "run.gradviz", "--editor", own, cwd=captures
    ).text  # fmt: skip


def test_a_tree_is_as_wide_as_its_window(captures: Path) -> None:
    shown = in_a_terminal("tree", "transformer.gradviz", "--color", "never", cwd=captures, size=(40, 100))
    assert "note: 40 columns have no room" in shown.text


def test_what_is_longer_than_the_window_goes_through_the_pager(captures: Path) -> None:
    mark = {"PAGER": "sed s/^/paged:/"}
    long = in_a_terminal("tree", "chain.gradviz", "--all", cwd=captures, env=mark)
    assert long.text.count("\npaged:") > 200
    assert "paged" not in in_a_terminal("tree", "chain.gradviz", cwd=captures, env=mark).text
    assert "paged" not in in_a_terminal("tree", "chain.gradviz", "--all", "--no-pager", cwd=captures, env=mark).text
    assert "paged" not in gradviz("tree", "chain.gradviz", "--all", cwd=captures, env=mark).stdout


def test_less_leaves_colours_and_the_text_as_they_are(captures: Path) -> None:
    assert in_a_terminal("tree", "chain.gradviz", "--all", cwd=captures, env={"PAGER": "printenv LESS"}).text == "FRX\n"
    own = {"PAGER": "printenv LESS", "LESS": "-i"}
    assert in_a_terminal("tree", "chain.gradviz", "--all", cwd=captures, env=own).text == "-i\n"


@pytest.mark.parametrize("pager", ["no-such-pager", "QUIET=1 no-such-pager", "", "cat"])
def test_without_a_pager_the_whole_text_is_there(captures: Path, pager: str) -> None:
    shown = in_a_terminal("tree", "chain.gradviz", "--all", cwd=captures, env={"PAGER": pager})
    assert shown.exit_code == 0
    assert shown.text.count("● add") == 200


def test_a_user_who_leaves_the_pager_early_makes_no_error(captures: Path) -> None:
    many = Capture(Program("train.py"), graphs=(chain_graph(5_000),))
    (captures / "many.gradviz").write_bytes(write_capture(many))
    shown = in_a_terminal("tree", "many.gradviz", "--all", "--color", "never", cwd=captures, env={"PAGER": "head -n 2"})
    assert (shown.exit_code, shown.text) == (
        0,
        "operation  shape   grad_fn         line\n◆ loss     scalar  backward()\n",
    )


def test_a_search_that_finds_nothing_says_so_in_one_line_and_ends_as_grep_does(captures: Path) -> None:
    run = gradviz("tree", "transformer.gradviz", "--find", "sofmax", cwd=captures)
    assert (run.exit_code, run.stdout) == (1, "")
    assert run.stderr == ("gradviz: nothing in this graph matches 'sofmax'; did you mean 'softmax' or 'log_softmax'?\n")


def test_a_search_that_finds_nothing_loses_no_recording(captures: Path) -> None:
    run = gradviz("tree", "train.py", "--find", "softmax", cwd=captures)
    assert run.exit_code == 1
    kept = run.stderr.rpartition("the recording is kept in ")[2].strip()
    assert "● exp" in gradviz("tree", kept, "--find", "exp", cwd=captures).stdout
    Path(kept).unlink()


def test_who_asks_for_values_sees_them_without_naming_their_columns(folder: Path) -> None:
    written_script(
        folder,
        "import torch\nx = torch.tensor(2.0, requires_grad=True)\ny = torch.log(x * 5)\ny.backward()",
    )
    lines = gradviz("tree", "train.py", "--values", cwd=folder).stdout.splitlines()
    assert lines[0].split()[-2:] == ["value", "gradient"]
    assert next(line for line in lines if "mul" in line).split()[-2:] == ["10", "0.1"]


def test_of_several_graphs_those_without_a_match_say_so(captures: Path) -> None:
    graphs = (graph_of("w -> Exp -> loss"), graph_of("w -> Sin -> loss"))
    calls = [replace(graph, backward=BackwardCall(number)) for number, graph in enumerate(graphs, 1)]
    (captures / "two.gradviz").write_bytes(write_capture(Capture(Program("train.py"), graphs=tuple(calls))))
    run = gradviz("tree", "two.gradviz", "--find", "sin", cwd=captures)
    assert run.exit_code == 0
    assert run.stdout.startswith("backward 1\nnothing in this graph matches 'sin'\n\nbackward 2\n  operation")
    assert gradviz("tree", "two.gradviz", "--find", "cos", cwd=captures).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--columns", "shap,line"), "unknown column 'shap'; did you mean 'shape'?"),
        (("--columns", "line,line"), "column 'line' is named twice; name it once"),
        (("--find", "(a"), "'(a' is not a regular expression: missing ), unterminated subpattern at position 0"),
        (("--editor", "vscod"), "unknown editor 'vscod'; did you mean 'vscode' or 'vscodium'"),
        (("--editor", "vscode://{path}"), "the link 'vscode://{path}' has an unknown {path}"),
        (("--color", "sometimes"), "'sometimes' is not one of 'auto', 'always', 'never'"),
    ],
)
def test_a_mistake_in_an_option_is_reported_before_the_script_runs(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused("tree", "train.py", *arguments, cwd=folder)


def test_a_name_to_start_from_that_is_mistyped_is_reported_with_similar_names(captures: Path) -> None:
    run = gradviz("tree", "transformer.gradviz", "--from", "h.3.mpl.fc.weight", cwd=captures)
    assert "nothing in this graph is named 'h.3.mpl.fc.weight'; did you mean 'h.3.mlp.fc.weight'" in refusal(run)


def test_data_to_start_from_is_referred_to_what_uses_it(captures: Path) -> None:
    run = gradviz("tree", "transformer.gradviz", "--from", "tokens", cwd=captures)
    assert "'tokens' needs no gradient" in refusal(run)
    assert "--reverse" in refusal(run)
    assert "┌─· tokens" in gradviz("tree", "transformer.gradviz", "--from", "tokens", "--reverse", cwd=captures).stdout
