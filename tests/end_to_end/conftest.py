"""Fixtures of the tests of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.capture.capture_file import write_capture
from tests.captures import small_capture
from tests.end_to_end.command import written_script


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script and a capture; the script prints a word when it runs."""
    written_script(
        tmp_path, "print('the script ran')\nimport torch\ntorch.ones(1, requires_grad=True).exp().backward()\n"
    )
    (tmp_path / "run.gradviz").write_bytes(write_capture(small_capture()))
    return tmp_path
