"""Real models from script to picture: the whole graph is recorded, and the picture can be read."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from gradviz.graph.invariants import check_graph
from gradviz.graph.model import Graph
from gradviz.rendering.export.json import GraphDocument
from tests.end_to_end.command import SAMPLES, SCRIPTS, gradviz, installed_gradviz, python
from tests.shared_runs import SharedFolders

SUFFIXES = ("dot", "json", "png", "svg", "txt")
MAX_ITEMS = 120
MAX_LINES_OF_A_TREE = 200


@dataclass(frozen=True)
class Program:
    """A script to draw, and what is known about its graph beforehand."""

    name: str
    script: Path
    nodes: int | None
    """None where the libraries decide it, from release to release: then a naive walk counts them."""
    parameters: int = 0
    repeated: tuple[int, ...] = ()
    """How often the parts repeat that are drawn once."""
    root: str | None = "loss"
    """The variable from which a naive walk gives the same graph; None where there is no such variable."""
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    exit_code: int = 0
    is_drawn_twice: bool = True
    """Directly and from a saved capture of another run; else from the capture only."""

    @property
    def words(self) -> list[str | Path]:
        return [*self.options, self.script, *(["--", *self.arguments] if self.arguments else [])]


PROGRAMS = (
    Program("gpt2", SAMPLES / "gpt2.py", None, parameters=148, repeated=(12,), root="out.loss"),
    Program("resnet50", SAMPLES / "resnet50.py", 339, parameters=161, repeated=(2, 3, 5)),
    Program("rnn", SAMPLES / "unrolled_rnn.py", 10_005, repeated=(2_000,), arguments=("2000",)),
    Program(
        "chain",
        SCRIPTS / "long_chain.py",
        50_002,  # more than the stack holds; make bench measures 200,000
        repeated=(50_000,),
        arguments=("50000",),
        options=("--keep-going",),
        is_drawn_twice=False,
    ),
    Program("crash", SAMPLES / "crash_in_backward.py", 11, parameters=4, root=None, exit_code=1),
    Program("no_backward", SAMPLES / "no_backward.py", 14, parameters=6, root=None),
)
WALKED = tuple(program for program in PROGRAMS if program.root is not None)
DRAWN_TWICE = tuple(program for program in PROGRAMS if program.is_drawn_twice)


@dataclass(frozen=True)
class Drawn:
    """The outputs for a program: from a saved capture, and directly in another run."""

    from_capture: Path
    directly: Path
    naive: dict[str, object]

    @property
    def summary(self) -> str:
        return (self.from_capture / "summary.txt").read_text(encoding="utf-8")

    def text(self, suffix: str) -> str:
        return (self.from_capture / f"out.{suffix}").read_text(encoding="utf-8")

    @property
    def document(self) -> GraphDocument:
        return read_document(self.from_capture / "out.json")

    @property
    def graph(self) -> Graph:
        return self.document.graph


@cache
def read_document(path: Path) -> GraphDocument:
    """The document in a file; cached, as that of a long chain has 19 MB."""
    return msgspec.json.decode(path.read_bytes(), type=GraphDocument)


def draw(program: Program, folder: Path) -> None:
    """Fill `folder` with everything that `Drawn` reads. Two at a time: the tests of other workers wait for this."""
    ways = [draw_from_capture, walk_naively, *([draw_directly] if program.is_drawn_twice else [])]
    with ThreadPoolExecutor(2) as pool:
        started = [pool.submit(way, program, folder) for way in ways]
        for each in started:
            each.result()


def draw_directly(program: Program, folder: Path) -> None:
    run = gradviz("render", *outputs("directly"), *program.words, cwd=folder)
    assert run.exit_code == program.exit_code, run.stderr


def draw_from_capture(program: Program, folder: Path) -> None:
    # In which other hash values hold than in the process that is prepared for the rest.
    run = installed_gradviz("record", "-o", "run.gradviz", *program.words, cwd=folder)
    assert run.exit_code == program.exit_code, run.stderr
    (folder / "from_capture").mkdir()
    run = gradviz("render", *outputs("from_capture"), "run.gradviz", cwd=folder)
    assert (run.exit_code, run.stderr) == (0, "")
    (folder / "from_capture" / "summary.txt").write_text(run.stdout, encoding="utf-8")
    (folder / "run.gradviz").unlink()


def walk_naively(program: Program, folder: Path) -> None:
    found = "{}"
    if program.root is not None:
        run = python(SCRIPTS / "naive_walk.py", program.root, program.script, *program.arguments, cwd=folder)
        assert run.exit_code == 0, run.stderr
        found = run.stdout.splitlines()[-1]
    (folder / "naive.json").write_text(found)


def outputs(place: str) -> list[str]:
    return [word for suffix in SUFFIXES for word in ("-o", f"{place}/out.{suffix}")]


@pytest.fixture
def drawn(program: Program, shared: SharedFolders) -> Drawn:
    """The program that the test's parameter names, drawn in every format."""
    folder = shared.folder(program.name, lambda folder: draw(program, folder))
    return Drawn(folder / "from_capture", folder / "directly", json.loads((folder / "naive.json").read_text()))


