"""A script that ends suddenly, or stops in the middle: its exit code is its own, and the recording is not lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.command import GRADVIZ, Run, gradviz, installed_python, written_script

THREE_STEPS = """
import os, signal, sys, torch
w = torch.ones(2, requires_grad=True)
for step in range(3):
    (w * step).exp().sum().backward()
"""
ENDS = {
    "os._exit(7)": 7,
    "os.execlp('sh', 'sh', '-c', 'exit 5')": 5,
    "os.kill(os.getpid(), signal.SIGTERM)": -signal.SIGTERM,
    "os.kill(os.getpid(), signal.SIGKILL)": -signal.SIGKILL,
}


def spools(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.unfinished-*.gradviz")]


@pytest.mark.parametrize("end", ENDS)
def test_a_sudden_end_keeps_the_recording_and_the_older_file(end: str, tmp_path: Path) -> None:
    script = written_script(tmp_path, THREE_STEPS + end)
    (tmp_path / "net.svg").write_text("the older picture")
    run = gradviz("render", script, "--backward", "last", "-o", "net.svg", cwd=tmp_path)
    assert run.exit_code == ENDS[end], run.stderr
    assert (tmp_path / "net.svg").read_text() == "the older picture"
    (spool,) = spools(tmp_path)
    assert spool.startswith("net.unfinished-")

    # The next command on this output names it, and it opens like any recording.
    again = gradviz("render", written_script(tmp_path, THREE_STEPS), "-o", "net.svg", cwd=tmp_path)
    assert (
        again.stderr == f"gradviz: {spool} holds what a run recorded before it ended suddenly; "
        "it opens like any recording, and can be removed\n"
    )
    opened = gradviz("tree", spool, cwd=tmp_path)
    assert (opened.exit_code, opened.stderr) == (0, "")
    assert "ExpBackward0" in opened.stdout
    assert "had not ended when this was written, after backward" in opened.text
    assert spools(tmp_path) == [spool]


def test_os_exit_says_where_the_recording_is_and_keeps_all_of_it(tmp_path: Path) -> None:
    script = written_script(tmp_path, THREE_STEPS + "os._exit(0)")
    run = gradviz("check", script, cwd=tmp_path)
    (spool,) = spools(tmp_path)
    assert run.stderr == f"gradviz: the script called os._exit; what was recorded until then is in {tmp_path / spool}\n"
    checked = gradviz("check", spool, cwd=tmp_path)
    assert "checked: 3 backward calls" in checked.stdout


@pytest.mark.parametrize("imports", ["import os", "import os, torch"])
def test_os_exit_before_any_backward_says_that_nothing_was_recorded(imports: str, tmp_path: Path) -> None:
    run = gradviz("check", written_script(tmp_path, f"{imports}\nos._exit(3)"), cwd=tmp_path)
    told = "gradviz: the script called os._exit; nothing was recorded until then, and nothing can be shown\n"
    assert (run.exit_code, run.stdout, run.stderr) == (3, "", told)


@pytest.mark.parametrize("words", [["--backward", "all"], ["--keep-going"]])
def test_nothing_is_left_of_a_spool_after_a_normal_end(words: list[str], tmp_path: Path) -> None:
    text = THREE_STEPS + "if os.fork() == 0: os._exit(5)\nos.wait()\nfor name in os.listdir(): print(name)\n"
    run = gradviz("record", written_script(tmp_path, text), *words, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert run.stdout.count("train.unfinished-") == 1  # it was there while the script ran
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.gradviz", "train.py"]


def test_a_search_for_a_program_that_is_not_there_is_no_end(tmp_path: Path) -> None:
    text = THREE_STEPS + "try: os.execvp('no-such-program', ['x'])\nexcept OSError: print('not there')\n"
    run = gradviz("record", "--keep-going", written_script(tmp_path, text), cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (0, "")
    assert "not there" in run.stdout


def test_the_scripts_own_exit_code_comes_before_that_of_findings(tmp_path: Path) -> None:
    """`check` exits with the code of the script if that failed; otherwise with 1 if there are findings."""
    finding = "import sys, torch\nw = torch.ones(2, requires_grad=True)\n(w * 0).sqrt().sum().backward()\n"
    assert gradviz("check", written_script(tmp_path, finding), cwd=tmp_path).exit_code == 1
    assert gradviz("check", written_script(tmp_path, finding + "sys.exit(3)"), cwd=tmp_path).exit_code == 3
    assert gradviz("check", written_script(tmp_path, finding + "sys.exit(256)"), cwd=tmp_path).exit_code == 1


def test_a_script_that_exits_with_an_error_code_is_not_called_faultless(tmp_path: Path) -> None:
    run = gradviz("check", written_script(tmp_path, THREE_STEPS + "sys.exit(3)"), cwd=tmp_path)
    assert run.stdout.startswith("train.py: nothing wrong found before it exited with an error code of its own\n")


LEFT_BEHIND = {
    "another working directory": "(os.mkdir('elsewhere'), os.chdir('elsewhere'))",
    "a low limit of recursion": "sys.setrecursionlimit(40)",
    "closed streams": "(sys.stdout.close(), sys.stderr.close())",
}


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_what_a_script_leaves_behind_does_not_keep_its_picture_from_being_written(what: str, tmp_path: Path) -> None:
    program = "import atexit\natexit.register(lambda: open('at_exit', 'w').close())\n" + THREE_STEPS
    run = gradviz("render", "--keep-going", written_script(tmp_path, program + LEFT_BEHIND[what]), cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (0, "")
    assert run.stdout.startswith("wrote train.svg\n")
    assert (tmp_path / "train.svg").exists()
    # What the script does at the end of its process happens where it wanted it.
    assert (tmp_path / "elsewhere" / "at_exit" if "directory" in what else tmp_path / "at_exit").exists()


# -- stopping inside of something ------------------------------------------------------------------------------------

TASKS = {
    "a task that nobody waits for": "task = asyncio.create_task(step())\n    await asyncio.sleep(9)",
    "a task that is awaited": "await asyncio.create_task(step())",
    "tasks that are gathered": "await asyncio.gather(step(), step(), return_exceptions=True)",
    "a thread": "await asyncio.to_thread(backward)",
}


@pytest.mark.parametrize("what", TASKS)
def test_a_script_is_stopped_quietly_inside_asyncio(what: str, tmp_path: Path) -> None:
    text = f"""
