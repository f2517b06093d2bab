"""Writes what the processes of a job recorded: a capture for each, and the job file that lists them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from gradviz.analysis.ranks.stand_words import standing_words
from gradviz.capture.job_file import Job, RankFile, rank_path, write_job
from gradviz.cli.captures.kept_recording import keeping_recording
from gradviz.errors import BadInput
from gradviz.file_output import check_outputs, write_output
from gradviz.graph.number_words import counted

if TYPE_CHECKING:
    from gradviz.cli.captures.source import Source, SourceOptions
    from gradviz.recording.ranks.collected_job import CollectedJob

_MAX_LISTED = 8


def written_job(source: Source, options: SourceOptions, output: str) -> str:
    """Write the files for `output`; returns what to say about them."""
    job = source.job
    assert job is not None
    index = output.replace("%r", "")
    with keeping_recording(source, options):
        if len(job.ranks) == 1 and job.world_size == 1:
            write_output(index, job.ranks[0].path.read_bytes())
            lines = [f"wrote {index}: {_contents(source)}"]
        else:
            lines = _written_ranks(source, output, Path(index))
    name = shlex.quote(index)
    lines += standing_words(job.ends, job.hung_for)
    lines += [f"not recorded: {sentence}" for sentence in job.disclosures]
    return "\n".join([*lines, f"next:  gradviz render {name}   or   gradviz check {name}"]) + "\n"


def _contents(source: Source) -> str:
    nodes = sum(len(graph.nodes) for graph in source.graphs)
    return f"{counted(len(source.graphs), 'graph')}, {nodes:,} nodes"


def _written_ranks(source: Source, output: str, index: Path) -> list[str]:
    job = source.job
    assert job is not None
    if output == "-":
        raise BadInput(f"standard output takes one recording, and {len(job.ranks)} ranks were recorded", hint="use -o")
    paths = [rank_path(Path(output), each.rank.number, each.rank.kind) for each in job.ranks]
    check_outputs(paths)
    for each, path in zip(job.ranks, paths, strict=True):
        write_output(path, each.path.read_bytes())
    listed = tuple(RankFile(each.rank.number, path.name) for each, path in zip(job.ranks, paths, strict=True))
    write_output(index, write_job(_job(job, listed)))
    shown = [f"wrote {path}" for path in paths[:_MAX_LISTED]]
    if len(paths) > _MAX_LISTED:
        shown.append(f"wrote {paths[-1]}, the last of {len(paths)}")
    kind = job.ranks[0].rank.kind
    of = f"{len(paths)} of {counted(job.world_size, kind, kind + ('s' if kind == 'rank' else 'es'))}"
    return [*shown, f"wrote {index}: a job of {of}; the first: {_contents(source)}"]


def _job(job: CollectedJob, files: tuple[RankFile, ...]) -> Job:
    return Job(job.plan.job, job.world_size, files, job.disclosures, job.ends, job.hung_for)