def of(*programs: Program) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("program", programs, ids=lambda program: program.name)


@of(*PROGRAMS)
def test_the_whole_graph_is_recorded(program: Program, drawn: Drawn) -> None:
    graph = drawn.graph
    check_graph(graph)
    expected = drawn.naive["nodes"] if program.nodes is None else program.nodes
    assert len(graph.nodes) == expected
    assert f"{expected:,} nodes" in drawn.summary


@of(*WALKED)
def test_the_graph_is_the_one_that_a_naive_walk_of_the_same_script_finds(program: Program, drawn: Drawn) -> None:
    nodes = drawn.graph.nodes
    assert {
        "nodes": len(nodes),
        "edges": sum(edge is not None for node in nodes for edge in node.edges),
        "names": Counter(node.name for node in nodes),
        "leaves": sorted(list(node.outputs[0].shape) for node in nodes if node.is_leaf and node.outputs[0] is not None),
    } == drawn.naive


@of(*PROGRAMS)
def test_every_parameter_is_reached_by_its_name(program: Program, drawn: Drawn) -> None:
    reached = {name for node in drawn.graph.nodes if node.kind == "parameter" for name in node.names}
    known = [parameter.names for parameter in drawn.document.parameters]
    assert len(known) == program.parameters
    assert [names for names in known if not reached.intersection(names)] == []
    if program.parameters:
        assert f"{program.parameters} of {program.parameters} parameters reached" in drawn.summary


@of(*PROGRAMS)
def test_nodes_know_their_line(program: Program, drawn: Drawn) -> None:
    graph = drawn.graph
    lines = [graph.call_sites[node.call_site] for node in graph.nodes if node.call_site is not None]
    assert len(lines) == sum(not node.is_leaf for node in graph.nodes)
    # From every line of a library a way leads up to the reader's own script.
    for site in {id(site): site for site in lines}.values():
        while site.caller is not None:
            site = graph.call_sites[site.caller]
        assert site.file == str(program.script)


@of(*PROGRAMS)
def test_repeated_parts_are_drawn_once(program: Program, drawn: Drawn) -> None:
    for count in program.repeated:
        assert f"×{count:,}" in drawn.text("txt")
        assert f">×{count:,}" in drawn.text("svg")
        assert f"×{count:,}" in drawn.text("dot")


@of(*PROGRAMS)
def test_the_picture_is_small_enough_to_be_read(program: Program, drawn: Drawn) -> None:
    items = set(re.findall(r'data-item="(\d+)"', drawn.text("svg")))
    assert 3 <= len(items) <= MAX_ITEMS
    assert 3 <= len(drawn.text("txt").splitlines()) <= MAX_LINES_OF_A_TREE


@of(*PROGRAMS)
def test_the_picture_is_valid_xml_of_its_own(program: Program, drawn: Drawn) -> None:
    root = ElementTree.fromstring(drawn.text("svg"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    # It shows the same wherever it is opened: nothing is fetched and nothing is run.
    assert not re.search(r'(?:href|src)="?https?:|@import|<script|url\((?!data:|#)', drawn.text("svg"))


@of(*PROGRAMS)
def test_the_picture_lies_within_its_frame(program: Program, drawn: Drawn) -> None:
    root = ElementTree.fromstring(drawn.text("svg"))
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 <= float(text.attrib["x"]) <= width
        assert 0 <= float(text.attrib["y"]) <= height


@of(*PROGRAMS)
def test_the_pixels_are_the_picture_twice_as_large(program: Program, drawn: Drawn) -> None:
    svg, png = drawn.text("svg"), (drawn.from_capture / "out.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    root = ElementTree.fromstring(svg)
    wanted = tuple(2 * float(root.attrib[name]) for name in ("width", "height"))
    assert struct.unpack(">II", png[16:24]) == pytest.approx(wanted, abs=2)


@of(*PROGRAMS)
@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_accepts_the_dot_file(program: Program, drawn: Drawn) -> None:
    command = ["dot", "-Tcanon", str(drawn.from_capture / "out.dot")]
    run = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert (run.returncode, run.stderr) == (0, "")


@of(*DRAWN_TWICE)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_saved_capture_of_another_run_gives_the_same_bytes(suffix: str, program: Program, drawn: Drawn) -> None:
    names = [place / f"out.{suffix}" for place in (drawn.directly, drawn.from_capture)]
    # Compared by hand: pytest would take minutes to explain how two large files differ.
    assert names[0].read_bytes() == names[1].read_bytes() or pytest.fail(f"{names[0]} and {names[1]} differ")


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_sample_opens_with_one_sentence(sample: Path) -> None:
    first = sample.read_text().splitlines()[0]
    assert re.fullmatch(r'"""[A-Z].*\."""', first), first
