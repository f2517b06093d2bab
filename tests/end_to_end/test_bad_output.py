"""An output that cannot be written gives one line, if possible before the script runs, and no file is half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.command import GRADVIZ, SCRIPTS, gradviz, installed_gradviz, refused
from tests.shared_runs import SharedFolders

as_ordinary_user = pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not stop the superuser")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- files -------------------------------------------------------------------------------------------------------


def test_missing_folders_are_made(folder: Path) -> None:
    assert gradviz("render", "run.gradviz", "-o", "new/deep/out.svg", cwd=folder).exit_code == 0
    assert (folder / "new" / "deep" / "out.svg").exists()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("/proc/nowhere/out.svg", ["/proc/nowhere/out.svg", "cannot write"]),
        ("train.py/out.svg", ["train.py/out.svg", "not a folder"]),
        ("x" * 300 + ".svg", ["cannot write", "shorter name"]),
        ("folder.svg", ["'folder.svg' is a folder"]),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_script_runs(
    output: str, words: list[str], folder: Path
) -> None:
    (folder / "folder.svg").mkdir()
    found = refused("render", "train.py", "-o", output, cwd=folder)
    assert [word for word in words if word not in found] == []


@pytest.mark.parametrize("output", ["notes.md", "train.py", "./train.py", "link.py"])
def test_a_file_that_is_something_else_is_not_overwritten(output: str, folder: Path) -> None:
    (folder / "notes.md").write_text("precious")
    (folder / "link.py").symlink_to("train.py")
    found = refused("render", "train.py", "-o", output, "--format", "svg", cwd=folder)
    assert Path(output).name in found


def test_the_capture_itself_is_not_overwritten_by_its_picture(folder: Path) -> None:
    (folder / "run.svg").symlink_to("run.gradviz")
    assert "'run.svg' is the input itself" in refused("render", "run.gradviz", cwd=folder)


def test_a_script_with_a_suffix_of_ours_is_not_overwritten(folder: Path) -> None:
    (folder / "train.py").rename(folder / "train.svg")
    assert "'train.svg' is the input itself" in refused("render", "train.svg", "-o", "train.svg", cwd=folder)


@as_ordinary_user
def test_a_protected_folder_is_reported(folder: Path) -> None:
    (folder / "protected").mkdir(mode=0o500)
    found = refused("render", "train.py", "-o", "protected/out.svg", cwd=folder)
    assert "choose a folder that you may write to" in found


@as_ordinary_user
def test_a_protected_file_is_reported(folder: Path) -> None:
    (folder / "out.svg").write_text("kept")
    (folder / "out.svg").chmod(0o400)
    assert "'out.svg' is write-protected" in refused("render", "train.py", "-o", "out.svg", cwd=folder)


def test_a_full_disk_is_reported(folder: Path) -> None:
    found = refused("render", "run.gradviz", "--format", "svg", "-o", "/dev/full", cwd=folder)
    assert "No space left on device" in found
    assert "free some space" in found


def test_a_file_is_replaced_whole_or_not_at_all(folder: Path) -> None:
    """An existing picture survives a full disk: here, a limit of 4 kB for files."""
    (folder / "run.svg").write_text("the old picture")
    command = f"ulimit -f 4; exec {GRADVIZ} render run.gradviz"
    run = subprocess.run(["/bin/bash", "-c", command], cwd=folder, capture_output=True, encoding="utf-8")
    assert run.returncode == 2, run.stderr
    assert run.stderr.startswith("gradviz: cannot write 'run.svg'")
    assert (folder / "run.svg").read_text() == "the old picture"
    assert names(folder) == ["run.gradviz", "run.svg", "train.py"]


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, with a script, an older picture and an older recording, and 4 kB of free space."""
    disk = folder / "disk"
    disk.mkdir()
    mount: list[str | Path] = ["mount", "-t", "tmpfs", "-o", "size=512k", "gradviz-test", disk]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a file system can be mounted by the superuser only")
    try:
        for name in ("train.py", "run.gradviz"):
            shutil.copy(folder / name, disk)
        (disk / "train.svg").write_text("the older picture")
        (disk / "train.gradviz").write_bytes((folder / "run.gradviz").read_bytes())
        free = os.statvfs(disk)
        (disk / "ballast").write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - 4096)))
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def test_an_older_picture_survives_a_full_disk(small_disk: Path) -> None:
    before = contents(small_disk)
    assert "No space left on device" in refused("render", "run.gradviz", "-o", "train.svg", cwd=small_disk)
    assert contents(small_disk) == before


