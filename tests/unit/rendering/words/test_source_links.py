"""Links to source lines."""

from __future__ import annotations

import pytest

from gradviz.errors import BadInput
from gradviz.rendering.words.source_links import EDITORS, editor_template, source_link


def test_every_editor_gets_the_file_and_all_but_the_system_the_line() -> None:
    for name in EDITORS:
        link = source_link(editor_template(name), "/home/me/train.py", 41)
        assert link is not None
        assert "/home/me/train.py" in link
        assert link.endswith("41") or name == "file"


@pytest.mark.parametrize(
    ("file", "link"),
    [
        ("/my net/größe#1.py", "file:///my%20net/gr%C3%B6%C3%9Fe%231.py"),
        ("C:\\nets\\train.py", "file:///C:/nets/train.py"),
        ('/a"><script>.py', "file:///a%22%3E%3Cscript%3E.py"),
        ("/not-utf8-\udcff.py", "file:///not-utf8-%FF.py"),
        ("/windows-\ud800.py", "file:///windows-%ED%A0%80.py"),
        ("<stdin>", None),
        ("<ipython-input-1>", None),
        ("train.py", None),
    ],
)
def test_a_file_name_is_encoded_and_code_without_a_file_has_no_link(file: str, link: str | None) -> None:
    assert source_link(EDITORS["file"], file, 1) == link


def test_a_template_can_be_used() -> None:
    template = editor_template("my-editor://open?f={file}&l={line}&c=1")
    assert source_link(template, "/a.py", 7) == "my-editor://open?f=/a.py&l=7&c=1"


@pytest.mark.parametrize(
    ("editor", "words"),
    [
        ("vscod", "did you mean 'vscode'"),
        ("code {file}", "begins with no scheme"),
        ("x://{path}", "unknown {path}"),
        ("x://{line}", "lacks {file}"),
        ("x://\x1b{file}", "has unprintable characters"),
        ("", "unknown editor ''"),
    ],
)
def test_a_name_that_is_neither_an_editor_nor_a_link_is_refused(editor: str, words: str) -> None:
    with pytest.raises(BadInput) as refusal:
        editor_template(editor)
    assert words in str(refusal.value)
