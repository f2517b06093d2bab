"""Captures that lie, and names that act: a small number here, many with ``make hostile``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import typing
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any, get_type_hints
from xml.etree import ElementTree

import msgspec
import pytest

from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import load_capture, write_capture
from gradviz.capture.run_log import RunEnd, RunHeader
from gradviz.cli.player import player
from gradviz.cli.player.keys import Keys
from gradviz.cli.player.replay_session import ReplaySession
from gradviz.cli.serving.served_page import ServedPage
from gradviz.rendering.replay.step_text import TextLook
from gradviz.safe_text import printable
from gradviz.view.keywords import view_options
from tests.end_to_end.command import gradviz
from tests.hostile.driving import EVERY_COMMAND, outcomes
from tests.hostile.mutants import Examined, examined, log_records, originals
from tests.hostile.mutating import capture_file
from tests.hostile.whole_capture import whole_capture

HOSTILE = (
    "\r\n::error file=a.py::no\n##[error]\x1b[2J\x1b]0;t\x07\x9b31m\x85\x00[/]{red}\u202e\u200b\U000e0041</script>--\\"
)
COMMANDS = frozenset({"function", "name", "forward_call", "place", "slot", "node_name", "dtype", "device", "code"})
"""Fields that say what a call is, and so which rules look at it."""


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_a_file_that_lies_is_refused_in_one_line_or_shown(first: int, tmp_path: Path) -> None:
    results = [examined(seed, originals(), tmp_path, 1, Random(seed)) for seed in range(first, first + 40)]
    assert [_told(result) for result in results if result.faults] == []
    assert {bool(result.refusal) for result in results} == {True, False}


def _told(result: Examined) -> str:
    return f"seed {result.seed}: {result.change}: {result.faults}"


def test_the_originals_of_the_mutants_are_shown_by_every_command(tmp_path: Path) -> None:
    file = tmp_path / "net.gradviz"
    file.write_bytes(write_capture(whole_capture()))
    shutil.copy(file, tmp_path / "original.gradviz")
    assert load_capture(file) == whole_capture()
    done = list(outcomes(file, EVERY_COMMAND))
    assert [(each.command, each.fault) for each in done if each.fault] == []
    assert {each.command[0] for each in done if each.exit_code == 0} == {each[0] for each in EVERY_COMMAND} - {"check"}


@pytest.mark.parametrize("log", [False, True], ids=["capture", "run log"])
def test_the_mutants_reach_every_field_of_the_schema(log: bool) -> None:
    """A field that the originals leave at its default is changed in no mutant, nor is anything inside it."""
    original: Any = log_records() if log else whole_capture()
    filled: dict[type[msgspec.Struct], set[str]] = {}
    for struct in _structs(original):
        filled.setdefault(type(struct), set()).update(
            field.name for field in msgspec.structs.fields(struct) if getattr(struct, field.name) != _default(field)
        )
    expected = _struct_types([RunHeader, RunEnd] if log else [Capture])
    empty = {each.__name__: sorted({*each.__struct_fields__} - filled.get(each, set())) for each in expected}
    assert {name: fields for name, fields in empty.items() if fields} == {}


def _structs(value: Any) -> Iterator[msgspec.Struct]:
    if isinstance(value, msgspec.Struct):
        yield value
        entries: Iterable[Any] = [getattr(value, name) for name in value.__struct_fields__]
    else:
        entries = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for entry in entries:
        yield from _structs(entry)


def _default(field: Any) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _struct_types(starts: Iterable[Any]) -> set[type[msgspec.Struct]]:
    found: set[type[msgspec.Struct]] = set()
    waiting = list(starts)
    while waiting:
        hint = waiting.pop()
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in found:
            found.add(hint)
            waiting += get_type_hints(hint).values()
        waiting += typing.get_args(hint)
    return found


# Names that act.


def _renamed(value: Any, rename: Callable[[str], str], kept: frozenset[str]) -> Any:
    """`value` with every text renamed that may be any text, except in the fields `kept`."""
    if isinstance(value, msgspec.Struct):
        hints = get_type_hints(type(value))
        fields = [name for name in value.__struct_fields__ if name not in kept and not _has_choices(hints[name])]
        changes = {name: _renamed(getattr(value, name), rename, kept) for name in fields}
        return msgspec.structs.replace(value, **changes)
    if isinstance(value, dict):
        return {_renamed(key, rename, kept): _renamed(entry, rename, kept) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_renamed(entry, rename, kept) for entry in value)
    return rename(value) if isinstance(value, str) else value


def _has_choices(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Literal or any(map(_has_choices, typing.get_args(hint)))


@pytest.mark.parametrize(
    ("kept", "commands"),
    [(frozenset[str](), EVERY_COMMAND), (COMMANDS, [each for each in EVERY_COMMAND if each[0] == "check"])],
    ids=["every text", "names"],
)
def test_no_name_in_a_capture_acts_on_a_terminal_a_build_or_a_file(
    kept: frozenset[str], commands: Sequence[tuple[str, ...]], tmp_path: Path
) -> None:
    hostile_capture = _renamed(whole_capture(), lambda text: f"{text}{HOSTILE}", kept)
    file = tmp_path / "net.gradviz"
    file.write_bytes(write_capture(hostile_capture))
    (tmp_path / "original.gradviz").write_bytes(write_capture(whole_capture()))
    for done in outcomes(file, commands):
        assert done.fault is None, done.command
        text = re.sub(r"\x1b\[[\d;]*m|\x1b\]8;;[^\x1b]*\x1b\\", "", done.stdout + done.stderr)
        assert printable(text) == text, done.command
        if "github" in done.command:
            findings = re.findall(r"^::(?:error|warning|notice) .*$", done.stdout, re.MULTILINE)
            assert findings == done.stdout.splitlines()
        else:
            assert re.search(r"^\s*::|##\[", text, re.MULTILINE) is None, done.command
            if done.stdout and ("json" in done.command or "--json" in done.command):
                json.loads(done.stdout)
        if "junit" in done.command:
            ElementTree.fromstring(done.stdout)
    for written in tmp_path.glob("out.*"):
        _check_file(written, hostile_capture)


def _check_file(path: Path, capture: Capture) -> None:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        packs = re.findall(r'type="application/octet-stream">([^<]*)<', text)
        assert packs
        for packed in packs:
            data = zlib.decompress(b64decode(packed), -15).decode()
            assert [each for each in _texts(json.loads(data)) if printable(each) != each] == []
    if path.suffix in (".svg", ".graphml"):
        ElementTree.fromstring(text)
    if path.name == "out.json":
        assert json.loads(text)["program"]["name"] == capture.program.name
    if path.suffix == ".dot" and shutil.which("dot"):
        subprocess.run(["dot", "-Tcanon", path], check=True, capture_output=True)
    shown = text.replace("\u2060", "") if path.suffix == ".mmd" else text
    assert printable(shown) == shown, path.name
    if path.suffix != ".html":  # all others can go to the log of a build
        assert re.search(r"^\s*::|##\[", text, re.MULTILINE) is None, path.name


def _texts(document: Any) -> list[str]:
    if isinstance(document, str):
        return [document]
    entries = [*document, *document.values()] if isinstance(document, dict) else document
    return [text for entry in entries for text in _texts(entry)] if isinstance(entries, list) else []


@pytest.mark.parametrize("name", ["", " ", "\u3164"])
def test_a_blank_title_is_drawn_by_graphviz(name: str, tmp_path: Path) -> None:
    capture = whole_capture()
    capture = msgspec.structs.replace(capture, program=msgspec.structs.replace(capture.program, name=name))
    file = tmp_path / "net.gradviz"
    file.write_bytes(write_capture(capture))
    (done,) = outcomes(file, [("render", "{file}", "-o", "{folder}/out.dot", "--backward", "1")])
    assert done.exit_code == 0
    assert "<B></B>" not in (tmp_path / "out.dot").read_text()


def test_a_script_with_a_name_that_acts_is_run_and_named_harmlessly(tmp_path: Path) -> None:
    name = "\x1b[2J\r\n::error file=a.py::no \x9b\u202e.py"
    script = """
