"""Files are written completely or not at all, and what cannot be written is known before the work starts."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gradviz.errors import BadInput
from gradviz.file_output import check_outputs, output_format, write_output

FULL_DEVICE = Path("/dev/full")


def refusal(path: Path | str, *inputs: Path) -> str:
    """The error message for an output, before anything is written."""
    with pytest.raises(BadInput) as caught:
        check_outputs([path], inputs=inputs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def contents(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write_protection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every existing file looks write-protected, also to root, whom permissions do not stop."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)


class TestWriting:
    def test_text_is_written_as_utf_8_without_touching_line_ends(self) -> None:
        write_output(Path("a.txt"), "Größe\r\n×12\n")
        assert Path("a.txt").read_bytes() == "Größe\r\n×12\n".encode()

    def test_bytes_are_written_as_they_are(self) -> None:
        write_output("a.png", b"\x89PNG\r\n\x00")
        assert Path("a.png").read_bytes() == b"\x89PNG\r\n\x00"

    def test_a_file_name_that_is_not_utf_8_does_not_cost_the_picture(self) -> None:
        write_output("a.svg", "line 1 of tr\udce4in.py")
        assert Path("a.svg").read_bytes() == b"line 1 of tr\\udce4in.py"

    def test_missing_folders_are_made(self) -> None:
        write_output("out/of/nowhere/a.svg", "<svg/>")
        assert Path("out/of/nowhere/a.svg").read_text() == "<svg/>"

    def test_an_older_picture_is_replaced(self) -> None:
        write_output("a.svg", "an old and longer one")
        write_output("a.svg", "new")
        assert Path("a.svg").read_text() == "new"
        assert contents(Path()) == {"a.svg"}

    def test_the_permissions_of_a_new_file_are_the_usual_ones(self) -> None:
        Path("usual").touch()
        write_output("a.svg", "")
        assert Path("a.svg").stat().st_mode == Path("usual").stat().st_mode

    def test_the_permissions_of_a_replaced_file_are_kept(self) -> None:
        Path("a.svg").touch()
        Path("a.svg").chmod(0o640)
        write_output("a.svg", "new")
        assert stat.S_IMODE(Path("a.svg").stat().st_mode) == 0o640

    def test_a_link_stays_a_link_and_what_it_points_to_is_replaced(self) -> None:
        Path("real.svg").write_text("old")
        Path("link.svg").symlink_to("real.svg")
        write_output("link.svg", "new")
        assert Path("link.svg").is_symlink()
        assert Path("real.svg").read_text() == "new"

    def test_the_null_device_is_written_to_and_not_replaced(self) -> None:
        write_output(os.devnull, "x")
        assert Path(os.devnull).is_char_device()

    @pytest.mark.skipif(not FULL_DEVICE.exists(), reason="this system has no /dev/full")
    def test_a_full_device_is_reported_in_one_line(self) -> None:
        with pytest.raises(BadInput, match=r"cannot write '/dev/full': No space left on device; free some space"):
            write_output(FULL_DEVICE, "x")

    def test_a_disk_that_fills_up_leaves_the_older_picture_and_nothing_else(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path("a.svg").write_text("old")

        def no_space(source: Path, target: Path) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "replace", no_space)
        with pytest.raises(BadInput, match="No space left on device"):
            write_output("a.svg", "new")
        assert Path("a.svg").read_text() == "old"
        assert contents(Path()) == {"a.svg"}

    def test_an_interrupted_write_leaves_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(source: Path, target: Path) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_output("a.svg", "new")
        assert contents(Path()) == set()

    def test_a_folder_in_the_way_is_reported_in_one_line(self) -> None:
        Path("a.svg").mkdir()
        with pytest.raises(BadInput, match=r"cannot write 'a.svg': Is a directory"):
            write_output("a.svg", "x")

    def test_a_file_where_a_folder_should_be_is_reported_in_one_line(self) -> None:
        Path("out").touch()
        with pytest.raises(BadInput, match="a part of that path is a file, not a folder"):
            write_output("out/a.svg", "x")


class TestStandardOutput:
    def test_text_goes_there_as_it_is(self, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        write_output("-", "×12\n")
        assert capsysbinary.readouterr().out == "×12\n".encode()

    def test_bytes_go_there_as_they_are(self, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        write_output("-", b"\x89PNG\x00")
        assert capsysbinary.readouterr().out == b"\x89PNG\x00"

    def test_what_was_printed_before_comes_first(self, capfd: pytest.CaptureFixture[str]) -> None:
        print("first")
        write_output("-", "second\n")
        assert capfd.readouterr().out == "first\nsecond\n"

    def test_a_reader_that_closes_the_pipe_is_no_error(self) -> None:
        result = in_a_shell("| head -c 5")
        assert (result.returncode, result.stdout, result.stderr) == (0, "xxxxx", "")

    @pytest.mark.skipif(not FULL_DEVICE.exists(), reason="this system has no /dev/full")
    def test_a_full_device_behind_it_is_reported_in_one_line(self) -> None:
        result = in_a_shell("> /dev/full")
        assert result.stderr == "cannot write 'standard output': No space left on device; " + (
            "free some space, or choose another folder\n"
        )


def in_a_shell(redirection: str) -> subprocess.CompletedProcess[str]:
    """Writes more than a pipe holds to standard output, which is redirected as given."""
    program = (
        "import sys\n"
        "from gradviz.file_output import write_output\n"
        "from gradviz.errors import BadInput\n"
        "try:\n"
        "    write_output('-', 'x' * 1_000_000)\n"
        "except BadInput as error:\n"
        "    sys.exit(str(error))\n"
    )
    repository = Path(__file__).parents[3]
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("this system has no bash")
    return subprocess.run(
        [shell, "-o", "pipefail", "-c", f'"{sys.executable}" -c "$PROGRAM" {redirection}'],
        cwd=repository,
        env={**os.environ, "PROGRAM": program},
        capture_output=True,
        text=True,
    )


class TestCheckingBeforehand:
    def test_paths_that_can_be_written_are_accepted_and_left_alone(self) -> None:
        Path("old.svg").write_text("old")
        check_outputs(["-", "old.svg", Path("new.svg"), "out/of/nowhere/a.json", os.devnull])
        assert contents(Path()) == {"old.svg"}
        assert Path("old.svg").read_text() == "old"

    def test_a_folder_is_refused(self) -> None:
        Path("out").mkdir()
        assert refusal("out") == "'out' is a folder; add a file name"

    def test_the_script_itself_is_refused(self) -> None:
        script = Path("train.py")
        script.write_text("pass")
        assert (
            refusal("train.py", script.absolute())
            == "'train.py' is the input itself; choose another name for the output"
        )

    def test_the_capture_that_is_read_is_refused_under_any_name(self) -> None:
        Path("run.gradviz").write_text("")
        Path("link.gradviz").symlink_to("run.gradviz")
        assert "is the input itself" in refusal("link.gradviz", Path("run.gradviz"))

    def test_a_file_of_another_kind_is_refused(self) -> None:
        Path("notes.md").write_text("mine")
        assert refusal("notes.md") == (
            "'notes.md' exists already and does not look like a file of gradviz; "
            "choose another name, or remove it first"
        )

    @pytest.mark.parametrize("name", ["a.svg", "A.PNG", "a.gv", "run.gradviz"])
    def test_a_file_of_our_own_kind_may_be_replaced(self, name: str) -> None:
        Path(name).touch()
        check_outputs([name], inputs=[Path("train.py")])

    @pytest.mark.usefixtures("write_protection")
    def test_a_write_protected_picture_is_refused(self) -> None:
        Path("a.svg").touch()
        assert refusal("a.svg") == "'a.svg' is write-protected; choose another name, or remove it first"

    def test_a_file_where_a_folder_should_be_is_refused(self) -> None:
        Path("out").touch()
        assert refusal("out/a.svg") == (
            "cannot write 'out/a.svg': Not a directory; a part of that path is a file, not a folder"
        )

    def test_a_name_that_is_too_long_is_refused(self) -> None:
        assert refusal("a" * 300 + ".svg").endswith("File name too long; choose a shorter name")

    def test_links_in_a_circle_are_refused(self) -> None:
        Path("a.svg").symlink_to("b.svg")
        Path("b.svg").symlink_to("a.svg")
        assert "Too many levels of symbolic links" in refusal("a.svg")

    def test_a_folder_that_takes_no_files_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def denied(**_: object) -> None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr("tempfile.TemporaryFile", denied)
        assert refusal("a.svg") == "cannot write 'a.svg': Permission denied; choose a folder that you may write to"

    @pytest.mark.parametrize(("first", "second"), [("a.svg", "./a.svg"), ("-", "-")])
    def test_two_outputs_of_the_same_name_are_refused(self, first: str, second: str) -> None:
        with pytest.raises(BadInput, match="are the same file; give each its own name"):
            check_outputs([first, second])


class TestFormats:
    @pytest.mark.parametrize(
        ("path", "name"),
        [("a.svg", "svg"), ("a.b.PNG", "png"), ("out/a.gv", "dot"), ("a.dot", "dot"), ("a.json", "json")],
    )
    def test_the_suffix_says_the_format(self, path: str, name: str) -> None:
        assert output_format(path).name == name

    def test_an_explicit_format_needs_no_suffix(self) -> None:
        assert output_format("-", "dot").name == "dot"
        assert output_format(Path("picture"), "SVG").name == "svg"
        assert output_format("picture.out", "svg").name == "svg"

    @pytest.mark.parametrize(
        ("path", "line"),
        [
            ("a.sgv", "'a.sgv' ends in '.sgv', which is not a known format; did you mean 'gv' or 'svg'?"),
            ("a.jpg", "'a.jpg' ends in '.jpg', which is not a known format; did you mean 'png'?"),
            ("picture", "'picture' does not determine the format; choose from "),
            ("-", "standard output does not determine the format; add --format"),
        ],
    )
    def test_an_unknown_format_is_refused_with_what_there_is(self, path: str, line: str) -> None:
        with pytest.raises(BadInput) as caught:
            output_format(path)
        assert str(caught.value).startswith(line)

    def test_the_longest_suffix_counts(self) -> None:
        assert output_format("out/net.Model-Explorer.json").name == "model-explorer"
        assert output_format("model-explorer.json").name == "json"

    def test_a_format_of_a_double_suffix_may_be_asked_for_by_the_last_one(self) -> None:
        assert output_format("net.json", "model-explorer").name == "model-explorer"

    def test_a_suffix_that_contradicts_the_format_is_refused(self) -> None:
        with pytest.raises(
            BadInput, match=r"'a.svg' is named as svg, but the format asked for is json; name it 'a.json', or"
        ):
            output_format("a.svg", "json")

    def test_a_misspelt_format_is_refused_with_near_matches(self) -> None:
        with pytest.raises(BadInput, match="unknown format 'jsn'; did you mean 'json'"):
            output_format("-", "jsn")
