"""The folder through which the processes of a job know of each other, on one machine or a shared file system.

Each process has two files, which only it writes: ``<key>.json``, a `Process`, and ``<key>.gradviz``, what it recorded.
A file ``stop`` says that all of them may end. The folder is made when the first of them calls backward: most programs
are no job. No part of this needs torch.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gradviz.capture.capture import Rank
from gradviz.capture.capture_file import CAPTURE_SUFFIX
from gradviz.capture.rank_end import RankEnd
from gradviz.capture.whole_file import write_whole_file
from gradviz.recording.ranks.call_counter import counted_calls


class JobPlan(Struct, frozen=True, omit_defaults=True):
    """What every process of a job is to record: a `RecordingPlan` that can be handed on in the environment."""

    job: str
    """An identifier of this run."""
    folder: str
    """The path of the `JobFolder`."""
    backward: int | None = 1
    only_last: bool = False
    keep_going: bool = False
    seconds: float | None = None
    steps: int | None = None
    gradients: bool = True
    values_up_to: int = 0
    for_pictures: bool = True
    calls: bool = False
    fingerprints: bool = False
    root_shares: bool = False
    inside: bool = False
    hang: float | None = None
    """After how many seconds in which no rank gets on the job is ended."""
    ranks: tuple[int, ...] | None = None
    """The ranks to record; None for all."""

    @property
    def path(self) -> Path:
        """The path of the folder."""
        return Path(self.folder)

    def is_wanted(self, rank: int) -> bool:
        """Whether this rank is to be recorded."""
        return self.ranks is None or rank in self.ranks

    def wanted_of(self, world_size: int) -> int:
        """How many ranks are to be recorded."""
        return world_size if self.ranks is None else sum(rank < world_size for rank in self.ranks)

    def text(self) -> str:
        """The plan as text, for the environment."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def of_text(cls, text: str) -> JobPlan:
        """The plan that `text` returned."""
        return msgspec.json.decode(text, type=cls)


class Process(Struct, frozen=True, omit_defaults=True):
    """What one process has said of itself."""

    key: str
    """The name of its files; keys sort as processes began."""
    process: int
    host: str
    program: str = ""
    rank: Rank | None = None
    has_recorded_all: bool = False
    """Whether its last wanted backward has ended, or its program has."""
    has_ended: bool = False
    backward_calls: int = 0
    problem: str = ""
    """Why nothing of it could be recorded."""
    end: RankEnd | None = None
    """How it ended; where it stands, if it has not moved for as long as the plan allows."""

    @property
    def hangs(self) -> bool:
        """Whether it has not moved for as long as the plan allows."""
        return self.end is not None and self.end.how == "hung"

    @property
    def is_over(self) -> bool:
        """Whether it has ended, as far as can be seen from this machine."""
        return self.has_ended or (self.host == own_host() and not _is_alive(self.process))


class JobFolder:
    """The folder of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def new_key(self) -> str:
        """A key for this process."""
        return f"{time.time_ns():020d}-{os.getpid()}"

    def tell(self, process: Process) -> None:
        """Write what a process says of itself; raises `OSError` wherever the system does."""
        write_whole_file(self.path / f"{process.key}.json", msgspec.json.encode(process))

    def processes(self) -> list[Process]:
        """What all processes have said of themselves, in the order in which they began."""
        try:
            paths = sorted(self.path.glob("[0-9]*.json"))
        except OSError:
            return []
        told = (msgspec.json.decode(path.read_bytes(), type=Process) for path in paths)
        return [each if each.has_ended else self._counted(each) for each in told]

    def _counted(self, process: Process) -> Process:
        calls, problem = counted_calls(self.counter_path(process.key))
        counted = replace(process, backward_calls=max(calls, process.backward_calls))
        return replace(counted, has_ended=True, has_recorded_all=True, problem=problem) if problem else counted

    def capture_path(self, key: str) -> Path:
        """Where the process with this key writes what it recorded."""
        return self.path / f"{key}{CAPTURE_SUFFIX}"

    def recording_of(self, process: Process) -> Path | None:
        """What a process recorded; what it had recorded so far, if it ended suddenly; None if there is nothing."""
        path = self.capture_path(process.key)
        return path if path.exists() else next(self._spools_of(process.key), None)

    def _spools_of(self, key: str) -> Iterator[Path]:
        return iter(sorted(self.path.glob(f"{key}.unfinished-*{CAPTURE_SUFFIX}")))

    def stack_path(self, key: str) -> Path:
        """Where Python writes the stack of the process with this key, if it dies by an error of compiled code."""
        return self.path / f"{key}.stack"

    def counter_path(self, key: str) -> Path:
        """Where the process with this key counts its backward calls."""
        return self.path / f"{key}.calls"

    def let_all_end(self) -> None:
        """All processes may end."""
        write_whole_file(self.path / "stop", b"")

    def note_hang(self) -> None:
        """No process gets on."""
        write_whole_file(self.path / "hang", b"")

    @property
    def hangs(self) -> bool:
        """Whether no process gets on."""
        return (self.path / "hang").exists()

    @property
    def may_all_end(self) -> bool:
        """Whether all processes may end."""
        return (self.path / "stop").exists()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True  # a system without such files
    return state != "Z"  # it has ended, and its parent has not asked how


def own_host() -> str:
    """The name of this machine."""
    return socket.gethostname()
