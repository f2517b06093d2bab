"""gradviz inside a job: ``torchrun --nproc-per-node 2 -m gradviz record train.py`` starts it once for each rank.

Each rank writes what it recorded into the folder of the job. The last one on its machine to end collects it, and does
what the command is to do, for all of them. The others end as their programs do.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import write_capture
from gradviz.capture.whole_file import write_whole_file
from gradviz.recording.ranks.collected_job import CollectedJob, collected_job
from gradviz.recording.ranks.job_folder import own_host
from gradviz.recording.ranks.member import Member
from gradviz.recording.ranks.rank_facts import rank_in_environment

_SAME_FOR_ALL = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")


def is_launched() -> bool:
    """Whether a launcher started this process as one of several ranks."""
    return rank_in_environment("") is not None


def launched_job(folder_name: str) -> str:
    """An identifier that all ranks of this run work out alike."""
    words = [folder_name, *(os.environ.get(name, "") for name in _SAME_FOR_ALL)]
    if os.environ.get("GROUP_WORLD_SIZE", "1") == "1":
        words.append(str(os.getppid()))  # of one launcher: no earlier run has left such a folder
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def collected_if_last(member: Member, capture: Capture | None) -> CollectedJob | None:
    """Hand over what this rank recorded; the job, if this is the last rank on this machine to end."""
    problem = ""
    if capture is not None and member.is_wanted:
        try:
            write_whole_file(member.folder.capture_path(member.key), write_capture(capture))
        except OSError as error:
            problem = f"cannot write to {str(member.folder.path)!r}: {error.strerror}"
    member.tell_end(problem)
    if not _is_last(member) or not _is_first_to_report(member.folder.path):
        return None
    return collected_job(member.plan, None)


def _is_last(member: Member) -> bool:
    rank = member.rank()
    assert rank is not None
    here = [each for each in member.folder.processes() if each.host == own_host()]
    expected = int(os.environ.get("LOCAL_WORLD_SIZE", rank.world_size))
    return len(here) >= expected and all(each.is_over for each in here)


def _is_first_to_report(folder: Path) -> bool:
    """Two ranks may end at the same moment."""
    try:
        os.close(os.open(folder / f"report-{own_host()}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
