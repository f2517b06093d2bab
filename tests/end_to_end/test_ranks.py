"""A job of several processes: one command records all ranks, and every command takes what it wrote."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gradviz.capture.capture import Rank
from gradviz.capture.capture_file import load_capture, write_capture
from gradviz.capture.job_file import Job, RankFile, write_job
from tests.end_to_end.command import SCRIPTS, Run, gradviz, installed_gradviz, python

RANKS = SCRIPTS / "ranks.py"
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recording of a healthy job."""
    folder = tmp_path_factory.mktemp("job")
    run = gradviz("record", "-o", "run.gradviz", RANKS, cwd=folder)
    assert run.exit_code == 0, run.stderr
    assert "exit codes 0 0" in run.stdout
    assert "wrote run.rank0.gradviz\nwrote run.rank1.gradviz\nwrote run.gradviz: a job of 2 of 2 ranks" in run.stdout
    return folder


def test_each_rank_has_a_capture_of_its_own_and_the_job_lists_them(recorded: Path) -> None:
    assert sorted(path.name for path in recorded.iterdir()) == [
        "run.gradviz", "run.rank0.gradviz", "run.rank1.gradviz",
    ]  # fmt: skip
    first, second = (load_capture(recorded / f"run.rank{number}.gradviz") for number in range(2))
    assert first.rank is not None
    assert second.rank is not None
    assert (first.rank.number, first.rank.world_size, first.rank.backend) == (0, 2, "gloo")
    assert (second.rank.number, second.rank.job) == (1, first.rank.job)
    # Neither rank left before the other had recorded its first backward.
    assert [capture.backward_calls for capture in (first, second)] == [1, 1]


def test_commands_take_one_rank_of_a_job_and_say_which(recorded: Path) -> None:
    default = gradviz("flow", "run.gradviz", cwd=recorded)
    assert "run.gradviz: rank 0 of 2 (--rank 1 shows another)" in default.stderr
    assert "ranks.py, rank 0 of 2" in default.text
    for words in (["run.gradviz@1"], ["run.gradviz", "--rank", "1"]):
        assert "ranks.py, rank 1 of 2" in gradviz("tree", *words, cwd=recorded).text
    assert "rank 7 is not in 'run.gradviz'; it has 0, 1" in gradviz("tree", "run.gradviz@7", cwd=recorded).stderr
    other = gradviz("tree", "run.rank0.gradviz", "--rank", "1", cwd=recorded)
    assert other.stderr == "gradviz: 'run.rank0.gradviz' holds rank 0 of 2, not rank 1; leave out the rank\n"
    assert gradviz("diff", "run.gradviz@0", "run.gradviz@1", cwd=recorded).exit_code == 1


def checked(case: str, folder: Path) -> Run:
    return gradviz("check", RANKS, "--", case, cwd=folder)


def test_a_finding_of_all_ranks_is_told_once_and_another_names_its_rank(tmp_path: Path) -> None:
    both = checked("not cleared", tmp_path)
    assert both.exit_code == 1
    assert both.stdout.count("GV601") == 1
    assert "(all 2 ranks)" in both.text
    drift = checked("drifts", tmp_path)
    assert "GV821 replicas_drifted ranks.py:63" in drift.text
    assert "ranks.py:63 changes it; after the step at ranks.py:37 they were still the same" in drift.text
    run = gradviz("check", "--format", "json", RANKS, "--", "not finite", cwd=tmp_path)
    assert [(each["code"], each["ranks"]) for each in json.loads(run.stdout)["findings"]] == [("GV301", [1])]
    assert list(tmp_path.iterdir()) == []


def test_a_rank_that_made_its_last_wanted_step_goes_on_unharmed_and_its_end_is_no_finding(tmp_path: Path) -> None:
    # A rank notices its limit in the hook behind a step, and then goes on until the other one has come as far.
    run = gradviz("check", "--steps", "1", RANKS, "--", "not finite", cwd=tmp_path)
    assert "exit codes 0 0\n" in run.stderr
    assert "ranks.py, 2 ranks: nothing wrong found" in run.text


def test_processes_that_torch_compiles_in_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        """
import os
import torch
from torch._inductor.compile_worker.subproc_pool import SubprocPool

pool = SubprocPool(1)
print("in such a process:", pool.submit(os.getenv, "GRADVIZ_JOB").result())
pool.shutdown()
torch.ones(2, requires_grad=True).sum().backward()
"""
    )
    run = gradviz("record", "-o", "run.gradviz", "train.py", cwd=tmp_path)
    assert run.stdout.splitlines()[0] == "in such a process: None", run.stderr
    assert "wrote run.gradviz: 1 graph" in run.stdout


