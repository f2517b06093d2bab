"""What a regular expression finds in a graph."""

from __future__ import annotations

import pytest

from gradviz.errors import BadInput, NothingFound
from gradviz.graph.model import Graph
from gradviz.graph.query.find_by_expression import nodes_to_show, search
from gradviz.public_graph import public_graph
from gradviz.view.select.selection import SelectOptions, select
from tests.builders import GraphBuilder, graph_of, transformer


def found_names(graph: Graph, expression: str) -> list[str]:
    found = search(graph, expression)
    nodes = (graph.nodes[node] for node in sorted(found.nodes))
    return [
        *(node.names[0] if node.is_leaf else node.name for node in nodes),
        *(graph.constants[index].names[0] for index in sorted(found.constants)),
        *(graph.scopes[index].path for index in sorted(found.scopes)),
        *(graph.roots[index].name or "output" for index in sorted(found.roots)),
    ]


SMALL = graph_of("x -> net.fc/Addmm -> net.act/Relu -> Sum -> loss; net.fc.weight -> net.fc/Addmm; {mask} -> Sum")


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("sum", ["SumBackward0"]),
        ("addmm|relu", ["AddmmBackward0", "ReluBackward0"]),
        ("weight", ["net.fc.weight"]),
        ("fc.weight$", ["net.fc.weight"]),
        ("^mask$", ["mask"]),
        ("loss", ["loss"]),
        ("fc", ["net.fc"]),
        ("Fc", ["net.fc"]),
        ("^net$", ["net"]),
        ("SumBackward0", ["SumBackward0"]),
    ],
)
def test_operations_names_modules_and_roots_are_found(expression: str, names: list[str]) -> None:
    assert found_names(SMALL, expression) == names


def test_small_letters_find_capitals_and_capitals_only_themselves() -> None:
    graph = graph_of("W -> Exp -> Sum -> the_LOSS; {Wide} -> Exp")
    assert found_names(graph, "loss") == found_names(graph, "LOSS") == ["the_LOSS"]
    with pytest.raises(NothingFound):
        search(graph, "Loss")
    assert found_names(graph, r"\bwide\S*") == ["Wide"], r"the capital of \S asks for no letter"


def test_the_ending_of_torchs_names_is_not_found_by_small_letters() -> None:
    with pytest.raises(NothingFound):
        search(graph_of("x -> Exp -> Sum -> loss"), "backward")


def test_a_line_of_the_program_finds_what_was_made_there() -> None:
    builder = GraphBuilder()
    made = builder.operation("Exp", builder.leaf("w"), line=7)
    builder.root(builder.operation("Sum", made, line=8))
    assert found_names(builder.build(), "train.py:7") == ["ExpBackward0"]


def test_nodes_left_out_by_a_selection_are_not_found_in_its_tables() -> None:
    part = select(transformer(3), SelectOptions(start="model.h.0.ln_1.weight")).graph
    with pytest.raises(NothingFound):
        search(part, "mlp")


def test_data_and_modules_are_shown_with_the_operations_that_belong_to_them() -> None:
    assert nodes_to_show(SMALL, search(SMALL, "mask")) == {node.id for node in public_graph(SMALL).find("Sum")}
    assert nodes_to_show(SMALL, search(SMALL, "^net.fc$")) == {node.id for node in public_graph(SMALL).find("Addmm")}


def test_a_bad_regular_expression_is_refused_with_the_reason() -> None:
    with pytest.raises(BadInput, match="is not a regular expression: nothing to repeat at position 0"):
        search(SMALL, "*")


def test_nothing_found_says_what_there_is() -> None:
    with pytest.raises(NothingFound, match="did you mean 'weight'"):
        search(SMALL, "wieght")


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("layers[0]", r"for this exact text write layers\[0\]"),
        ("ADDMM", "capitals make the search case-sensitive: in small letters it matches 'addmm'"),
        ("zzzz", "choose from loss, x, layers[0], weight, "),
    ],
)
def test_nothing_found_says_how_to_find_it(expression: str, hint: str) -> None:
    graph = graph_of("x -> net.fc/Addmm -> loss; layers[0] -> net.fc/Addmm; net.fc.weight -> net.fc/Addmm")
    with pytest.raises(NothingFound) as refusal:
        search(graph, expression)
    assert hint in str(refusal.value)


def test_an_expression_that_a_later_python_may_read_differently_gives_no_warning() -> None:
    assert found_names(SMALL, "^[[m]ask$") == ["mask"]
