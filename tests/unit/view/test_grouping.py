"""Boxes for functions of the program or for its source lines."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from gradviz.errors import BadInput
from gradviz.graph.invariants import check_graph
from gradviz.graph.model import CallSite, Graph, RefusedRoot
from gradviz.graph.node_findings import CutEdge, Verdict
from gradviz.view.build import Viewed, ViewOptions, view_of
from gradviz.view.folding import FoldOptions
from gradviz.view.invariants import check_view
from gradviz.view.select.grouping import Boxes, regroup
from tests.builders import GraphBuilder, graph_of, transformer
from tests.unit.analysis.memory_graphs import relu_and_square

SCRIPT = "/home/me/train.py"


@dataclass
class Program:
    """Makes operations as a script does: ``program.run("Mul", "train:30 > step:8 > /scale:3")``.

    Each part is a function and the line that it is at, outermost first; ``/`` marks one of an installed package.
    """

    builder: GraphBuilder = field(default_factory=GraphBuilder)
    last: int | None = None

    def run(self, operation: str, stack: str) -> None:
        caller: int | None = None
        for frame in stack.split(" > "):
            function, _, line = frame.lstrip("/").partition(":")
            site = CallSite(SCRIPT, int(line), function, caller, is_library=frame.startswith("/"))
            if site not in self.builder.call_sites:
                self.builder.call_sites.append(site)
            caller = self.builder.call_sites.index(site)
        before = self.builder.leaf("x", kind="input") if self.last is None else self.last
        self.last = self.builder.operation(operation, before, call_site=caller)

    def graph(self) -> Graph:
        assert self.last is not None
        self.builder.root(self.last)
        return self.builder.build()


def boxes(graph: Graph, by: Boxes) -> list[str]:
    """Each operation with the boxes around it: ``encode > scale: Mul``."""
    regrouped = regroup(graph, by).graph
    check_graph(regrouped)
    found = []
    for node in regrouped.nodes:
        around, scope = [], node.scope
        while scope is not None:
            box = regrouped.scopes[scope]
            around.append(f"{box.path}#{box.call}" if box.call else box.path)
            scope = box.parent
        if not node.is_leaf:
            found.append(" > ".join(reversed(around)) + f": {node.name.removesuffix('Backward0')}")
    return found


def training_step() -> Graph:
    program = Program()
    program.run("Mul", "<module>:30 > encode:3")
    program.run("Exp", "<module>:30 > encode:4 > scale:9")
    program.run("Sin", "<module>:30 > encode:4 > /apply:1 > scale:9")
    program.run("Add", "<module>:31")
    program.run("Cos", "<module>:32 > encode:3")
    program.run("Tanh", "<module>:32 > encode:3 > main.<locals>.<lambda>:5")
    return program.graph()


def test_a_function_is_a_box_in_the_box_of_its_caller() -> None:
    assert boxes(training_step(), "function") == [
        "encode: Mul", "encode > encode.scale: Exp", "encode > encode.scale: Sin", ": Add",
        "encode#1: Cos", "encode#1: Tanh",
    ]  # fmt: skip


def test_a_box_knows_the_line_that_called_it() -> None:
    regrouped = regroup(training_step(), "function").graph
    lines = [None if box.call_site is None else regrouped.call_sites[box.call_site].line for box in regrouped.scopes]
    assert [box.class_name for box in regrouped.scopes] == ["encode()", "scale()", "encode()"]
    assert lines == [30, 4, 32]


def test_lines_are_boxes_unless_they_made_one_operation_or_all_that_the_line_around_them_did() -> None:
    assert boxes(training_step(), "line") == [
        "train.py:30: Mul", "train.py:30 > train.py:4: Exp", "train.py:30 > train.py:4: Sin", ": Add",
        "train.py:32: Cos", "train.py:32: Tanh",
    ]  # fmt: skip


def test_a_frame_around_everything_has_no_box_and_a_note_says_so() -> None:
    program = Program()
    program.run("Mul", "<module>:50 > main:10 > step:3")
    program.run("Exp", "<module>:50 > main:11")
    graph = program.graph()
    assert boxes(graph, "function") == ["step: Mul", ": Exp"]
    assert (
        "everything was computed in main(), called at train.py:50, so it has no box of its own"
        in regroup(graph, "function").notes
    )


def test_calls_in_a_loop_are_one_box_in_which_the_steps_fold_with_their_count() -> None:
    program = Program()
    for _ in range(40):
        program.run("Mm", "<module>:20 > step:4")
        program.run("Tanh", "<module>:20 > step:5")
    program.run("Sum", "<module>:21")
    viewed = view_of(program.graph(), ViewOptions(group_by="function"))
    check_view(viewed.view, viewed.graph)
    step, run = (item for item in viewed.view.items if item.kind == "box")
    assert (step.scope, step.repeat) == (0, 1)
    assert (run.scope, run.repeat) == (None, 40)
    assert any("a recording does not distinguish them" in note for note in viewed.view.notes)


def test_a_loop_that_does_more_than_one_call_folds_the_boxes_of_its_functions() -> None:
    program = Program()
    for _ in range(40):
        program.run("Mm", "<module>:20 > attend:4")
        program.run("Softmax", "<module>:20 > attend:5")
        program.run("Add", "<module>:21")
    viewed = view_of(program.graph(), ViewOptions(group_by="function", fold=FoldOptions(depth=1)))
    assert [item.repeat for item in viewed.view.items if item.kind == "box"] == [40, 1]
    assert viewed.graph.scopes[0].path == "attend"


def test_boxes_of_functions_open_and_stay_folded_by_name() -> None:
    def shown(**options: object) -> list[tuple[str, bool]]:
        viewed = view_of(training_step(), ViewOptions(group_by="function", fold=FoldOptions(**options)))  # type: ignore[arg-type]
        return [(viewed.graph.scopes[i.scope].path, i.is_open) for i in viewed.view.items if i.scope is not None]

    assert shown(depth=0) == [("encode", False), ("encode", False)]
    assert shown(depth=0, unfold=("scale",)) == [("encode", True), ("encode.scale", True), ("encode", False)]
    assert shown(fold=("encode.scale",)) == [("encode", True), ("encode.scale", False), ("encode", True)]


def irregular(function: str) -> Graph:
    """Two hundred operations without modules or repeats, in functions of twenty."""
    program = Program()
    numbers = random.Random(0)
    for number in range(200):
        operation = numbers.choice(["Sin", "Exp", "Cos", "Mul", "Add", "Tanh", "Neg"])
        program.run(operation, f"<module>:{number // 20} > {function}:{100 + number}")
    return program.graph()


def test_without_modules_functions_are_boxes_where_the_picture_would_be_unreadable_otherwise() -> None:
    viewed = view_of(irregular("part"))
    assert {scope.kind for scope in viewed.graph.scopes} == {"function"}
    assert viewed.view.notes[0].startswith("no module ran, so boxes are functions of the program")
    assert not view_of(irregular("part"), ViewOptions(group_by="module")).graph.scopes
    assert not view_of(graph_of("w -> Mul -> Exp -> loss")).graph.scopes, "small graphs stay as they are"


def test_where_the_program_has_no_functions_nothing_changes_and_a_request_for_them_is_answered() -> None:
    flat = irregular("<module>")
    assert view_of(flat).view == view_of(flat, ViewOptions(group_by="module")).view
    assert "no function of the program makes a box here" in view_of(flat, ViewOptions(group_by="function")).view.notes


def test_an_unknown_grouping_is_refused_before_there_is_a_graph() -> None:
    with pytest.raises(BadInput, match="cannot group by 'functions'; did you mean 'function'"):
        ViewOptions(group_by="functions")


def test_modules_are_back_when_asked_for() -> None:
    def kinds(viewed: Viewed) -> set[str]:
        return {scope.kind for scope in viewed.graph.scopes}

    assert kinds(view_of(transformer(2), ViewOptions(group_by="module"))) == {"module"}
    assert kinds(view_of(transformer(2), ViewOptions(group_by="line"))) == set()


def test_other_boxes_leave_the_saved_tensors_as_they_are() -> None:
    graph = relu_and_square()
    regrouped = regroup(graph, "line").graph
    check_graph(regrouped)
    assert [node.saved for node in regrouped.nodes] == [node.saved for node in graph.nodes]
    assert regrouped.storages == graph.storages


def test_a_cut_stands_in_the_box_of_what_took_its_result() -> None:
    program = Program()
    program.run("Exp", "train:30 > step:8")
    program.run("Mul", "train:31 > scale:3")
    program.run("Sin", "train:31 > scale:4")
    graph = program.graph()
    verdict = Verdict("GV101", "detached", "error", "no gradient for w0")
    taker = next(node.id for node in graph.nodes if node.name == "MulBackward0")
    ghosts = (CutEdge(verdict, "detach", node=taker), CutEdge(verdict, "detach", refused=0))
    regrouped = regroup(replace(graph, cut_edges=ghosts, refused=(RefusedRoot("loss"),)), "function").graph
    box = regrouped.nodes[taker].scope
    assert box is not None and regrouped.scopes[box].path.endswith("scale")
    assert [edge.scope for edge in regrouped.cut_edges] == [box, None]
