"""What the processes of a job leave in its folder."""

from __future__ import annotations

import os
from pathlib import Path

from gradviz.capture.capture import Rank
from gradviz.recording.ranks.call_counter import CallCounter, note_unwritten_end
from gradviz.recording.ranks.job_folder import JobFolder, Process, own_host


def test_a_rank_whose_disk_is_full_has_ended_and_did_not_die(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    folder.tell(Process("1-1", os.getpid(), own_host(), rank=Rank(1, 2, "job")))
    counter = CallCounter(folder.counter_path("1-1"))
    counter.start()
    counter.note(3)
    counter.stop()
    (killed,) = folder.processes()
    assert (killed.has_ended, killed.backward_calls, killed.problem) == (False, 3, "")
    size = folder.counter_path("1-1").stat().st_size
    note_unwritten_end(folder.counter_path("1-1"), "cannot write to '/tmp': No space left on device")
    (ended,) = folder.processes()
    assert (ended.has_ended, ended.backward_calls) == (True, 3)
    assert ended.problem == "cannot write to '/tmp': No space left on device"
    assert folder.counter_path("1-1").stat().st_size == size  # nothing that a full disk would refuse