import asyncio, torch
w = torch.ones(2, requires_grad=True)
def backward():
    w.exp().sum().backward()
async def step():
    try:
        backward()
    finally:
        await asyncio.sleep(0)
        print("cleaned up")
async def main():
    {TASKS[what]}
    print("not reached")
asyncio.run(main())
"""
    run = gradviz("render", written_script(tmp_path, text), cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (0, "")
    assert ("cleaned up" in run.stdout) == (what != "a thread")
    assert "not reached" not in run.stdout
    assert (tmp_path / "train.svg").exists()


@pytest.mark.parametrize("keeps_on", ["", "    except BaseException: yield 'swallowed'\n"])
def test_a_script_is_stopped_inside_a_generator(keeps_on: str, tmp_path: Path) -> None:
    text = f"""
import torch
def steps():
    try:
        torch.ones(2, requires_grad=True).exp().sum().backward()
        yield "not reached"
{keeps_on}    finally:
        print("cleaned up")
for step in steps():
    print(step)
"""
    run = gradviz("tree", written_script(tmp_path, text), cwd=tmp_path)
    assert run.exit_code == 0
    assert "ExpBackward0" in run.stdout
    assert "cleaned up" in run.stderr
    assert ("swallowed" in run.stderr) == bool(keeps_on)
    assert "not reached" not in run.stderr
    assert "Traceback" not in run.stderr


# -- the machine -----------------------------------------------------------------------------------------------------

_LIMITED = "import resource, sys; {}; from gradviz.cli import main; main(sys.argv[1:])"
LIMITS = {
    "few open files": "resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))",
    "a small stack": "resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))",
    "little memory": "resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))",
}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    gradviz("record", written_script(tmp_path, THREE_STEPS), cwd=tmp_path)
    return tmp_path / "train.gradviz"


@pytest.mark.parametrize("limit", LIMITS)
def test_a_capture_is_drawn_under_low_limits(limit: str, capture: Path) -> None:
    run = installed_python("-c", _LIMITED.format(LIMITS[limit]), "render", capture.name, cwd=capture.parent)
    assert (run.exit_code, run.stderr) == (0, "")


def under_permissions(*words: str | Path, cwd: Path, env: dict[str, str]) -> Run:
    """A new ``gradviz`` that obeys permissions: as the superuser, without the right to pass them over."""
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*drop, GRADVIZ, *words], cwd=cwd, env={**os.environ, **env}, capture_output=True, encoding="utf-8", timeout=600
    )
    return Run(done.returncode, done.stdout, done.stderr)


needs_setpriv = pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")


@needs_setpriv
def test_an_output_in_a_protected_folder_is_refused(capture: Path) -> None:
    (capture.parent / "protected").mkdir(mode=0o500)
    run = under_permissions("render", "train.py", "-o", "protected/out.svg", cwd=capture.parent, env={})
    assert run.exit_code == 2
    assert "choose a folder that you may write to" in run.stderr


@needs_setpriv
@pytest.mark.parametrize("home", ["read-only", "missing"])
def test_home_is_not_needed(home: str, capture: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    if home == "read-only":
        folder.mkdir(mode=0o500)
    env = {"HOME": str(folder), "XDG_CACHE_HOME": "", "LC_ALL": "C", "LANG": "C"}
    for words in (["render", "train.py"], ["tree", "train.gradviz"], ["explain", "sqrt"]):
        run = under_permissions(*words, cwd=capture.parent, env=env)
        assert run.exit_code == 0, run.stderr
        assert "Traceback" not in run.stderr


@needs_setpriv
def test_a_tree_in_a_read_only_folder_leaves_no_complaint(capture: Path) -> None:
    capture.parent.chmod(0o500)
    try:
        run = under_permissions("tree", "--backward", "all", "train.py", cwd=capture.parent, env={})
    finally:
        capture.parent.chmod(0o700)
    assert (run.exit_code, run.stderr) == (0, "")


def test_a_disk_that_fills_in_the_middle_of_a_script_costs_only_the_spool(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: writing a part of a file succeeds, and the rest fails."""
    text = f"""
{THREE_STEPS}
if step == 2:
    from pathlib import Path
    print([path.name for path in Path().iterdir() if path.name != "train.py"])
"""
    limited = _LIMITED.format("resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99))")  # Python ignores its signal
    script = written_script(tmp_path, text)
    run = installed_python("-c", limited, "record", "--keep-going", script, cwd=tmp_path)
    assert run.exit_code == 2
    assert "[]" in run.stdout  # the program went on, and no part of a file was left
    assert run.stderr.count("cannot write") == 2  # the spool once, and the recording at the end
    assert "File too large; if the script ends suddenly, the recording is lost" in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
