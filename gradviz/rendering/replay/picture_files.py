"""The files of a replay: one picture of all frames, or a folder with one file for each frame, as SVG or PNG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gradviz.errors import BadInput, near_matches
from gradviz.rendering.look.palette import THEMES
from gradviz.rendering.replay.frame_strip import ReplayStrip, StripLook
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.rendering.svg.png import fitting_scale, pixels
from gradviz.rendering.svg.svg import Drawing

SUFFIXES = (".svg", ".png")
MAX_FILES = 1_000
_PNG_SCALE = 2.0


@dataclass(frozen=True)
class ReplayOutput:
    """Where pictures of a replay are written; raises `BadInput` for a name without a known suffix."""

    path: Path
    is_folder: bool

    @classmethod
    def of(cls, name: str) -> ReplayOutput:
        """The meaning of a name on the command line: ``steps.svg``, ``steps.png``, or a folder: ``steps/``."""
        if not name:
            raise BadInput(
                "the pictures of a replay need a name", hint="-o steps.svg, or -o steps/ for a file for each step"
            )
        path = Path(name)
        if name.endswith("/") or path.is_dir():
            return cls(path, is_folder=True)
        if path.suffix.lower() in SUFFIXES:
            return cls(path, is_folder=False)
        if name == "-":
            raise BadInput("pictures of a replay do not go to standard output", hint="name a file, or a folder")
        if not path.suffix:
            raise BadInput(
                f"{name!r} does not say which format is wanted",
                hint=f"name it {name}.svg, or {name}/ for a folder with a file for each step",
            )
        raise BadInput(
            f"{name!r} ends in {path.suffix!r}, and a replay is drawn as .svg or .png",
            hint=near_matches(path.suffix.lower(), SUFFIXES),
        )

    @property
    def first_file(self) -> Path:
        """The file that is written first, whatever the replay contains."""
        return self.path / "step-0.svg" if self.is_folder else self.path

    @property
    def is_png(self) -> bool:
        return self.path.suffix.lower() == ".png" and not self.is_folder


def picture_files(
    output: ReplayOutput, look: StripLook, words: ReplayWords, steps: range, notes: tuple[str, ...]
) -> Iterator[tuple[Path, str | bytes]]:
    """Every file with its content; raises `BadInput` if there are too many steps."""
    strip = ReplayStrip(words, look, steps, notes)
    if not output.is_folder:
        if not output.is_png:
            yield output.path, strip.whole().markup
            return
        pages = list(strip.pages())
        for number, page in enumerate(pages, 1):
            name = f"{output.path.stem}-{number}{output.path.suffix}" if len(pages) > 1 else output.path.name
            yield output.path.with_name(name), _png(page, look)
        return
    if len(steps) > MAX_FILES:
        raise BadInput(
            f"{len(steps):,} steps would be as many files, and more than {MAX_FILES:,} are not written",
            hint="--from and --to draw a part, --depth folds more",
        )
    digits = len(str(steps[-1]))
    for at in steps:
        yield output.path / f"step-{at:0{digits}}.svg", strip.single(at).markup


def _png(drawing: Drawing, look: StripLook) -> bytes:
    theme = THEMES["dark" if look.theme == "dark" else "light"]
    return pixels(drawing, fitting_scale(drawing, _PNG_SCALE), theme.page)
