"""The pictures of `samples/gallery/`: which there are, how each is drawn, and the page that shows them.

``python -m tests.golden.gallery`` (``make gallery``) draws all of them anew; `test_gallery` compares them with what the
same commands draw now.
"""

from __future__ import annotations

import ast
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.command import SAMPLES, Run, gradviz
from tests.golden.contact_sheet.sheet import redraw_sheets

GALLERY = SAMPLES / "gallery"
PAGE = GALLERY / "README.md"


@dataclass(frozen=True)
class Picture:
    """One picture of a sample."""

    sample: str
    backward: int | None = None
    """The backward call that it shows, if the sample makes several."""
    exit_code: int = 0
    color_by: str | None = None
    """Never ``time``: it differs from run to run."""
    with_values: bool = False
    is_checked: bool = False
    rank: int | None = None
    """The rank that it shows, if the sample is a job of several processes."""

    @property
    def name(self) -> str:
        ways = (self.with_values and "values", self.is_checked and "check")
        return "_".join(map(str, filter(None, (self.sample, self.backward, self.color_by, *ways))))

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments of ``gradviz render``, run in the folder of ``samples``."""
        options = () if self.backward is None else ("--backward", str(self.backward))
        colours = () if self.color_by is None else ("--color-by", self.color_by)
        values = ("--values",) if self.with_values else ()
        checked = ("--check",) if self.is_checked else ()
        rank = () if self.rank is None else ("--rank", str(self.rank))
        return (*options, *colours, *values, *checked, *rank, f"samples/{self.sample}.py")

    @property
    def file(self) -> Path:
        """The file of the picture."""
        return GALLERY / f"{self.name}.svg"


GROUPS: dict[str, tuple[Picture, ...]] = {
    "First steps": (
        Picture("log_of_product"),
        Picture("log_of_product", with_values=True),
        Picture("vector_gradient"),
        Picture("leaf_and_non_leaf"),
        Picture("grad_or_backward", backward=1),
        Picture("grad_or_backward", backward=2),
        Picture("mlp"),
    ),
    "More than one of something": (
        Picture("several_inputs_and_outputs"),
        Picture("two_losses"),
        Picture("second_derivative", backward=1),
        Picture("second_derivative", backward=2),
        Picture("min_max", backward=1),
        Picture("min_max", backward=2),
    ),
    "Operations": (
        Picture("concatenation"),
        Picture("broadcasting_add"),
        Picture("max_min_abs_where"),
        Picture("cosine_similarity"),
        Picture("cross_entropy"),
        Picture("complex_affine"),
        Picture("custom_relu"),
    ),
    "Where gradients stop, vanish and enter": (
        Picture("zero_or_no_gradient"),
        Picture("dead_relu"),
        Picture("vanishing_gradient", color_by="gradient"),
        Picture("where_does_not_hide_nan", with_values=True),
        Picture("weight_or_weight_data"),
        Picture("no_grad_in_the_middle", is_checked=True),
        Picture("injected_gradient"),
    ),
    "The same thing twice": (
        Picture("convolution_by_hand"),
        Picture("pointwise_convolution"),
    ),
    "Models": (
        Picture("unrolled_rnn"),
        Picture("resnet50"),
        Picture("gpt2"),
        Picture("distributed_data_parallel", rank=0),
    ),
    "Without a finished backward": (
        Picture("no_backward"),
        Picture("crash_in_backward", exit_code=1),
    ),
}
REPLAY = GALLERY / "replay" / "log_of_product.svg"
"""The one replay among the pictures, for the README."""


def draw_replay(file: Path) -> Run:
    """Draw it into `file`, in the repository, as the README says."""
    return gradviz("replay", "samples/log_of_product.py", "-o", file, cwd=SAMPLES.parent)


PICTURES = tuple(picture for pictures in GROUPS.values() for picture in pictures)


def draw(picture: Picture, file: Path, *more_words: str | Path) -> Run:
    """Draw it into `file` with `more_words` as further arguments, in the repository, as the page says."""
    run = gradviz("render", *picture.words, "-o", file, *more_words, cwd=SAMPLES.parent)
    if run.exit_code != picture.exit_code:
        raise RuntimeError(f"gradviz render {' '.join(picture.words)} ended with {run.exit_code}:\n{run.stderr}")
    return run


def page() -> str:
    """The page that shows the pictures, with sentences from the docstrings of the samples."""
    return "\n".join(_page_lines()) + "\n"


def _page_lines() -> Iterator[str]:
    yield "# Gallery"
    yield ""
    yield "Every script of [samples](..), unedited, with the command that draws it. `make gallery` draws them anew."
    yield ""
    for title, pictures in GROUPS.items():
        yield f"- {title}: " + ", ".join(f"[{sample}](#{sample}py)" for sample in _samples_of(pictures))
    for title, pictures in GROUPS.items():
        yield ""
        yield f"## {title}"
        for sample in _samples_of(pictures):
            yield from _entry(sample, [picture for picture in pictures if picture.sample == sample])
    yield from _pages()
    yield from _sheet()


PAGE_PICTURES = (
    (
        "gpt2_memory",
        "GPT-2, coloured by what it keeps for backward, and a map of what the first block keeps",
    ),
    ("mlp_backward", "The backward pass of a small network, played: the step that runs, its formula and its gradients"),
)
"""The views of `tests.golden.page_views` that are shown, with a description of each."""


def _pages() -> Iterator[str]:
    yield ""
    yield "## The page"
    yield ""
    yield "`gradviz view samples/gpt2.py` and `gradviz view samples/mlp.py` open pages to explore."
    for name, words in PAGE_PICTURES:
        yield ""
        yield f"![{words}](page/{name}.png)"


def _sheet() -> Iterator[str]:
    yield ""
    yield "## Contact sheet"
    yield ""
    yield "Networks that people know, as `gradviz render` draws them. The scripts are in `tests/golden/contact_sheet`."
    for theme in ("light", "dark"):
        yield ""
        yield f"![Pictures of many networks, {theme}](contact_sheet_{theme}.png)"


def _samples_of(pictures: Iterable[Picture]) -> list[str]:
    return list(dict.fromkeys(picture.sample for picture in pictures))


def _entry(sample: str, pictures: Iterable[Picture]) -> Iterator[str]:
    yield ""
    yield f"### [{sample}.py](../{sample}.py)"
    yield ""
    yield sentence_about(sample)
    for picture in pictures:
        yield ""
        yield "```sh"
        yield f"gradviz render {' '.join(picture.words)}"
        yield "```"
        yield ""
        yield f"![The graph of {picture.name}]({picture.file.name})"


def sentence_about(sample: str) -> str:
    """The first sentence of a sample's docstring."""
    text = ast.get_docstring(ast.parse((SAMPLES / f"{sample}.py").read_text(encoding="utf-8")))
    assert text, f"{sample}.py has no docstring"
    return text.splitlines()[0]


def _redraw_pages(folder: Path) -> None:
    from tests.end_to_end.pages import started_browser
    from tests.golden.page_views import demo_page, take_all

    gpt2 = folder / "gpt2.html"
    draw(Picture("gpt2"), gpt2)
    with started_browser() as browser:
        take_all(browser, {"mlp": demo_page(), "gpt2": gpt2.read_text(encoding="utf-8")}, folder)


def redraw() -> None:
    """Replace the whole gallery; if one picture cannot be drawn, nothing is replaced."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        files = [Path(folder) / picture.file.name for picture in PICTURES]
        for picture, _ in zip(PICTURES, pool.map(draw, PICTURES, files), strict=True):
            sys.stderr.write(f"drew {picture.name}\n")
        draw_replay(REPLAY)
        redraw_sheets(GALLERY)
        _redraw_pages(Path(folder))
        for outdated in GALLERY.glob("*.svg"):
            outdated.unlink()
        for file in files:
            shutil.copy(file, GALLERY)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    redraw()
    print(f"{len(PICTURES)} pictures of {len(_samples_of(PICTURES))} samples in {GALLERY}")
