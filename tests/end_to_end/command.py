"""Runs the command, or plain Python, as a user would: in a separate process and folder."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.prepared.process import prepared_process, reads_at_start

SCRIPTS = Path(__file__).parent / "scripts"
SAMPLES = Path(__file__).parents[2] / "samples"
GRADVIZ = Path(sysconfig.get_path("scripts")) / "gradviz"

_SECONDS = float(os.environ.get("GRADVIZ_TEST_SECONDS", "600"))
"""After which a command is taken for hanging; more for a slow or busy machine."""
_OUR_LINES = ("wrote ", "next:  ", "       gradviz ")


@dataclass(frozen=True)
class Run:
    """The result of a process."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Standard output in one line: where it is wrapped depends on the length of the path of the tests."""
        return " ".join(self.stdout.split())

    @property
    def programs_output(self) -> str:
        """Standard output without the lines that gradviz adds when a program has ended."""
        lines = self.stdout.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith(_OUR_LINES))


def gradviz(*arguments: str | Path, cwd: Path, stdin: str = "", env: dict[str, str] | None = None) -> Run:
    """Runs ``gradviz ARGUMENTS`` in `cwd`, with `env` on top of the environment.

    It is forked from a process that has torch loaded, unless `env` has what that must know when it starts: what a
    script sees is the same. `installed_gradviz` is for who wants to be sure.
    """
    if reads_at_start(env or {}):
        return installed_gradviz(*arguments, cwd=cwd, stdin=stdin, env=env)
    return _fork("gradviz.cli:main", [GRADVIZ, *arguments], cwd, stdin, env)


def installed_gradviz(*arguments: str | Path, cwd: Path, stdin: str = "", env: dict[str, str] | None = None) -> Run:
    """The same in a new Python process, as from a shell: takes a second longer."""
    return _run([GRADVIZ, *arguments], cwd, stdin, env)


def python(*arguments: str | Path, cwd: Path, stdin: str = "", env: dict[str, str] | None = None) -> Run:
    """Runs ``python ARGUMENTS``, which begin with a script or ``-c``; forked as `gradviz` is."""
    if reads_at_start(env or {}):
        return installed_python(*arguments, cwd=cwd, stdin=stdin, env=env)
    entry = "run_text" if arguments[0] == "-c" else "run_script"
    return _fork(f"tests.prepared.programs:{entry}", arguments, cwd, stdin, env)


def installed_python(*arguments: str | Path, cwd: Path, stdin: str = "", env: dict[str, str] | None = None) -> Run:
    """The same in a new Python process, with any arguments of Python."""
    return _run([sys.executable, *arguments], cwd, stdin, env)


def forked(entry: str, *words: str | Path, cwd: Path) -> Run:
    """Runs a function, named ``module:function``, as a program with `words` in its ``sys.argv``."""
    return _fork(entry, words, cwd, "", None)


def _fork(entry: str, words: Sequence[str | Path], cwd: Path, stdin: str, env: dict[str, str] | None) -> Run:
    (reading, typing), *printing = [os.pipe() for _ in range(3)]
    theirs = (reading, *(writing for _, writing in printing))
    with ThreadPoolExecutor(3) as pool:
        exit_code = pool.submit(exit_code_of_fork, entry, words, theirs, cwd, {**os.environ, **(env or {})})
        printed = [pool.submit(_read, reading) for reading, _ in printing]
        with contextlib.suppress(BrokenPipeError), os.fdopen(typing, "w", encoding="utf-8") as keyboard:
            keyboard.write(stdin)
        return Run(exit_code.result(), *(each.result() for each in printed))


def exit_code_of_fork(
    entry: str, words: Sequence[str | Path], streams: Sequence[int], cwd: Path, environment: dict[str, str]
) -> int:
    """Runs a function, named ``module:function``, as a program with these standard streams, which are closed then."""
    try:
        return prepared_process().run(entry, list(map(str, words)), streams, cwd, environment, _SECONDS)
    finally:
        for stream in streams:
            os.close(stream)


def _read(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8", errors="backslashreplace") as file:
        return file.read()


def _run(command: list[str | Path], cwd: Path, stdin: str, env: dict[str, str] | None) -> Run:
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        start_new_session=True,
    ) as process:
        try:
            printed = process.communicate(stdin, _SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # what it has started, too, or who reads its output waits for that
            raise
    return Run(process.returncode, *printed)


@contextlib.contextmanager
def started(*arguments: str | Path, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """``gradviz ARGUMENTS`` while it runs, to be interrupted; it is killed at the end of the block."""
    with subprocess.Popen(
        [GRADVIZ, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        # Where the tests run in the background of a shell, they and what they start would not hear of Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def refusal(run: Run) -> str:
    """The one line of an error of the command; fails if there is more or less."""
    assert run.exit_code == 2, run.stderr or run.stdout[:500]
    assert run.stdout == ""
    lines = run.stderr.splitlines()
    assert len(lines) == 1, run.stderr
    assert lines[0].startswith("gradviz: "), run.stderr
    assert "Traceback" not in lines[0]
    return lines[0].removeprefix("gradviz: ")


def written_script(folder: Path, text: str, name: str = "train.py") -> Path:
    """A script with this text in `folder`; its name is relative to it."""
    (folder / name).write_text(text, encoding="utf-8")
    return Path(name)


def refused(*arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """The one line of an error; the folder must be as before."""
    before = {path: path.read_bytes() for path in cwd.rglob("*") if path.is_file()}
    found = refusal(gradviz(*arguments, cwd=cwd, env=env))
    assert {path: path.read_bytes() for path in cwd.rglob("*") if path.is_file()} == before
    return found
