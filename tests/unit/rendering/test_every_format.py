"""Requirements for all formats. The list is the table of formats, so a new format is tested too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradviz.capture.capture import Capture, Program, ScriptError
from gradviz.errors import BadInput
from gradviz.graph.model import CallSite, Constant, Edge, Graph, HeldTensor, ModuleScope, Node, Root, TensorFacts
from gradviz.rendering.formats import FORMATS, Format, Subject
from gradviz.view.build import ViewOptions, view_of
from gradviz.view.folding import FoldOptions
from tests.builders import chain_graph, facts, graph_of, transformer
from tests.captures import small_capture

ROOT = Path(__file__).parents[3]
every_format = pytest.mark.parametrize("chosen", FORMATS, ids=lambda chosen: chosen.name)

HOSTILE_NAMES = [
    '"; evil [label="x"',
    "</script><b>&amp;<!--",
    "line\nbreak\r\ttab",
    "\x00\x07\x1b[31m",
    "😀 вес 权重",
    "\u202eright to left\u2066",
    "\ud800 lone surrogate",
    "very_long_" * 300,
    "]]>",
    "%%{init: {}}%% end `**x**` $$y$$ #quot; fa:fa-car",
    "back\\slash\\N\\G",
    "1. list",
    "- item",
    "www.example.com",
    "../../etc/passwd",
    "{{ jinja }} #let x = 1",
]


def subject_of(graph: Graph, options: ViewOptions | None = None, capture: Capture | None = None) -> Subject:
    viewed = view_of(graph, options)
    return Subject(capture or Capture(Program("train.py"), (graph,)), viewed.graph, viewed.view)


def named_everywhere(name: str) -> Subject:
    """A graph with `name` wherever a user's text can be."""
    weight = Node(0, "torch::autograd::AccumulateGrad", "parameter", outputs=(facts(2),), held=(HeldTensor((name,)),))
    custom = Node(
        1,
        f"{name}Backward",
        "custom",
        edges=(Edge(0), None),
        outputs=(TensorFacts((name, 2), "float32", device=name, type_name=name),),
        forward_call=f"torch.{name}",
        call_site=0,
        scope=0,
        attributes={name: name, "infinite": float("inf")},
        hooks=(name,),
        constants=(0,),
    )
    graph = Graph(
        nodes=(weight, custom),
        roots=(Root(1, name=name),),
        scopes=(ModuleScope(name, name),),
        call_sites=(CallSite(f"/{name}.py", 3, name),),
        constants=(Constant(facts(2), names=(name,)),),
    )
    error = ScriptError(name, name, name, (name, 3))
    sources = {f"/{name}.py": {3: name}}
    capture = Capture(Program(name, (name,)), (graph,), error=error, sources=sources, disclosures=(name,))
    return subject_of(graph, ViewOptions(fold=FoldOptions(show_all=True)), capture)


def rendered(chosen: Format, subject: Subject) -> bytes:
    """The bytes of the file. A format refuses in one line what it cannot represent."""
    content = chosen.renderer().render(subject)
    return content if isinstance(content, bytes) else content.encode()


@every_format
@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_any_name_can_be_written(chosen: Format, name: str) -> None:
    assert len(rendered(chosen, named_everywhere(name))) > 100


@every_format
@pytest.mark.parametrize(
    "graph",
    [
        graph_of("w -> loss"),
        graph_of("x -> Mul -> Log -> loss; w -> Mul; w -> Log", failed="Mul"),
        graph_of("w -> Mul.a -> a; w -> Mul.b -> b; {mask} -> Mul.b"),
        small_capture().graphs[0],
        Graph(nodes=(Node(0, "MulBackward0"),)),
        transformer(3),
    ],
    ids=["a leaf that is the root", "a crash", "several roots", "every field", "no root", "a transformer"],
)
def test_graphs_of_every_kind_can_be_written(chosen: Format, graph: Graph) -> None:
    assert rendered(chosen, subject_of(graph)).count(b"\n") > 0


@every_format
def test_a_view_of_5000_items_is_written_or_refused_in_one_line(chosen: Format) -> None:
    subject = subject_of(chain_graph(5_000), ViewOptions(fold=FoldOptions(show_all=True)))
    try:
        assert len(rendered(chosen, subject)) > 5_000
    except BadInput as refusal:
        assert chosen.name in ("png", "mermaid")
        assert "too large" in refusal.message and refusal.hint and "\n" not in str(refusal)


@every_format
def test_notes_on_what_is_left_out_reach_the_user(chosen: Format) -> None:
    viewed = view_of(graph_of("w -> Mul -> Log -> loss"))
    note = "Only what lies between w and loss is shown"
    view = type(viewed.view)(viewed.view.items, viewed.view.links, (note,))
    subject = Subject(Capture(Program("train.py")), viewed.graph, view, selection_notes=(note,))
    without = Subject(Capture(Program("train.py")), viewed.graph, type(view)(view.items, view.links))
    content = rendered(chosen, subject)
    if chosen.name in ("png", "pdf"):
        assert content != rendered(chosen, without)
    else:
        assert note in content.decode()


_DIGESTS = """
import hashlib
from tests.builders import transformer
from tests.unit.rendering.test_every_format import named_everywhere
from tests.unit.rendering.test_every_format import rendered
from tests.unit.rendering.test_every_format import subject_of
from gradviz.rendering.formats import FORMATS
for chosen in FORMATS:
    for subject in (subject_of(transformer(4)), named_everywhere("näme")):
        print(chosen.name, hashlib.sha256(rendered(chosen, subject)).hexdigest())
"""


def test_every_process_writes_the_same_bytes() -> None:
    seeds = {
        seed: subprocess.Popen(
            [sys.executable, "-c", _DIGESTS],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
        )
        for seed in ("1", "2")
    }
    outputs = [process.communicate(timeout=600)[0].decode().splitlines() for process in seeds.values()]
    assert len(outputs[0]) == 2 * len(FORMATS)
    assert outputs[0] == outputs[1]


def test_the_table_names_every_format_once() -> None:
    names = [chosen.name for chosen in FORMATS]
    suffixes = [suffix for chosen in FORMATS for suffix in chosen.suffixes]
    assert len(set(names)) == len(names) and len(set(suffixes)) == len(suffixes)
