"""Runs a program in a separate process, with a recorder around what it calls ``program``.

The stack of a dying process, the end of the interpreter and `torch.compile` need that.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.end_to_end.command import Run, installed_python, python

_ROOT = Path(__file__).parents[3]

_PREAMBLE = """
import json
import sys

import torch

from gradviz.recording.run.recording_plan import RecordingPlan
from tests.integration.recording.helpers import record
from tests.integration.recording.helpers import recorder
from tests.integration.recording.helpers import EVERY_BACKWARD
"""


_OF_TORCH = re.compile(r".*No CUDA runtime is found.*\n|.*Guards may run slower.*\n.*\n")
"""What torch prints by itself: some releases when inductor is loaded and there is no GPU, Dynamo with Python 3.13.0."""


def child_result(source: str) -> Any:
    """What the program printed last, as JSON; fails where it did not end well or wrote to standard error."""
    return _printed(installed_python("-c", _PREAMBLE + dedent(source), cwd=_ROOT))


def forked_result(source: str) -> Any:
    """The same in a process that is forked with torch and its compiler loaded, for programs that compile."""
    return _printed(python("-c", _PREAMBLE + dedent(source), cwd=_ROOT))


def _printed(done: Run) -> Any:
    last = (done.stdout.splitlines() or ["null"])[-1]
    assert done.exit_code == 0, f"exit code {done.exit_code} after {last}: {done.stderr[-3000:]}"
    said = _OF_TORCH.sub("", done.stderr)
    assert said == "", said[-3000:]
    return json.loads(last)
