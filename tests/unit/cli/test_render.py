"""``gradviz render`` on a saved capture: which files it writes, in which format, with which options."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gradviz.capture.capture_file import write_capture
from gradviz.cli import run
from gradviz.graph.model import BackwardCall
from gradviz.rendering.formats import FORMATS
from tests.builders import chain_graph
from tests.captures import small_capture, small_graph


@pytest.fixture(autouse=True)
def in_a_folder_with_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls = tuple(replace(small_graph(), backward=BackwardCall(number)) for number in (1, 2))
    Path("run.gradviz").write_bytes(write_capture(small_capture()))
    Path("twice.gradviz").write_bytes(write_capture(replace(small_capture(), graphs=calls)))
    Path("large.gradviz").write_bytes(write_capture(replace(small_capture(), graphs=(chain_graph(900),))))


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["render", *arguments]) == 2
    return capsys.readouterr().err.removeprefix("gradviz: ").rstrip("\n")


def written() -> set[str]:
    return {path.name for path in Path().iterdir() if path.suffix != ".gradviz"}


def test_every_format_is_written_by_its_suffix_at_once() -> None:
    outputs = [f"out{suffix}" for each in FORMATS for suffix in each.suffixes]
    run(["render", "run.gradviz", *(word for output in outputs for word in ("-o", output))])
    assert written() == set(outputs)


def test_the_help_names_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    run(["render", "--help"])
    text = capsys.readouterr().out
    assert all(f"\n    {each.name} " in text and each.summary in text for each in FORMATS)


def test_without_an_output_the_file_is_called_after_the_format() -> None:
    run(["render", "run.gradviz", "--format", "model-explorer"])
    assert written() == {"run.model-explorer.json"}


def test_several_graphs_are_numbered_before_a_double_suffix() -> None:
    run(["render", "twice.gradviz", "--backward", "all", "-o", "net.model-explorer.json", "-o", "net.svg"])
    assert written() == {"net-1.model-explorer.json", "net-2.model-explorer.json", "net-1.svg", "net-2.svg"}


def test_an_option_that_no_chosen_format_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        refusal(capsys, "run.gradviz", "-o", "a.svg", "--scale", "3") == "--scale has no effect on svg; it is for png"
    )
    assert run(["render", "run.gradviz", "-o", "a.svg", "-o", "a.png", "--scale", "1"]) != 2
    assert written() == {"a.svg", "a.png"}


def test_an_editor_in_the_environment_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADVIZ_EDITOR", "vscode")
    run(["render", "run.gradviz", "-o", "a.png", "-o", "a.dot"])
    assert "vscode://file/project/train.py:7" in Path("a.dot").read_text()
    assert "a.png" in written()


@pytest.mark.parametrize(
    ("option", "value", "format_name", "said"),
    [
        ("--direction", "down", "pdf", "unknown --direction 'DOWN'"),
        ("--theme", "darc", "dot", "unknown --theme 'darc'; did you mean 'dark'?"),
        ("--arrows", "gradients", "mermaid", "unknown --arrows 'gradients'; did you mean 'gradient'?"),
        ("--editor", "vscod", "dot", "unknown editor 'vscod'; did you mean 'vscode'"),
        ("--engine", "neato", "png", "unknown --engine 'neato'"),
        ("--scale", "99", "png", "a scale of 99 is out of range"),
    ],
)
def test_a_wrong_look_is_refused_before_the_script_is_even_looked_for(
    capsys: pytest.CaptureFixture[str], option: str, value: str, format_name: str, said: str
) -> None:
    assert refusal(capsys, "no_such_script.py", "--format", format_name, option, value).startswith(said)


def test_a_file_that_a_format_refuses_does_not_cost_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, "large.gradviz", "--all", "-o", "a.mmd", "-o", "a.svg")
    assert "too large for Mermaid" in said and "show less with --depth or --max-items" in said
    assert written() == {"a.svg"}


def test_colours_that_cannot_be_are_refused_before_the_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(capsys, "no_such_script.py", "--no-gradients", "--color-by", "time")
    assert told == "--color-by time needs gradients; --no-gradients records none; leave out one"
    told = refusal(capsys, "run.gradviz", "-o", "a.json", "--color-by", "memory")
    assert told == "--color-by has no effect on json; it is for svg, png, pdf, dot, mermaid, html"
    told = refusal(capsys, "run.gradviz", "-o", "a.svg", "--color-by", "gradients")
    assert told == "unknown --color-by 'gradients'; did you mean 'gradient'?"
    assert written() == set()


def test_a_recording_without_gradients_cannot_be_coloured_by_them(capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(capsys, "large.gradviz", "-o", "a.svg", "--color-by", "gradient")
    assert "no gradients were recorded with this graph" in told
    assert written() == set()
