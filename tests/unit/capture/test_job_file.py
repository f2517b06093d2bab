"""The job file: which captures are the ranks of one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.capture.capture import Capture, Program, Rank
from gradviz.capture.capture_file import write_capture
from gradviz.capture.job_file import Job, RankFile, named_capture, rank_path, write_job
from gradviz.errors import GradvizError


def write(folder: Path, *, job: str = "one", ranks: tuple[int, ...] = (0, 1)) -> Path:
    """A job of three ranks, of which these are recorded."""
    for number in ranks:
        capture = Capture(Program("train.py"), rank=Rank(number, 3, job))
        (folder / f"run.rank{number}.gradviz").write_bytes(write_capture(capture))
    path = folder / "run.gradviz"
    path.write_bytes(write_job(Job("one", 3, tuple(RankFile(each, f"run.rank{each}.gradviz") for each in ranks))))
    return path


def test_a_name_means_a_capture_or_one_rank_of_a_job(tmp_path: Path) -> None:
    path = write(tmp_path)
    first, second = named_capture(str(path)), named_capture(f"{path}@1")
    assert (first.capture.rank, first.taken) == (Rank(0, 3, "one"), "rank 0 of 3 (--rank 1 shows another)")
    assert (second.capture.title, second.taken) == ("train.py, rank 1 of 3", "rank 1 of 3")
    assert named_capture(str(tmp_path / "run.rank1.gradviz"), 1).capture == second.capture
    assert rank_path(path, 2).name == "run.rank2.gradviz"
    assert rank_path(Path("r%r/of-%r.gradviz"), 2) == Path("r%r/of-2.gradviz")


def test_the_first_rank_that_is_there_stands_for_a_job_without_some_files(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "run.rank0.gradviz").unlink()
    assert named_capture(str(path)).capture.rank == Rank(1, 3, "one")
    with pytest.raises(GradvizError, match=r"the recording of rank 0, 'run.rank0.gradviz', is missing"):
        named_capture(f"{path}@0")
    (tmp_path / "run.rank1.gradviz").unlink()
    with pytest.raises(GradvizError, match="lists 2 recordings, and none of them is there"):
        named_capture(str(path))


def test_a_file_of_another_run_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    write(tmp_path, job="two", ranks=(1,))
    write(tmp_path, ranks=(0,))
    path.write_bytes(write_job(Job("one", 3, (RankFile(0, "run.rank0.gradviz"), RankFile(1, "run.rank1.gradviz")))))
    with pytest.raises(GradvizError, match=r"run.rank1.gradviz' is not rank 1 of .*: it was recorded in another run"):
        named_capture(f"{path}@1")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"gradviz job 2\n{}", "has job format 2, and this gradviz reads up to 1"),
        (b"gradviz job one\n{}", "its first line does not end in a format version"),
        (b"gradviz job 1\n{", "is damaged"),
        (write_job(Job("one", 1, ())), "its ranks are not those of one job"),
        (write_job(Job("one", 2, (RankFile(2, "run.rank2.gradviz"),))), "its ranks are not those of one job"),
        (write_job(Job("one", 2, (RankFile(0, "../other.gradviz"),))), "it names a file in another folder"),
    ],
)
def test_a_damaged_job_file_is_refused_in_one_line(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "run.gradviz"
    path.write_bytes(content)
    with pytest.raises(GradvizError) as refusal:
        named_capture(str(path))
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)
