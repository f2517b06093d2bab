"""Runs every command and every format on a file in this process, and says what must not have happened."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from gradviz.capture.capture_file import write_capture
from gradviz.cli import run
from tests.hostile.whole_capture import whole_capture

MAX_SECONDS = 60.0

EVERY_COMMAND: tuple[tuple[str, ...], ...] = (
    *(("render", "{file}", "-o", f"{{folder}}/out{suffix}") for suffix in (
        ".svg", ".dot", ".mmd", ".json", ".graphml", ".model-explorer.json", ".html", ".txt",
    )),
    *(("render", "{file}", "-o", "{folder}/out.svg", "--color-by", by) for by in ("gradient", "memory", "time")),
    ("render", "{file}", "-o", "{folder}/out.svg", "--color-by", "module"),
    ("render", "{file}", "-o", "{folder}/out.html", "--all", "--plumbing"),
    ("render", "{file}", "-o", "{folder}/out.svg", "--group-by", "line"),
    ("render", "{file}", "-o", "{folder}/out.dot", "--group-by", "function", "--color-by", "gradient"),
    ("render", "{file}", "-o", "{folder}/out.svg", "--around", "loss", "--radius", "2"),
    ("tree", "{file}", "--columns", "all"),
    ("tree", "{file}", "--all", "--plumbing", "--color", "always", "--editor", "vscode"),
    ("tree", "{file}", "--find", "Mm|loss", "--ascii"),
    ("tree", "{file}", "--reverse", "--width", "40"),
    ("flow", "{file}"),
    ("flow", "{file}", "--all", "--color", "always"),
    ("flow", "{file}", "--json"),
    ("memory", "{file}"),
    *(("memory", "{file}", "--by", by) for by in ("line", "module", "operation", "dtype", "storage")),
    ("memory", "{file}", "--json", "--backward", "1"),
    ("memory", "{file}", "-o", "{folder}/out.svg", "--backward", "1"),
    ("replay", "{file}", "--all", "--backward", "1"),
    ("replay", "{file}", "--every-node", "--backward", "1"),
    ("replay", "{file}", "-o", "{folder}/steps.svg", "--backward", "1"),
    ("explain", "mm", "{file}"),
    ("explain", "loss", "{file}"),
    ("explain", "sum", "{file}", "--format", "json"),
    ("check", "{file}"),
    *(("check", "{file}", "--format", each) for each in ("json", "sarif", "github", "junit")),
    ("check", "{file}", "--why", "model.weight"),
    ("check", "{file}", "-o", "{folder}/out.svg"),
    ("check", "{file}", "--all-params-get-grad", "--max-saved", "1B"),
    *(("diff", "{original}", "{file}", "--all", "--format", each) for each in ("terminal", "json", "github")),
    ("diff", "{file}#1", "{original}", "--color", "always"),
)  # fmt: skip
"""Each command on a capture, so that every format and every report is written."""
SLOW_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("render", "{file}", "-o", "{folder}/out.png"),
    ("render", "{file}", "-o", "{folder}/out.pdf"),
    ("render", "{file}", "-o", "{folder}/out.svg", "--engine", "dot"),
)
EVERY_COMMAND_ON_A_LOG: tuple[tuple[str, ...], ...] = (
    ("flow", "{file}"),
    ("flow", "{file}", "--all", "--color", "always"),
    ("flow", "{file}", "--over-steps"),
    ("flow", "{file}", "--over-steps", "--json"),
    ("flow", "{file}", "--over-steps", "-o", "{folder}/out.svg"),
    ("render", "{file}", "-o", "{folder}/out.svg"),
)


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    command: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    fault: str | None
    """What must not happen: an exception of ours, a refusal of several lines, or too long a time."""


def outcomes(file: Path, commands: Sequence[tuple[str, ...]]) -> Iterator[Outcome]:
    """Run the commands one after the other."""
    original = file.parent / "original.gradviz"
    if not original.exists():
        original.write_bytes(write_capture(whole_capture()))
    for command in commands:
        yield outcome(tuple(part.format(file=file, folder=file.parent, original=original) for part in command))


def outcome(command: tuple[str, ...]) -> Outcome:
    """Run one command in this process."""
    stdout, stderr = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    began, fault, exit_code = time.monotonic(), None, 70
    with (
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        mock.patch.dict(os.environ, {"GRADVIZ_TRACEBACK": "1"}),
    ):
        try:
            exit_code = run(list(command))
        except Exception as error:
            fault = _in_words(error)
    seconds = time.monotonic() - began
    printed, said = _written(stdout), _written(stderr)
    if fault is None and exit_code == 2 and not re.fullmatch(r"(gradviz: [^\n]*\n)+", said):
        fault = f"a refusal that is not one line: {said!r}"
    if fault is None and seconds > MAX_SECONDS:
        fault = f"{seconds:.0f} s"
    return Outcome(command, exit_code, printed, said, seconds, fault)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def _in_words(error: Exception) -> str:
    """The exception and our innermost frame: the same words for the same fault."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/gradviz/" in frame.filename and "/tests/" not in frame.filename]
    at = own[-1] if own else frames[-1]
    return (
        f"{type(error).__name__} at {at.filename.rpartition('/gradviz/')[2]}:{at.lineno} {at.name}: {str(error)[:80]}"
    )


def memory_limit(max_bytes: int) -> None:
    """Let this process fail where it would use more memory."""
    import resource

    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
