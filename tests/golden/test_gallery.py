"""The committed pictures equal the pictures of the samples today, byte for byte.

Except the release of torch in the subtitle, and the figures of gradients in tooltips: sums of floating-point numbers
differ between machines, and of a gradient that is zero except for rounding, every digit differs. Tests with numbers by
hand check what those figures say.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradviz.recording.torch_access.capabilities import works
from tests.end_to_end.command import SAMPLES
from tests.end_to_end.installed_libraries import COMMITTED_NODES, nodes_of_gpt2
from tests.golden.drawn_pictures import drawn_picture
from tests.golden.gallery import GALLERY, PAGE, PICTURES, REPLAY, Picture, draw_replay, page
from tests.shared_runs import SharedFolders

ACTUAL = Path(__file__).parent / "actual"


_MEASURED = re.compile(rb"^(gradient|sizes 1e|its part of the sum|cosine to the|\.grad was added)[^<\n]*", re.MULTILINE)
_TOOLTIP = re.compile(rb"<title>[^<]*</title>")
_RELEASE = re.compile(rb">torch [\d.]+ \xc2\xb7 ")


def comparable(svg: bytes) -> bytes:
    """The picture without the release of torch, and without the figures of gradients in its tooltips."""
    return _RELEASE.sub(b">torch", _TOOLTIP.sub(lambda tooltip: _MEASURED.sub(rb"\1", tooltip[0]), svg))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_sample_is_drawn_as_its_committed_picture(picture: Picture, shared: SharedFolders) -> None:
    drawn = drawn_picture(picture, shared).svg
    actual = ACTUAL / picture.file.name
    if picture.file.exists() and comparable(drawn) == comparable(picture.file.read_bytes()):
        actual.unlink(missing_ok=True)
        return
    if picture.sample == "gpt2" and nodes_of_gpt2() != COMMITTED_NODES:
        pytest.skip(
            f"the installed libraries make {nodes_of_gpt2()} nodes of it, and the picture has {COMMITTED_NODES}"
        )
    if picture.exit_code and not works("failed nodes"):
        pytest.skip("this torch does not report which node failed in backward, and what is drawn says so")
    ACTUAL.mkdir(exist_ok=True)
    actual.write_bytes(drawn)
    pytest.fail(
        f"{picture.file} is not what `gradviz render {' '.join(picture.words)}` draws: see {actual};"
        " `make gallery` accepts it",
        pytrace=False,
    )


def test_the_replay_in_the_readme_is_drawn_the_same_today(tmp_path: Path) -> None:
    drawn = tmp_path / REPLAY.name
    assert draw_replay(drawn).exit_code == 0
    if comparable(drawn.read_bytes()) == comparable(REPLAY.read_bytes()):
        return
    ACTUAL.mkdir(exist_ok=True)
    (ACTUAL / "replay.svg").write_bytes(drawn.read_bytes())
    pytest.fail(f"{REPLAY} is not what is drawn now: see {ACTUAL / 'replay.svg'}; `make gallery` accepts it", False)


def test_every_sample_has_a_picture_and_every_picture_a_sample() -> None:
    assert {picture.sample for picture in PICTURES} == {sample.stem for sample in SAMPLES.glob("*.py")}
    assert {picture.file for picture in PICTURES} == set(GALLERY.glob("*.svg"))


def test_the_page_shows_the_samples_as_they_describe_themselves() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "`make gallery` writes it anew"
