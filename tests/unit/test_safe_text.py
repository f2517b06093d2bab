"""Text from programs and captures is made safe by one module, and nothing is printed without it."""

from __future__ import annotations

import ast
import json
import sys
import unicodedata
from pathlib import Path

import pytest

import gradviz
from gradviz.safe_text import json_escaped, json_printable, one_line, printable, terminal_text

PACKAGE = Path(gradviz.__file__).parent
EVERY_CHARACTER = [chr(number) for number in range(sys.maxunicode + 1)]
ACTING = [each for each in EVERY_CHARACTER if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
INVISIBLE = ["\u034f", "\u115f", "\u1160", "\u17b4", "\u180b", "\u2800", "\u3164", "\uffa0", "\ufffe", "\U000e0100"]


def test_every_character_that_acts_or_is_invisible_becomes_a_question_mark() -> None:
    wrong = [hex(ord(each)) for each in (*ACTING, *INVISIBLE) if printable(each) != "?" and each not in "\t\n"]
    assert wrong == []
    assert printable("a\tb\nc é 权重 😀 ❤️ ∂ ×") == "a\tb\nc é 权重 😀 ❤️ ∂ ×"


def test_one_line_has_no_line_feed_whatever_ends_a_line_for_some_reader() -> None:
    assert one_line(" a\r\nb\x85c\u2028d\x0be\x1c\tf ") == "a b c d e f"
    assert one_line("x\x9b2J\u202ey") == "x?2J?y"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("\x1b]8;;file:///a.py\x1b\\a.py\x1b]8;;\x1b\\", "\x1b]8;;file:///a.py\x1b\\a.py\x1b]8;;\x1b\\"),
        ("\x1b[2J\x1b[H\x1b]0;title\x07\x1bc", "?[2J?[H?]0;title??c"),
        ("\x1b]8;;a\x1b[2J\x1b\\", "?]8;;a?[2J?\\"),
        ("a\rb\x9b31m\x08", "a?b?31m?"),
        ("name\n::error file=a.py::no", "name\n: :error file=a.py::no"),
        ("  ::stop-commands::x", "  : :stop-commands::x"),
        ("a ##[error]b ##vso[task.setvariable]c", "a # #[error]b # #vso[task.setvariable]c"),
        ("torch::autograd::AccumulateGrad ## heading", "torch::autograd::AccumulateGrad ## heading"),
    ],
)
def test_a_terminal_gets_colours_and_links_and_nothing_else_that_acts(text: str, shown: str) -> None:
    assert terminal_text(text) == shown


def test_json_keeps_every_character_as_data_and_shows_none_that_acts() -> None:
    # Without lone surrogates, which JSON has no text for: they are made writable before.
    text = "".join(each for each in ACTING + INVISIBLE if unicodedata.category(each) != "Cs") + "\\u0007 é ##[x"
    document = json_escaped(json.dumps({text: text}, ensure_ascii=False))
    assert json.loads(document) == {text: text}
    assert printable(document) == terminal_text(document) == document


def test_json_for_pages_holds_printable_texts_only() -> None:
    text = 'a\\u0007 \\\\\x07 \r\n\t"\x9b\u202e\x7f\\r'
    assert json.loads(json_printable(json.dumps([text], ensure_ascii=False))) == ['a\\u0007 \\\\? ?\n\t"???\\r']


# What may write to a stream itself, and why.
WRITERS = {
    "cli/terminal/printing.py": {"echo", "write_output(-)"},  # the one way
    "cli/terminal/progress.py": {"write"},  # an own line, of which the words are made safe
    "cli/terminal/paging.py": {"write"},  # to the pager, what was made safe
    "file_output.py": {"write"},  # whole files
    "recording/script_runner.py": {"write"},  # what Python prints of an error of the program
    "recording/recorded_block.py": {"write"},  # a constant
    "recording/run_session.py": {"write"},  # what Python prints of an error of the program
    "recording/ranks/child_session.py": {"write"},  # a line of a process that has no command line, made safe
    "recording/ranks/member.py": {"write"},  # the same
    "recording/ranks/injected/sitecustomize.py": {"write"},  # the same, before gradviz can be imported
}


def test_nothing_is_printed_past_the_one_module_that_prints() -> None:
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not any(word in text for word in ("echo", "print", "write")):  # to parse all files takes seconds
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (way := _way_of_printing(node)):
                found.setdefault(path.relative_to(PACKAGE).as_posix(), set()).add(way)
    assert {
        file: ways - WRITERS.get(file, set()) for file, ways in found.items() if ways - WRITERS.get(file, set())
    } == {}


def _way_of_printing(call: ast.Call) -> str:
    """How it writes to a stream, if it does."""
    called = ast.unparse(call.func)
    name = called.rpartition(".")[2]
    if name in ("echo", "secho", "echo_via_pager") or called == "print":
        return name
    if name in ("write", "writelines") and any(each in called for each in ("std", "stream", "pager")):
        return "write"
    if name == "write_output" and call.args and ast.unparse(call.args[0]) in ("'-'", "STANDARD_OUTPUT"):
        return "write_output(-)"
    return ""
