"""Run logs of `gradviz.watch` on the command line: tables, a picture, data, TensorBoard, and errors of one line."""

from __future__ import annotations

import json
import os
from math import nan
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gradviz.capture.capture_file import write_capture
from gradviz.capture.run_log import RunLog
from gradviz.capture.run_log_file import RunLogWriter
from tests.captures import small_capture
from tests.end_to_end.command import gradviz, refused, written_script
from tests.run_logs import BROKEN, run_log

LOG = run_log(
    {
        "net.embed": [(1e-6, 0), (1e-5, 0), (nan, 0)],
        "net.dying": [(1.0, 0), (0.0, 4), (0.0, 4)],
        "net.head": [(1.0, 0), (10.0, 1), BROKEN],
    }
)


def written(folder: Path, log: RunLog = LOG, name: str = "run.gradviz") -> Path:
    writer = RunLogWriter(folder / name, log.header)
    for figures in log.steps:
        writer.add(figures)
    if log.end is not None:
        writer.close(log.end)
    return Path(name)


def without_torch(folder: Path) -> dict[str, str]:
    """An environment in which torch cannot be imported."""
    (folder / "bare").mkdir()
    (folder / "bare" / "torch.py").write_text("raise ImportError('there is no torch here')\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder / "bare"), os.environ.get("PYTHONPATH", "")])}


def test_all_steps_are_lines_on_one_scale_and_what_went_wrong_is_said(tmp_path: Path) -> None:
    run = gradviz("flow", written(tmp_path), "--over-steps", "--width", "80", cwd=tmp_path)
    assert run.exit_code == 0
    assert (
        run.stdout
        == """\
gradients of train.py over steps 1 to 20
parameter    first  last  zeros  step 1
net.embed  5.0e-07     -         ▁▂
net.dying      0.5     0   100%  ▇00
net.head       0.5   NaN         ▇█!

size of the gradient, root mean square: ▁ 1e-7 to █ 1e1, ! NaN or Inf, 0 all
  zero
NaN or Inf first at step 20: net.head
all zero since step 10: net.dying
3 parameters at 3 measured steps, every=10
"""
    )


def test_the_last_step_is_the_usual_table(tmp_path: Path) -> None:
    run = gradviz("flow", written(tmp_path), "--width", "80", "--ascii", cwd=tmp_path, env=without_torch(tmp_path))
    assert run.exit_code == 0
    lines = run.stdout.splitlines()
    assert lines[0] == "gradients of step 20 of train.py"
    assert lines[2].split() == ["net.dying", "4", "0", "0", "100%", "all", "zero"]
    assert "no gradient, none arrived in this step: net.embed" in lines
    assert lines[-1] == "next:  gradviz flow run.gradviz --over-steps   shows all 3 measured steps"


def test_the_picture_is_drawn_without_torch(tmp_path: Path) -> None:
    env = without_torch(tmp_path)
    run = gradviz("flow", written(tmp_path), "--over-steps", "-o", "flow.svg", cwd=tmp_path, env=env)
    assert (run.exit_code, run.stdout) == (0, "wrote flow.svg: 3 measured steps of train.py\n")
    assert ElementTree.parse(tmp_path / "flow.svg").getroot().tag.endswith("svg")


def test_all_figures_are_data(tmp_path: Path) -> None:
    run = gradviz("flow", written(tmp_path), "--over-steps", "--json", cwd=tmp_path)
    document = json.loads(run.stdout)
    assert (document["schema"], document["steps"]) == ("gradviz flow over steps", [1, 10, 20])
    assert [series["norms"] for series in document["parameters"]] == [[1e-6, 1e-5, None], [1, 0, 0], [1, 10, None]]


def test_a_log_that_broke_off_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / written(tmp_path)
    path.write_bytes(path.read_bytes()[:-150])
    run = gradviz("flow", path.name, "--over-steps", cwd=tmp_path)
    assert "gradients of train.py over steps 1 to 10" in run.stdout
    assert "this run log is cut short" in run.stdout


def test_tensorboard_gets_every_step(tmp_path: Path) -> None:
    run = gradviz("flow", written(tmp_path), "--to-tensorboard", "events", cwd=tmp_path)
    assert run.stdout.splitlines() == ["wrote 3 measured steps to events", "next:  tensorboard --logdir events"]
    assert list((tmp_path / "events").glob("events.out.tfevents.*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tree", "run.gradviz"], "'run.gradviz' is a run log of gradviz.watch(), which holds no graph; 'gradviz flow"),
        (["render", "run.gradviz"], "'run.gradviz' is a run log of gradviz.watch(), which holds no graph; 'gradviz"),
        (["memory", "run.gradviz"], "'run.gradviz' is a run log of gradviz.watch(), which holds no graph; 'gradviz"),
        (["record", "run.gradviz"], "run.gradviz is a run log of gradviz.watch(); gradviz flow shows it"),
        (
            ["flow", "run.gradviz", "--backward", "2"],
            "--backward needs a script or a recording; run.gradviz is a run log",
        ),
        (["flow", "run.gradviz", "--", "x"], "unexpected 'x': run.gradviz is a run log and is not run"),
        (["flow", "run.gradviz", "-o", "x.svg"], "-o of a run log needs --over-steps"),
        (["flow", "run.gradviz", "--json"], "--json of a run log needs --over-steps"),
        (["flow", "run.gradviz", "--over-steps", "-o", "x.png"], "'x.png' does not end in .svg"),
        (["flow", "run.gradviz", "--over-steps", "-o", "run.gradviz"], "'run.gradviz' does not end in .svg"),
        (
            ["flow", "run.gradviz", "--over-steps", "--to-tensorboard", "d"],
            "--to-tensorboard cannot be combined with other outputs; leave out",
        ),
        (["flow", "run.gradviz", "--to-tensorboard", "run.gradviz"], "cannot write to the folder 'run.gradviz'"),
        (
            ["flow", "capture.gradviz", "--over-steps"],
            "--over-steps needs a run log, and capture.gradviz is a recording",
        ),
        (["flow", "train.py", "--over-steps"], "--over-steps needs a run log, and train.py is a script"),
        (["flow", "gone.gradviz", "--over-steps"], "no such run log: gone.gradviz; gradviz.watch(model) in a script"),
        (["flow", "gone.gradviz"], "no such recording: gone.gradviz"),
        (["flow", "empty.gradviz", "--over-steps"], "'empty.gradviz' is empty"),
        (["flow", "cut.gradviz"], "'cut.gradviz' is cut short: its last 12 bytes are not a complete record"),
    ],
)
def test_what_does_not_fit_a_run_log_is_one_line_and_changes_nothing(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    data = (tmp_path / written(tmp_path)).read_bytes()
    (tmp_path / "cut.gradviz").write_bytes(data[:30])
    (tmp_path / "empty.gradviz").touch()
    (tmp_path / "capture.gradviz").write_bytes(write_capture(small_capture()))
    written_script(tmp_path, "raise SystemExit('the script was run')")
    assert refused(*arguments, cwd=tmp_path).startswith(message)