@pytest.mark.parametrize(
    ("case", "codes", "told"),
    [
        (
            "raises",
            "1 1",
            "rank 1 failed first at ranks.py:53, after 2 backward calls: ValueError: bad batch",
        ),
        ("exits", "1 5", "rank 1 failed first at ranks.py:60, after 2 backward calls: it called os._exit()"),
        ("killed", "1 -9", "rank 1 ended suddenly, in or after 2 backward calls"),
        # At the line that sends the signal, or at the one that waits for it.
        ("terminated", "1 -15", "rank 1 was ended by SIGTERM at ranks.py:5"),
    ],
)
def test_a_rank_that_fails_ends_as_without_gradviz_and_what_all_recorded_is_checked(
    tmp_path: Path, case: str, codes: str, told: str
) -> None:
    run = checked(case, tmp_path)
    assert f"exit codes {codes}\n" in run.stderr
    assert "gradviz" not in run.stderr.replace(str(REPOSITORY), "")  # whose folder may be called so
    report = run.text
    assert told in report
    # A killed rank leaves what was written of it last, which may be a backward behind.
    assert "rank 1: 2 backward calls" in report or case == "killed"
    assert run.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_ranks_that_are_killed_before_their_first_backward_are_named_and_leave_no_files(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    words = SCRIPTS / "as_ranks.py", "--", "train.py"
    run = gradviz("check", *words, cwd=tmp_path)
    assert "0 of 2 ranks: 1 error" in run.text
    assert "GV816 rank_failed all 2 ranks ended suddenly, in or after 0 backward calls" in run.text
    assert run.exit_code == 9
    refused = gradviz("record", "-o", "run.gradviz", *words, cwd=tmp_path)
    assert "no process of" in refused.stderr
    assert "rank 1 died, after 0 backward calls" in refused.stderr
    assert refused.exit_code == 9
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_launcher_is_a_command_and_its_processes_are_recorded(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("OWN = 'its own sitecustomize'\n")
    words: list[str | Path] = [sys.executable, SCRIPTS / "launcher.py", SCRIPTS / "one_rank.py"]
    run = installed_gradviz(
        "record", "--keep-going", "--backward", "last", "-o", "%r-run.gradviz", "--", *words,
        cwd=tmp_path, env={"PYTHONPATH": f"{own}:{REPOSITORY}"},
    )  # fmt: skip
    assert run.exit_code == 0, run.stderr
    assert "rank 0 sees its own sitecustomize" in run.stdout
    assert sorted(path.name for path in tmp_path.glob("*.gradviz")) == [
        "-run.gradviz", "0-run.gradviz", "1-run.gradviz",
    ]  # fmt: skip
    capture = load_capture(tmp_path / "1-run.gradviz")
    assert capture.backward_calls == 3
    assert capture.program.name.endswith("one_rank.py")


def test_a_launcher_that_clears_the_environment_is_told_that_nothing_was_recorded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.ones(1, requires_grad=True).sum().backward()\n")
    run = gradviz("check", "--", sys.executable, "-I", "train.py", cwd=tmp_path)
    assert "ran, and nothing was recorded: no process that was seen called backward()" in run.stderr
    assert "python -m gradviz record train.py" in run.stderr
    assert run.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_script_without_training_processes_is_as_before(tmp_path: Path) -> None:
    script = tmp_path / "evaluates.py"
    script.write_text(
        "import subprocess, sys, torch\n"
        "code = 'import sys; print(sys.path, sorted({*sys.modules} - {\\'sitecustomize\\'}))'\n"
        "print(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True))\n"
        "torch.ones(1, requires_grad=True).sum().backward()\n"
    )
    run = gradviz("record", script, cwd=tmp_path)
    assert run.programs_output == python(script, cwd=tmp_path).stdout
    assert load_capture(tmp_path / "evaluates.gradviz").rank is None


def test_processes_that_the_script_forks_itself_are_recorded(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(
        "import os, torch\n"
        "for seed in range(2):\n"
        "    if os.fork() == 0:\n"
        "        model = torch.nn.Linear(3, 1)\n"
        "        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "        for step in range(3):\n"
        "            model(torch.randn(4, 3)).sum().backward()\n"
        "            optimizer.step()\n"
        "        os._exit(0)\n"
        "for child in range(2):\n"
        "    print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    run = gradviz("check", script, cwd=tmp_path)
    assert "2 processes: 1 error" in run.text
    assert "GV601 missing_zero_grad" in run.text
    assert run.stderr == "0\n0\n"
    assert run.exit_code == 1


@pytest.mark.parametrize(
    ("case", "code", "told"),
    [
        ("", 0, "2 ranks on 1 host, process group gloo"),  # on a busy machine one may be slow, which is no alarm
        (
            "drifts",
            1,
            "replicas have drifted apart: before backward 3, 1 parameter of rank 1 differs from those of rank 0 "
            "'gradviz check' says which line changes it; after the step at ranks.py:37 they were still the same "
            "model.module.inner.weight: norm ",
        ),
        ("same data", 1, "all 2 ranks have the same gradients of their own in all 3 compared backward calls"),
        ("unused", 0, "model.module.extra.bias, model.module.extra.weight: only rank 0 uses them"),
        ("killed", 1, "numbers of backward calls differ: rank 0 made 3, rank 1 made 2"),
    ],
)
def test_ranks_are_compared(tmp_path: Path, case: str, code: int, told: str) -> None:
    run = gradviz("ranks", RANKS, "--", case, cwd=tmp_path)
    assert told in run.text
    assert run.exit_code == code
    assert list(tmp_path.iterdir()) == []


def test_a_thousand_ranks_are_compared_on_one_page(recorded: Path, tmp_path: Path) -> None:
    capture, size = load_capture(recorded / "run.rank0.gradviz"), 1000
    for number in range(size):
        rank = Rank(number, size, "made", f"host{number // 8}", "gloo")
        made = replace(capture, rank=rank, backward_calls=2 if number == 7 else 1)
        (tmp_path / f"run.rank{number}.gradviz").write_bytes(write_capture(made))
    files = tuple(RankFile(number, f"run.rank{number}.gradviz") for number in range(size))
    (tmp_path / "run.gradviz").write_bytes(write_job(Job("made", size, files)))
    (tmp_path / "run.rank9.gradviz").unlink()
    run = gradviz("ranks", "run.gradviz", cwd=tmp_path)
    text = run.text
    assert "999 of 1,000 ranks on 125 hosts, process group gloo" in text
    assert "ranks 0-6, 8, 10-999 made 1, rank 7 made 2" in text
    assert "rank 9: its recording run.rank9.gradviz is missing" in text
    assert len(run.stdout.splitlines()) < 30
    assert run.exit_code == 1


def test_the_comparison_is_a_page_that_loads_nothing(tmp_path: Path) -> None:
    run = gradviz("ranks", "-o", "ranks.html", RANKS, "--", "drifts", cwd=tmp_path)
    assert run.exit_code == 1
    # A busy machine makes one of them slow, which is another difference, and not wrong.
    assert re.search(r"wrote ranks.html: \d differences? stands? out, 1 likely to be wrong$", run.stderr.rstrip())
    assert "replicas" not in run.stdout
    page = (tmp_path / "ranks.html").read_text()
    assert "replicas have drifted apart: before backward 3" in page
    assert "norm of each rank&#x27;s own gradient; in red: rank 1" in page
    assert page.count("<polyline") == 4, "loss and gradient of two ranks"
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    refused = gradviz("ranks", "-o", "ranks.svg", RANKS, cwd=tmp_path)
    assert "'ranks.svg' does not end in .html or .json" in refused.stderr
    assert refused.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["ranks.html"]


def test_the_memory_of_a_job_is_that_of_all_its_ranks(recorded: Path) -> None:
    text = gradviz("memory", "run.gradviz", cwd=recorded).text
    assert "all recorded ranks: memory, and what is exchanged for parameters in a step" in text
    assert "together" in text
    assert "together" not in gradviz("memory", "run.gradviz", "--rank", "0", cwd=recorded).text
    document = json.loads(gradviz("memory", "--json", "run.gradviz", cwd=recorded).stdout)
    assert (document["rank"], document["job"]["world_size"]) == (0, 2)
    assert [each["rank"] for each in document["job"]["ranks"]] == [0, 1]
    assert document["job"]["parameter_bytes"] == sum(each["parameter_bytes"] for each in document["job"]["ranks"])
    of_one = json.loads(gradviz("memory", "--json", "run.gradviz@1", cwd=recorded).stdout)
    assert (of_one["rank"], of_one["job"]) == (1, None)


def test_one_process_has_nothing_to_compare(recorded: Path) -> None:
    run = gradviz("ranks", "run.rank0.gradviz", cwd=recorded)
    assert "run.rank0.gradviz is one rank of a job: there is nothing to compare" in run.stderr
    assert run.exit_code == 2


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (
            "less data",
            "GV811 uneven_steps ranks.py:32 rank 0 waits in backward 3 at ranks.py:36 for gradients of rank 1, which "
            "made only 2 backward calls and left the loop",
        ),
        (
            "one barrier",
            "under 'if case != \"one barrier\" or rank == 0:' (ranks.py:42)",
        ),
    ],
)
def test_a_job_that_hangs_is_ended_and_explained(tmp_path: Path, case: str, told: str) -> None:
    run = gradviz("check", "--hang", "4", RANKS, "--", case, cwd=tmp_path)  # a busy machine stands still for a second
    report = run.text
    assert "ranks.py, 2 ranks: it hung: no rank got on" in report
    assert told in report
    assert run.exit_code == 1
    assert "exit codes 1 1" in run.stderr
    assert list(tmp_path.iterdir()) == []
