"""The job file: which captures are the ranks of one run.

Its first line is ``gradviz job 1``; what follows is JSON, a `Job`. Each rank has a capture file of its own beside it,
``run.rank0.gradviz`` for ``run.gradviz``. Wherever a capture is read, a job file is taken too: `named_capture` picks
one rank of it, ``run.gradviz@1``, and says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gradviz.capture.capture import Capture, Rank
from gradviz.capture.capture_file import CAPTURE_SUFFIX, read_capture
from gradviz.capture.file_header import FirstLine, content_of
from gradviz.capture.rank_end import RankEnd
from gradviz.errors import BadCapture, BadInput
from gradviz.graph.bounded_types import Count, Magnitude
from gradviz.safe_text import one_line

_RECORD_AGAIN = "record it again with 'gradviz record'"
_FIRST_LINE = FirstLine("job", 1, _RECORD_AGAIN)
_MAX_LISTED = 8


class RankFile(Struct, frozen=True):
    """One rank of a job, and its capture."""

    rank: Count
    file: str
    """Relative to the folder of the job file."""


class Job(Struct, frozen=True, omit_defaults=True):
    """The ranks of one run."""

    job: str
    """As in `Rank.job` of each capture."""
    world_size: Count
    """How many ranks there were, recorded or not."""
    ranks: tuple[RankFile, ...]
    """Those that were to be recorded, by number."""
    disclosures: tuple[str, ...] = ()
    """What of the whole job could not be recorded, one sentence each."""
    ends: tuple[RankEnd, ...] = ()
    """How each rank ended that is known, by number."""
    hung_for: Magnitude | None = None
    """If no rank got on and the job was ended: after how many seconds."""


def write_job(job: Job) -> bytes:
    """The content of a job file."""
    return _FIRST_LINE.write() + msgspec.json.format(msgspec.json.encode(job), indent=1) + b"\n"


def job_schema() -> dict[str, Any]:
    """The JSON Schema of what follows the first line of a job file."""
    return msgspec.json.schema(Job)


def is_job(head: bytes) -> bool:
    """Whether a file that begins with `head` is a job file, of any version and even if damaged."""
    return _FIRST_LINE.begins(head)


def read_job(data: bytes, name: str) -> Job:
    """The job in `data`; `BadCapture` says in one line what is wrong with the file called `name`."""
    body = data[_FIRST_LINE.end(data, name) :]
    try:
        job = msgspec.json.decode(body, type=Job)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadCapture(f"{name!r} is damaged: {one_line(str(error))}", hint=_RECORD_AGAIN) from error
    numbers = [each.rank for each in job.ranks]
    if not numbers or numbers != sorted(set(numbers)) or numbers[-1] >= job.world_size:
        raise BadCapture(f"{name!r} is damaged: its ranks are not those of one job", hint=_RECORD_AGAIN)
    if any(Path(each.file).name != each.file or not each.file for each in job.ranks):
        raise BadCapture(f"{name!r} is damaged: it names a file in another folder", hint=_RECORD_AGAIN)
    return job


def rank_path(path: Path, rank: int, kind: str = "rank") -> Path:
    """The file of one rank: ``run.rank0.gradviz`` for ``run.gradviz``; ``%r`` in the name stands for its number."""
    if "%r" in path.name:
        return path.with_name(path.name.replace("%r", str(rank)))
    return path.with_name(f"{path.stem}.{kind}{rank}{path.suffix}")


@dataclass(frozen=True)
class JobFile:
    """A job file that was read."""

    path: Path
    job: Job

    @classmethod
    def load(cls, path: Path) -> JobFile:
        """Read the file at `path`."""
        return cls(path, read_job(content_of(path), str(path)))

    def captures(self) -> Iterator[Capture]:
        """The captures of those ranks whose files are there, one at a time; see `missing`."""
        for each in self.job.ranks:
            if self._path_of(each).exists():
                yield self._capture(each)

    @property
    def missing(self) -> tuple[RankFile, ...]:
        """The ranks whose files are not there."""
        return tuple(each for each in self.job.ranks if not self._path_of(each).exists())

    def capture_of(self, rank: int | None) -> Capture:
        """The capture of this rank; without a number, of the first rank that is there.

        Raises:
            BadInput: the rank is not in the job, or its file is missing.
            BadCapture: its file belongs to another run.
        """
        if rank is None:
            there = next((each for each in self.job.ranks if self._path_of(each).exists()), None)
            if there is None:
                names = ", ".join(each.file for each in self.job.ranks[:3])
                raise BadInput(
                    f"{str(self.path)!r} lists {len(self.job.ranks)} recordings, and none of them is there",
                    hint=f"copy them into its folder: {names}",
                )
            return self._capture(there)
        found = next((each for each in self.job.ranks if each.rank == rank), None)
        if found is None:
            raise BadInput(f"rank {rank} is not in {str(self.path)!r}", hint=f"it has {self._numbers()}")
        if not self._path_of(found).exists():
            raise BadInput(f"the recording of rank {rank}, {found.file!r}, is missing", hint=f"copy it to {self.path}")
        return self._capture(found)

    def _numbers(self) -> str:
        numbers = [str(each.rank) for each in self.job.ranks]
        more = f" and {len(numbers) - _MAX_LISTED} more" if len(numbers) > _MAX_LISTED else ""
        return ", ".join(numbers[:_MAX_LISTED]) + more

    def _path_of(self, rank: RankFile) -> Path:
        return self.path.with_name(rank.file)

    def _capture(self, wanted: RankFile) -> Capture:
        path = self._path_of(wanted)
        capture = read_capture(content_of(path), str(path))
        rank = capture.rank
        if rank is None or rank.job != self.job.job or rank.number != wanted.rank:
            raise BadCapture(
                f"{str(path)!r} is not rank {wanted.rank} of {str(self.path)!r}: it was recorded in another run",
                hint=f"give the files of one run, or open {path.name} alone",
            )
        return capture


@dataclass(frozen=True)
class NamedCapture:
    """The capture that a name means."""

    capture: Capture
    taken: str | None = None
    """If it was picked from a job: which rank, in words."""


def named_file(name: str) -> tuple[Path, int | None]:
    """The file and the rank that ``run.gradviz@1`` means; a file that has such a name itself comes first."""
    path, sign, number = name.rpartition("@")
    if not sign or not number.isdecimal() or not path.endswith(CAPTURE_SUFFIX) or Path(name).exists():
        return Path(name), None
    return Path(path), int(number)


def named_capture(name: str, rank: int | None = None) -> NamedCapture:
    """The capture that `name` means: a capture file, a job file, or ``run.gradviz@1``; `rank` picks one of a job.

    Raises `BadInput` if a rank is asked for and the file is a capture of one process.
    """
    path, number = named_file(name)
    wanted = number if rank is None else rank
    data = content_of(path)
    if is_job(data):
        file = JobFile(path, read_job(data, str(path)))
        capture = file.capture_of(wanted)
        assert capture.rank is not None
        ranks = [each.rank for each in file.job.ranks]
        return NamedCapture(capture, shown_rank(capture.rank, ranks, is_chosen=wanted is not None))
    capture = read_capture(data, str(path))
    if wanted is not None and (capture.rank is None or capture.rank.number != wanted):
        what = "a program of one process" if capture.rank is None else capture.rank.words
        raise BadInput(f"{str(path)!r} holds {what}, not rank {wanted}", hint="leave out the rank")
    return NamedCapture(capture)


def shown_rank(rank: Rank, recorded: Iterable[int], *, is_chosen: bool) -> str:
    """Which rank of a job is shown, and, unless somebody chose it, how to see another of those that were recorded."""
    others = [number for number in recorded if number != rank.number]
    return rank.words + (f" (--rank {others[0]} shows another)" if others and not is_chosen else "")
