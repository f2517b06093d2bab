"""What the processes of a job have recorded, collected from its folder when all have ended."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from gradviz.capture.capture import Capture, Rank
from gradviz.capture.capture_file import load_capture, write_capture
from gradviz.capture.rank_end import RankEnd
from gradviz.capture.whole_file import write_whole_file
from gradviz.graph.number_words import counted
from gradviz.recording.ranks.job_folder import JobFolder, JobPlan, Process, own_host
from gradviz.recording.ranks.sudden_stack import sudden_stack


@dataclass(frozen=True)
class RecordedRank:
    """One process of the job, and the file with what it recorded."""

    rank: Rank
    path: Path

    def capture(self) -> Capture:
        """Read the file."""
        return load_capture(self.path)


@dataclass(frozen=True)
class CollectedJob:
    """The recorded processes of a job, by number."""

    folder: JobFolder
    plan: JobPlan
    ranks: tuple[RecordedRank, ...]
    world_size: int
    disclosures: tuple[str, ...] = field(default=())
    ends: tuple[RankEnd, ...] = ()
    """How each rank ended that is known, by number; empty for processes without ranks."""
    hung_for: float | None = None
    """If no rank got on and the job was ended: after how many seconds."""

    def captures(self) -> Iterator[Capture]:
        """What they recorded, one at a time."""
        return (each.capture() for each in self.ranks)

    def remove(self) -> None:
        """Delete the folder: everything has been written elsewhere."""
        shutil.rmtree(self.folder.path, ignore_errors=True)


def collected_job(plan: JobPlan, parent: Capture | None) -> CollectedJob | None:
    """The job of the processes in its folder, with `parent`, what their parent recorded; None if no child trained."""
    folder = JobFolder(plan.path)
    processes = [each for each in folder.processes() if each.rank is not None or each.backward_calls or each.problem]
    if not processes:
        return None
    members, others = _members(processes)
    recorded = [(each, path) for each in members if (path := folder.recording_of(each)) is not None]
    in_group = bool(members) and members[0].rank is not None
    if in_group:
        ranks = tuple(RecordedRank(each.rank, path) for each, path in recorded if each.rank is not None)
        ranks = (*_parent_as_rank(plan, folder, parent, {each.rank.number for each in ranks}), *ranks)
        ranks = tuple(sorted(ranks, key=lambda each: each.rank.number))
        world_size = max(each.rank.world_size for each in members if each.rank is not None)
    else:
        ranks = _numbered(plan, folder, recorded, parent)
        world_size = len(ranks)
    if not ranks and not others and not members:
        return None
    told = (*_without_recording(plan, members, {each.rank.number for each in ranks}, world_size), *_besides(others))
    if in_group and parent is not None and parent.rank is None and parent.backward_calls:
        told += ("what the parent process itself computed: it is not a rank of the process group",)
    ends = tuple(_ends(folder, members)) if in_group else ()
    return CollectedJob(folder, plan, ranks, world_size, told, ends, plan.hang if folder.hangs else None)


def _members(processes: Sequence[Process]) -> tuple[list[Process], list[Process]]:
    """The ranks, by number, and the other processes; if there is no rank, all processes in the order they began."""
    ranked = [each for each in processes if each.rank is not None]
    if not ranked:
        return list(processes), []
    newest: dict[int, Process] = {}
    for each in ranked:  # a launcher may have started a rank again
        assert each.rank is not None
        newest[each.rank.number] = each
    return [newest[number] for number in sorted(newest)], [each for each in processes if each.rank is None]


def _ends(folder: JobFolder, members: Sequence[Process]) -> Iterator[RankEnd]:
    for each in members:
        if each.rank is None:
            continue
        if each.end is not None:
            yield each.end
        elif each.has_ended:
            yield RankEnd(each.rank.number, backward_calls=each.backward_calls)
        else:
            stand = sudden_stack(folder.stack_path(each.key))
            yield RankEnd(each.rank.number, "died", backward_calls=each.backward_calls, stand=stand)


def _parent_as_rank(
    plan: JobPlan, folder: JobFolder, parent: Capture | None, known: set[int]
) -> Iterator[RecordedRank]:
    """The parent, if it is a rank of the process group itself, which the usual examples of spawning avoid."""
    if parent is None or parent.rank is None or parent.rank.number in known or not plan.is_wanted(parent.rank.number):
        return
    rank = replace(parent.rank, job=plan.job)
    path = folder.path / "parent.gradviz"
    write_whole_file(path, write_capture(replace(parent, rank=rank)))
    yield RecordedRank(rank, path)


def _numbered(
    plan: JobPlan, folder: JobFolder, recorded: Sequence[tuple[Process, Path]], parent: Capture | None
) -> tuple[RecordedRank, ...]:
    """Processes without ranks, numbered in the order they began; their parent is the first, if it trained too."""
    found = [(load_capture(path), path, process.host) for process, path in recorded]
    if parent is not None and parent.backward_calls:
        found.insert(0, (parent, folder.path / "parent.gradviz", own_host()))
    ranks = []
    for number, (capture, path, host) in enumerate(found):
        rank = Rank(number, len(found), plan.job, host, is_in_order=True)
        if plan.is_wanted(number):
            write_whole_file(path, write_capture(replace(capture, rank=rank if len(found) > 1 else None)))
            ranks.append(RecordedRank(rank, path))
    return tuple(ranks)


def _without_recording(plan: JobPlan, members: Sequence[Process], recorded: set[int], world_size: int) -> Iterator[str]:
    for each in members:
        if each.rank is None or not plan.is_wanted(each.rank.number) or each.rank.number in recorded:
            if each.problem:
                yield f"process {each.process}: {each.problem}"
            continue
        if each.problem:
            yield f"rank {each.rank.number}: {each.problem}"
        elif not each.backward_calls:
            yield f"rank {each.rank.number}: it called no backward()"
        else:
            calls = counted(each.backward_calls, "backward call")
            yield f"rank {each.rank.number}: it ended suddenly, in or after {calls}"
    known = {each.rank.number for each in members if each.rank is not None}
    unseen = [number for number in range(world_size) if plan.is_wanted(number) and number not in known | recorded]
    if unseen:
        shown = ", ".join(map(str, unseen[:8])) + (" ..." if len(unseen) > 8 else "")
        yield f"{counted(len(unseen), 'rank')} of {world_size}: nothing is known of {shown}"


def _besides(others: Sequence[Process]) -> Iterator[str]:
    trained = [each for each in others if each.backward_calls]
    if trained:
        yield f"{counted(len(trained), 'process', 'processes')} that called backward and belong to no process group"
