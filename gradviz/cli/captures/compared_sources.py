"""The two sources of ``gradviz diff``: captures, or scripts that run now, each in a process and folder of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from gradviz.analysis.diff.comparison import Side
from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import CAPTURE_SUFFIX, is_capture, read_capture
from gradviz.capture.job_file import is_job, named_capture, named_file
from gradviz.cli.terminal.progress import working
from gradviz.diff_result import graph_index, split_number
from gradviz.errors import BadInput, NothingRecorded


@dataclass(frozen=True)
class HowToRun:
    """How the scripts are run."""

    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    backward: str | None = None
    keep_going: bool = False


@dataclass(frozen=True)
class ComparedSource:
    """One side of a comparison as it was named: ``run.gradviz#2``, ``train.py``, ``train.py@HEAD``. It exists."""

    name: str
    path: str
    number: int | None = None
    """Which backward call of a recording."""
    commit: str | None = None
    is_recording: bool = False

    def side(self, how: HowToRun) -> Side:
        """Load the recording, or record the script.

        Raises:
            BadInput: a recording cannot be read, or has no such backward call; a script cannot be recorded.
            NothingRecorded: the script ended before there was anything to compare.
        """
        if self.is_recording:
            capture = named_capture(self.path).capture
            return Side(self.name, capture, graph_index(capture, self.number, self.name))
        if self.commit is None:
            return Side(self.name, _recorded(self.path, self.name, how, Path.cwd()))
        with work_tree(Path(self.path), self.commit) as (folder, inside):
            return Side(self.name, _recorded(str(inside), self.name, how, folder))


def source_of(name: str) -> ComparedSource:
    """What `name` means. Both sides are looked up before one runs, as a run may take long.

    Raises:
        BadInput: there is no such file or commit.
    """
    path, number = split_number(name)
    if _is_capture(path):
        return ComparedSource(name, path, number, is_recording=True)
    script, commit = _split_commit(path)
    if not Path(script).exists() and commit is None:
        raise BadInput(f"no such file: {script!r}", hint="name a script, a recording, or a script@COMMIT")
    if number is not None:
        raise BadInput(
            f"{name}: #{number} is for recordings", hint=f"--backward {number} records that call of a script"
        )
    if commit is not None:
        _commit_of(Path(script), commit)
    return ComparedSource(name, script, commit=commit)


def _is_capture(path: str) -> bool:
    location = named_file(path)[0]
    try:
        with location.open("rb") as file:
            head = file.read(64)
            return is_capture(head) or is_job(head) or location.suffix == CAPTURE_SUFFIX
    except (FileNotFoundError, IsADirectoryError):
        if location.suffix == CAPTURE_SUFFIX:
            raise BadInput(f"no such file: {path!r}") from None
        return False
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path!r}: {error}") from error


def _split_commit(name: str) -> tuple[str, str | None]:
    """A file that has ``@`` in its name comes first."""
    script, sign, commit = name.partition(".py@")
    if not sign or Path(name).exists():
        return name, None
    if not commit:
        raise BadInput(f"{name!r} names no commit after the @", hint="such as train.py@HEAD~1")
    return f"{script}.py", commit


def _recorded(script: str, name: str, how: HowToRun, folder: Path) -> Capture:
    """Record a script in a process of its own: what one run leaves in torch must not reach the other."""
    command = [sys.executable, "-m", "gradviz", "record", "--fingerprints", "-o", "-", script]
    if how.backward is not None:
        command += ["--backward", how.backward]
    if how.keep_going:
        command.append("--keep-going")
    if how.arguments:
        command += ["--", *how.arguments]
    with working(f"running {name}"):
        ended = subprocess.run(
            command, cwd=folder, env={**os.environ, **how.environment}, stdout=subprocess.PIPE, check=False
        )
    if ended.returncode in (130, -2):
        raise KeyboardInterrupt
    if not ended.stdout:
        if ended.returncode < 0:
            raise NothingRecorded(f"{name} was not recorded: signal {-ended.returncode} ended its process")
        raise click.exceptions.Exit(BadInput.exit_code)  # the process has said why, in one line
    capture = read_capture(ended.stdout, name)
    if not capture.graphs:
        error = f": {capture.error.type_name}: {capture.error.message}" if capture.error is not None else ""
        raise NothingRecorded(f"{name} has no graph to compare: it {capture.outcome} before there was one{error}")
    return capture


# -- A script as it was at a commit ------------------------------------------------------------------------------------


@contextmanager
def work_tree(script: Path, commit: str) -> Iterator[tuple[Path, Path]]:
    """The folder to run in, and the script, in a temporary work tree of its repository. The user's is not touched."""
    top, found = _commit_of(script, commit)
    relative = script.resolve().relative_to(top.resolve())
    with tempfile.TemporaryDirectory(prefix="gradviz-") as temporary:
        tree = Path(temporary) / top.name
        _git(top, ["worktree", "add", "--detach", "--quiet", str(tree), found], f"{commit} cannot be checked out")
        try:
            inside = tree / relative
            if not inside.exists():
                raise BadInput(f"{relative} does not exist at {commit}", hint="name a commit that has it")
            yield _same_folder(tree, top), inside
        finally:
            _git(top, ["worktree", "remove", "--force", str(tree)], "the temporary work tree cannot be removed")


def _commit_of(script: Path, commit: str) -> tuple[Path, str]:
    """The top folder of the script's repository, and the commit's full name."""
    folder = script.resolve().parent
    while not folder.exists():
        folder = folder.parent
    refusal = f"{script} is in no git repository, so it has no commits"
    top = Path(_git(folder, ["rev-parse", "--show-toplevel"], refusal, has_hint=False))
    found = _git(top, ["rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"], f"no such commit: {commit!r}")
    return top, found


def _same_folder(tree: Path, top: Path) -> Path:
    """The folder in the work tree that corresponds to the current one, if there is one."""
    try:
        folder = tree / Path.cwd().resolve().relative_to(top.resolve())
    except ValueError:
        return tree
    return folder if folder.is_dir() else tree


def _git(folder: Path, arguments: Sequence[str], refusal: str, *, has_hint: bool = True) -> str:
    # Hooks of the repository, such as post-checkout, could do anything.
    command = ["git", "-c", f"core.hooksPath={os.devnull}", "-C", str(folder), *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BadInput(f"git cannot be run: {error.strerror}", hint="script@COMMIT needs it") from error
    if ended.returncode:
        said = ended.stderr.strip().partition("\n")[0]
        raise BadInput(refusal, hint=(said or None) if has_hint else None)
    return ended.stdout.strip()


def environment_of(settings: Sequence[str], option: str) -> dict[str, str]:
    """Variables from ``NAME=VALUE``; raises `BadInput` for others."""
    found: dict[str, str] = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign or not name:
            raise BadInput(f"{option} {setting!r} is not NAME=VALUE")
        found[name] = value
    return found


def words_of(arguments: str | None, option: str) -> tuple[str, ...]:
    """Arguments as a shell splits them; raises `BadInput` for an open quote."""
    try:
        return tuple(shlex.split(arguments or ""))
    except ValueError as error:
        raise BadInput(f"{option} {arguments!r}: {error}") from error