def test_an_older_recording_survives_a_full_disk_and_the_new_one_is_kept_elsewhere(
    small_disk: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (small_disk / "more").write_bytes(bytes(4096))
    before = contents(small_disk)
    run = installed_gradviz("record", "train.py", cwd=small_disk, env={"TMPDIR": str(elsewhere)})
    assert (run.exit_code, contents(small_disk)) == (2, before)
    (kept,) = elsewhere.glob("*.gradviz")
    assert "No space left on device; free some space" in run.stderr
    assert f"the recording is kept in {kept}" in run.stderr
    assert gradviz("tree", kept, cwd=elsewhere).exit_code == 0


# -- standard output ---------------------------------------------------------------------------------------------


@pytest.fixture
def several_graphs(shared: SharedFolders) -> Path:
    def fill(target: Path) -> None:
        script = SCRIPTS / "three_backwards.py"
        gradviz("record", "--backward", "all", "-o", "several.gradviz", script, cwd=target)

    return shared.folder("several", fill) / "several.gradviz"


@pytest.mark.parametrize("name", ["svg", "png", "json", "dot"])
def test_several_pictures_do_not_go_to_one_standard_output(name: str, several_graphs: Path, folder: Path) -> None:
    found = refused("render", several_graphs, "--format", name, "-o", "-", cwd=folder)
    assert "--backward" in found


@pytest.mark.parametrize(
    "arguments",
    [
        ["tree", "run.gradviz"],
        ["render", "run.gradviz", "-o", "-", "--format", "svg"],
        ["render", "run.gradviz"],
    ],
)
def test_a_reader_that_closes_the_pipe_is_no_error(arguments: list[str], folder: Path) -> None:
    """As in ``gradviz tree run.gradviz | head -0``: the pipe is closed before anything is written to it."""
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run([GRADVIZ, *arguments], cwd=folder, stdout=writing, stderr=subprocess.PIPE, encoding="utf-8")
    os.close(writing)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_full_standard_output_is_reported(folder: Path) -> None:
    command = f"{GRADVIZ} tree run.gradviz > /dev/full"
    run = subprocess.run(["/bin/sh", "-c", command], cwd=folder, stderr=subprocess.PIPE, encoding="utf-8")
    assert run.returncode == 2
    (line,) = run.stderr.splitlines()
    assert line.startswith("gradviz: cannot write 'standard output': No space left on device")


def test_a_picture_needs_no_standard_output_at_all(folder: Path) -> None:
    command = f"{GRADVIZ} render run.gradviz >&-"
    run = subprocess.run(["/bin/sh", "-c", command], cwd=folder, stderr=subprocess.PIPE, encoding="utf-8")
    assert (run.returncode, run.stderr) == (0, "")
    assert (folder / "run.svg").exists()


def test_a_tree_without_standard_output_is_no_defect(folder: Path) -> None:
    command = f"{GRADVIZ} tree run.gradviz >&-"
    run = subprocess.run(["/bin/sh", "-c", command], cwd=folder, stderr=subprocess.PIPE, encoding="utf-8")
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_tree_is_readable_on_a_terminal_without_unicode(encoding: str, folder: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    run = subprocess.run([GRADVIZ, "tree", "run.gradviz"], cwd=folder, env=env, capture_output=True)
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout.isascii()
