"""``gradviz view`` on a saved capture: where the page is written, and whether a browser is asked to open it."""

from __future__ import annotations

import socket
import tempfile
import webbrowser
from pathlib import Path

import pytest
from msgspec.structs import replace

from gradviz.api import load
from gradviz.capture.capture_file import write_capture
from gradviz.cli import run
from gradviz.errors import BadInput
from gradviz.graph.model import BackwardCall
from tests.captures import small_capture, small_graph


@pytest.fixture(autouse=True)
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that the browser was asked to open; there is no display."""
    found: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda address: not found.append(address))  # type: ignore[func-returns-value]
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    calls = tuple(replace(small_graph(), backward=BackwardCall(number)) for number in (1, 2))
    Path("run.gradviz").write_bytes(write_capture(small_capture()))
    Path("twice.gradviz").write_bytes(write_capture(replace(small_capture(), graphs=calls)))
    return found


def test_the_page_is_opened_where_there_is_a_browser(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BROWSER", "firefox")
    assert run(["view", "run.gradviz"]) == 0
    (page,) = Path().glob("gradviz-*/run.html")
    assert capsys.readouterr().out == f"opened {page.absolute()}\n"
    assert opened == [page.absolute().as_uri()]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_without_a_display_its_path_is_printed(opened: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["view", "run.gradviz", "--theme", "dark"]) == 0
    assert capsys.readouterr().out.startswith("wrote ") and opened == []


def test_several_graphs_are_in_one_page(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    assert run(["view", "twice.gradviz", "--backward", "all"]) == 0
    (page,) = Path().glob("gradviz-*/*.html")
    assert page.name == "twice.html" and page.read_text(encoding="utf-8").count('<script class="data"') == 2
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["--theme", "drak"], "unknown --theme 'drak'; did you mean 'dark'?"),
        (["--port", "8000"], "--port 8000 has no effect without --serve; add --serve"),
        (["--unfold", "atn"], "no box is named 'atn'; choose from model"),
    ],
)
def test_a_wrong_option_is_refused_and_nothing_is_written(
    options: list[str], refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["view", "run.gradviz", *options]) == 2
    assert capsys.readouterr().err.startswith(f"gradviz: {refusal}")
    assert list(Path().glob("gradviz-*")) == []


def test_a_folder_for_temporary_files_that_is_not_there_is_reported_before_the_script_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("train.py").write_text("print('the script ran')", encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", "/not/there")
    assert run(["view", "train.py"]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("gradviz: cannot write a temporary file in '/not/there': No such file or directory; set")
    assert told.out == ""


def test_a_port_that_is_in_use_is_reported_before_the_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text("print('the script ran')", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run(["view", "train.py", "--serve", "--port", str(port)]) == 2
    told = capsys.readouterr()
    assert told.err == f"gradviz: port {port} is in use; choose another one, or leave out --port\n"
    assert told.out == ""


def test_python_opens_the_same_page(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    inspection = load("run.gradviz")
    written = inspection.show(color_by="module")
    assert opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    assert inspection.show().as_uri() == opened[0]
    assert written.read_text(encoding="utf-8") == inspection.html(color_by="module")
    with pytest.raises(BadInput, match="html has no option 'colour_by'; did you mean 'color_by'"):
        inspection.show(colour_by="module")
    assert len(list(Path().glob("gradviz-*"))) == 2
