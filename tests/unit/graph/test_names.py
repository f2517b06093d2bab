"""What a name on the command line or in Python means."""

from __future__ import annotations

import pytest

from gradviz.errors import BadInput
from gradviz.graph.model import Graph
from gradviz.graph.query.find_by_name import find_named, resolve
from tests.builders import GraphBuilder, graph_of, transformer


def named(graph: Graph, name: str) -> list[str]:
    """The names of the nodes that `name` means; for leaves their variables."""
    found = find_named(graph, name)
    nodes = () if found is None else (graph.nodes[node] for node in found.nodes)
    return [node.names[0] if node.is_leaf else node.name.removesuffix("Backward0") for node in nodes]


def script() -> Graph:
    """``step()`` is called in line 20 of train.py and calls a library; the loss is made in line 21."""
    builder = GraphBuilder()
    caller = builder.line(20, file="/home/me/train.py")
    inner = builder.line(5, file="/home/me/train.py", function="Trainer.step")
    library = builder.line(99, file="/lib/torch/nn.py", function="forward")
    sites = builder.call_sites
    sites[inner] = type(sites[inner])("/home/me/train.py", 5, "Trainer.step", caller)
    sites[library] = type(sites[library])("/lib/torch/nn.py", 99, "forward", inner, is_library=True)
    last = builder.operation("Mul", builder.leaf("w"), call_site=inner)
    last = builder.operation("Softmax", last, call_site=library, forward_call="torch.nn.functional.softmax")
    builder.root(builder.operation("Sum", last, call_site=builder.line(21, file="/home/me/train.py")))
    return builder.build()


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("loss", ["Sum"]),
        ("w", ["w"]),
        ("node:1", ["Mul"]),
        ("SoftmaxBackward0", ["Softmax"]),
        ("Softmax", ["Softmax"]),
        ("softmax", ["Softmax"]),
        ("train.py:20", ["Mul", "Softmax"]),
        ("me/train.py:21", ["Sum"]),
        ("step()", ["Mul", "Softmax"]),
        ("Trainer.step", ["Mul", "Softmax"]),
        ("forward", []),
        ("rain.py:20", []),
        ("soft", []),
        ("", []),
    ],
)
def test_a_name_can_be_any_name_that_the_user_sees(name: str, nodes: list[str]) -> None:
    assert named(script(), name) == nodes


def test_a_module_means_everything_computed_in_it_and_the_end_of_a_path_is_enough() -> None:
    graph = transformer(2)
    inside = named(graph, "model.h.0.attn")
    assert inside == ["T", "Addmm", "T", "Addmm", "T", "Addmm", "Transpose", "Bmm", "Softmax", "Bmm", "T", "Addmm"]
    assert named(graph, "h.0.attn") == inside
    assert named(graph, "Attention") == inside * 2
    assert len(named(graph, "h.*.attn")) == 2 * len(inside)


def test_data_without_gradient_means_the_operations_that_take_it() -> None:
    graph = graph_of("w -> Mul -> Add -> loss; {x} -> Mul")
    found = resolve(graph, "x")
    assert (named(graph, "x"), found.constants) == (["Mul"], (0,))


def test_unnamed_roots_have_the_names_that_pictures_give_them() -> None:
    builder = GraphBuilder()
    for operation in ("Exp", "Sin"):
        builder.root(builder.operation(operation, builder.leaf("w")), "")
    assert named(builder.build(), "output 2") == ["Sin"]


def test_a_full_name_has_priority_over_the_end_of_another() -> None:
    builder = GraphBuilder()
    bare, dotted = builder.leaf("weight"), builder.leaf("model.weight")
    builder.root(builder.operation("Add", bare, dotted))
    graph = builder.build()
    assert named(graph, "weight") == ["weight"]


def test_a_name_that_fits_several_means_all_of_them_and_says_so() -> None:
    found = resolve(transformer(2), "fc.weight")
    assert len(found.nodes) == 2
    assert found.note == "'fc.weight' fits model.h.0.mlp.fc.weight, model.h.1.mlp.fc.weight: all of them are used"
    assert resolve(transformer(2), "softmax").note == "'softmax' fits 2 operations: all of them are used"
    assert resolve(transformer(2), "loss").note is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sofmax", "nothing in this graph is named 'sofmax'; did you mean 'softmax'"),
        ("mlp.fc.wieght", "did you mean 'mlp.fc.weight'"),
        ("node:999", r"there is no 'node:999'; nodes are numbered 0 to \d+"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        resolve(transformer(3), name)


def test_for_a_wrong_line_the_lines_that_made_something_are_offered() -> None:
    with pytest.raises(BadInput, match=r"did you mean 'train\.py:21' or 'train\.py:20'"):
        resolve(script(), "train.py:22")
