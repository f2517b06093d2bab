"""Programs that do not end, or leave processes behind, do not keep a test waiting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.prepared.process import TIMED_OUT, prepared_process

LEAVES_PROCESSES = """
import subprocess, sys
print("begins", flush=True)
for is_elsewhere in (False, True):
    subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=is_elsewhere)
"""


@pytest.mark.parametrize(
    ("end", "exit_code"), [("sys.exit(3)", 3), ("subprocess.run(['sleep', '600'])", TIMED_OUT)], ids=["ends", "hangs"]
)
def test_what_a_program_has_started_is_ended_at_its_time_limit(end: str, exit_code: int, tmp_path: Path) -> None:
    (reading, typing), (printed, printing) = os.pipe(), os.pipe()
    streams = (reading, printing, printing)
    words = ["-c", LEAVES_PROCESSES + end]
    done = prepared_process().run("tests.prepared.programs:run_text", words, streams, tmp_path, dict(os.environ), 2.0)
    for descriptor in {*streams, typing}:
        os.close(descriptor)
    assert done == exit_code
    with os.fdopen(printed) as output:
        assert output.read() == "begins\n"  # and then the end: nobody has the other end of the pipe open
