"""Every picture of the gallery, drawn once for all tests of the picture or its graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from gradviz.graph.model import Graph
from gradviz.rendering.export.json import GraphDocument
from tests.golden.gallery import Picture, draw
from tests.shared_runs import SharedFolders

_WITH_PAGE = Picture("gpt2")


@dataclass(frozen=True)
class DrawnPicture:
    """The result of drawing a picture."""

    svg: bytes
    document: GraphDocument
    stdout: str
    """The output of the sample, followed by that of gradviz."""

    @property
    def graph(self) -> Graph:
        return self.document.graph


def drawn_picture(picture: Picture, shared: SharedFolders) -> DrawnPicture:
    """The picture as it is drawn now; it is drawn only for the first test that needs it."""
    folder = _folder(picture, shared)
    return DrawnPicture(
        svg=(folder / "picture.svg").read_bytes(),
        # JSON has no NaN, so it is a text there.
        document=msgspec.json.decode((folder / "graph.json").read_bytes(), type=GraphDocument, strict=False),
        stdout=(folder / "stdout.txt").read_text(encoding="utf-8"),
    )


def drawn_page(shared: SharedFolders) -> str:
    """The page of the largest model among the pictures, from the same run."""
    return (_folder(_WITH_PAGE, shared) / "page.html").read_text(encoding="utf-8")


def _folder(picture: Picture, shared: SharedFolders) -> Path:
    return shared.folder(f"picture_of_{picture.name}", lambda folder: _draw_to_the_end(picture, folder))


def _draw_to_the_end(picture: Picture, folder: Path) -> None:
    """Let the sample continue after its backward, to its assertions about its gradients."""
    page = ("-o", folder / "page.html") if picture == _WITH_PAGE else ()
    run = draw(picture, folder / "picture.svg", "-o", folder / "graph.json", *page, "--keep-going")
    (folder / "stdout.txt").write_text(run.stdout, encoding="utf-8")
