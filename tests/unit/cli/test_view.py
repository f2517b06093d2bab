"""``gradviz view`` on a saved capture: where the page is written, and whether a browser is asked to open it."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

import pytest
from msgspec.structs import replace

from gradviz.capture.capture_file import write_capture
from gradviz.cli import run
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


def test_of_several_graphs_each_has_a_page_and_the_first_is_opened(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    assert run(["view", "twice.gradviz", "--backward", "all"]) == 0
    assert len(list(Path().glob("gradviz-*/twice-?.html"))) == 2
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["opened", "wrote"]
    assert len(opened) == 1


def test_a_wrong_option_is_refused_and_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["view", "run.gradviz", "--theme", "drak"]) == 2
    assert capsys.readouterr().err == "gradviz: unknown theme 'drak'; did you mean 'dark'?\n"
    assert list(Path().glob("gradviz-*")) == []
