"""``gradviz view --serve`` in a browser, until Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

from gradviz.capture.capture import Program
from gradviz.capture.capture_file import write_capture
from tests.captures import small_capture
from tests.end_to_end.command import started
from tests.end_to_end.pages import started_browser


@pytest.fixture
def server(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with started("view", "run.gradviz", "--serve", cwd=folder) as process:
        yield process


def test_the_page_follows_the_capture_until_ctrl_c(folder: Path, server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    address = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", server.stdout.readline())
    assert address is not None
    with started_browser() as browser:
        page = browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(f"{address[0]}#color=module")
        expect(page).to_have_title("train.py --lr 0.1 · gradviz")
        changed = replace(small_capture(), program=Program("changed.py", torch_version="2.13.0"))
        (folder / "run.gradviz").write_bytes(write_capture(changed))
        expect(page).to_have_title("changed.py · gradviz", timeout=60_000)
        assert page.url == f"{address[0]}#color=module"
    server.send_signal(signal.SIGINT)
    assert server.communicate(timeout=600) == ("\n", "")
    assert (server.returncode, complaints) == (0, [])
