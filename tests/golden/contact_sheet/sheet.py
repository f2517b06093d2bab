"""One sheet with a picture of each network that people know, to look at all of them at once, light and dark.

`python -m tests.golden.gallery` (``make gallery``) draws it anew; `test_contact_sheet` measures the pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from gradviz.capture.capture_file import load_capture
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.palette import ThemeName
from gradviz.rendering.subjects import subject_of
from gradviz.rendering.svg.png import PngRenderer
from gradviz.view.build import ViewOptions
from tests.end_to_end.command import SAMPLES, gradviz

PROGRAMS = tuple(sorted((Path(__file__).parent / "programs").glob("*.py")))
SHEET = (*PROGRAMS, SAMPLES / "gpt2.py", SAMPLES / "resnet50.py")
COLUMNS = 5
WIDTH, GAP = 620, 20
"""Of one picture, and the space around it, in pixels."""
BACKGROUND: dict[ThemeName, str] = {"light": "#c8ccd2", "dark": "#3a3f47"}


def recorded(program: Path, folder: Path) -> Subject:
    """What is drawn of the first backward of a program; `folder` gets its capture."""
    capture_file = folder / f"{program.stem}.gradviz"
    run = gradviz("record", program.name, "-o", capture_file, cwd=program.parent)
    if run.exit_code:
        raise RuntimeError(f"gradviz record {program.name} ended with {run.exit_code}:\n{run.stderr}")
    capture = load_capture(capture_file)
    return subject_of(capture, capture.graphs[0], ViewOptions())


def draw_sheet(subjects: Sequence[Subject], theme: ThemeName, file: Path) -> None:
    """All pictures in columns, each picture below the shortest column so far; with few colours, to stay small."""
    pictures = [_picture(subject, theme) for subject in subjects]
    heights = [GAP] * COLUMNS
    positions = []
    for picture in pictures:
        column = heights.index(min(heights))
        positions.append((GAP + column * (WIDTH + GAP), heights[column]))
        heights[column] += picture.height + GAP
    sheet = Image.new("RGB", (GAP + COLUMNS * (WIDTH + GAP), max(heights)), BACKGROUND[theme])
    for picture, position in zip(pictures, positions, strict=True):
        sheet.paste(picture, position)
    # Octrees keep the hues of small areas.
    sheet.convert("RGB").quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(file, optimize=True)


def _picture(subject: Subject, theme: ThemeName) -> Image.Image:
    with Image.open(BytesIO(PngRenderer(theme=theme, scale=1.0).render(subject))) as picture:
        height = round(picture.height * WIDTH / picture.width)
        reduced: Image.Image = picture.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
    return reduced


def redraw_sheets(gallery: Path) -> None:
    """Replace the sheets in `gallery`."""
    with TemporaryDirectory() as folder:
        subjects = [recorded(program, Path(folder)) for program in SHEET]
    for theme in BACKGROUND:
        draw_sheet(subjects, theme, gallery / f"contact_sheet_{theme}.png")