import torch
w = torch.ones(2, requires_grad=True)
parts = {'k\\x1b[2J\\n::error::': w * 2}
sum(parts.values()).sum().backward()
"""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / name).write_text(script)
    (tmp_path / "net" / "a\nb.py").write_text(script)
    assert "gradients of backward 1 at a b.py:" in gradviz("flow", "a\nb.py", cwd=tmp_path / "net").stdout
    for command in (
        ("tree", name),
        ("render", name, "-o", "out.svg"),
        ("flow", name),
        ("tree", name, "--from", "nowhere"),
    ):
        run = gradviz(*command, cwd=tmp_path / "net", env={"TMPDIR": str(tmp_path)})  # where recordings are kept
        text = run.stdout + run.stderr
        assert "Traceback" not in text
        assert printable(text) == text
        assert re.search(r"^\s*::", text, re.MULTILINE) is None


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_hostile_captures_are_drawn_as_pictures_or_refused(suffix: str, tmp_path: Path) -> None:
    for seed in range(2):
        content, change = originals()[1].mutant(seed)
        (tmp_path / "net.gradviz").write_bytes(capture_file(content))
        (done,) = outcomes(tmp_path / "net.gradviz", [("render", "{file}", "-o", f"{{folder}}/out.{suffix}")])
        assert done.fault is None, (seed, change)


def test_the_player_of_a_hostile_capture_shows_only_printable_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = _renamed(whole_capture(), lambda text: f"{text}{HOSTILE}", frozenset())
    keys = iter([*"nnnonc", "g", "2", "\r", "/", "a", "\r", "q"])
    session = ReplaySession(capture, capture.graphs[0], (), TextLook(width=80), has_own_width=True)
    words = session.words(view_options({}))
    monkeypatch.setattr(player, "keys_of_terminal", lambda: nullcontext(Keys(lambda: next(keys), lambda: False)))
    player.Player(session, view_options({}), words, range(len(words.replay) + 1)).play()
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\x1b\]8;;[^\x1b]*\x1b\\", "", capsys.readouterr().out).replace("\r", "")
    assert "step" in shown
    assert printable(shown) == shown


def test_the_served_page_of_a_file_that_turns_hostile_stays_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net\x1b[2J.gradviz"
    file.write_bytes(write_capture(whole_capture()))
    page = ServedPage(lambda version: f"{version} {load_capture(file).program.name}", file)
    file.write_bytes(b"gradviz capture 1\n\x00 no capture any more")
    page.update()
    said = capsys.readouterr().err
    assert page.content.startswith("1 ")
    assert said.count("\n") == 1 and printable(said) == said
    file.write_bytes(write_capture(msgspec.structs.replace(whole_capture(), backward_calls=7)))
    page.update()
    assert page.content.startswith("2 ")
