"""Parts of a graph that the user selects."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from gradviz.errors import BadInput
from gradviz.graph.gradients import BranchShare, TensorFigures
from gradviz.graph.invariants import check_graph
from gradviz.graph.model import Graph
from gradviz.public_graph import public_graph
from gradviz.view.build import ViewOptions, view_of
from gradviz.view.folding import FoldOptions
from gradviz.view.invariants import check_view
from gradviz.view.select.selection import Selection, SelectOptions, select
from tests.builders import GraphBuilder, graph_of, transformer, unrolled_rnn
from tests.unit.analysis.memory_graphs import relu_and_square


def selected(graph: Graph, **options: object) -> Selection:
    selection = select(graph, SelectOptions(**options))  # type: ignore[arg-type]
    check_graph(selection.graph)
    return selection


def shown(graph: Graph) -> str:
    """``w -> Mul; Mul -> Sum; {x} -> Mul; Sum -> loss``, each link once."""
    words = [node.names[0] if node.is_leaf else node.name.removesuffix("Backward0") for node in graph.nodes]
    links = [f"{words[edge.target]} -> {words[node.id]}" for node in graph.nodes for edge in node.edges if edge]
    data = [f"{{{graph.constants[c].names[0]}}} -> {words[node.id]}" for node in graph.nodes for c in node.constants]
    return "; ".join([*links, *data, *(f"{words[root.node]} -> {root.name}" for root in graph.roots)])


NET = "x -> Mm.1 -> Relu -> Mm.2 -> Sub -> Pow -> loss; w1 -> Mm.1; w2 -> Mm.2; {target} -> Sub"


def test_a_path_is_what_lies_between_two_names_in_whichever_order() -> None:
    graph = graph_of("x -> Sin -> Add -> Exp -> loss; Sin -> Cos -> Add; w -> Cos; Exp -> Tanh -> other")
    between = selected(graph, path=("Sin", "Exp"))
    assert shown(between.graph) == "Sin -> Cos; Sin -> Add; Cos -> Add; Add -> Exp; Exp -> loss"
    assert selected(graph, path=("Exp", "Sin")).graph == between.graph
    assert between.notes == (
        "4 of 7 autograd nodes: those on a path between 'Sin' and 'Exp' (--path)",
        "weights and data that join the path are left out",
    )


def test_a_path_from_data_shows_that_data_and_no_other() -> None:
    graph = graph_of("w -> Mul -> Add -> loss; {x} -> Mul; {target} -> Add")
    assert shown(selected(graph, path=("x", "loss")).graph) == "Mul -> Add; {x} -> Mul; Add -> loss"


def test_two_names_that_no_data_joins_are_refused() -> None:
    with pytest.raises(BadInput, match="no path leads from 'w1' to 'w2' or back; neither was computed"):
        selected(graph_of(NET), path=("w1", "w2"))


def test_the_neighbourhood_of_a_name_goes_both_ways() -> None:
    assert shown(selected(graph_of(NET), around="Relu", radius=1).graph) == "Mm -> Relu; Relu -> Mm"
    assert (
        shown(selected(graph_of(NET), around="Sub", radius=1).graph)
        == "Mm -> Sub; Sub -> Pow; {target} -> Sub; Pow -> loss"
    )
    assert len(selected(graph_of(NET), around="Sub").graph.nodes) == 5
    assert len(selected(graph_of(NET), around="Sub", radius=10**30).graph.nodes) == 8


def test_a_weight_that_every_step_takes_makes_the_steps_no_neighbours() -> None:
    graph = unrolled_rnn(50)
    (last_tanh,) = (node.id for node in graph.nodes[-2:-1])
    assert len(selected(graph, around=f"node:{last_tanh}", radius=6).graph.nodes) < 15


def test_only_trainable_leaves_parameters_and_what_is_computed_from_them() -> None:
    graph = graph_of("x -> Sin -> Mul -> loss; w -> Mul; {mask} -> Mul")
    assert shown(selected(graph, only_trainable=True).graph) == "w -> Mul; Mul -> loss"
    with pytest.raises(BadInput, match=r"no leaf is a torch.nn.Parameter \(leaves: x\)"):
        selected(graph_of("x -> Sin -> loss"), only_trainable=True)


@pytest.mark.parametrize(
    ("expression", "left"),
    [
        ("relu", "x -> Mm; w1 -> Mm; Mm -> Mm; w2 -> Mm; Mm -> Sub; Sub -> Pow; {target} -> Sub; Pow -> loss"),
        ("^w", "x -> Mm; Mm -> Relu; Relu -> Mm; Mm -> Sub; Sub -> Pow; {target} -> Sub; Pow -> loss"),
        ("Mm", "x -> Relu; w1 -> Relu; Relu -> Sub; w2 -> Sub; Sub -> Pow; {target} -> Sub; Pow -> loss"),
        ("Pow|target", "x -> Mm; w1 -> Mm; Mm -> Relu; Relu -> Mm; w2 -> Mm; Mm -> Sub; Sub -> loss"),
    ],
)
def test_links_pass_through_what_is_hidden(expression: str, left: str) -> None:
    assert shown(selected(graph_of(NET), hide=(expression,)).graph) == left


def test_a_module_is_hidden_by_its_path_with_its_parameters() -> None:
    graph = transformer(2)
    left = selected(graph, hide=(r"\.attn\b",)).graph
    assert not public_graph(left).find("model.h.0.attn")
    assert not [leaf for leaf in left.leaves if ".attn." in leaf.names[0]]
    assert public_graph(left).find("model.h.1.mlp")


def test_what_was_hidden_is_counted_and_an_expression_that_fits_nothing_is_told() -> None:
    notes = selected(graph_of(NET), hide=("Mm", "dropout")).notes
    assert notes == (
        "left out: 2 operations matching 'Mm' or 'dropout' (--hide); links pass through them",
        "nothing matches 'dropout' (--hide)",
    )


def test_hiding_never_hides_the_crash_the_last_way_to_a_root_or_a_join_of_very_many() -> None:
    graph = graph_of("w -> Mul -> Exp -> loss", failed="Mul")
    assert shown(selected(graph, hide=(".",)).graph) == "Mul -> loss"
    assert "1 matching node is shown all the same: backward failed in it" in selected(graph, hide=(".",)).notes
    assert shown(selected(graph_of("w -> Mul -> loss"), hide=(".",)).graph) == "Mul -> loss"
    builder = GraphBuilder()
    joined = builder.operation("Cat", *(builder.leaf(f"x{number}") for number in range(17)))
    builder.root(builder.operation("Sum", joined))
    wide = selected(builder.build(), hide=("cat",))
    assert public_graph(wide.graph).find("cat")
    assert "1 matching node is shown all the same: it joins more than 16 others" in wide.notes


def test_hiding_ten_thousand_joins_in_a_row_does_not_multiply_their_edges() -> None:
    builder = GraphBuilder()
    last = builder.leaf("w")
    for number in range(10_000):
        last = builder.operation("Add", last, builder.operation("Exp", builder.leaf(f"v{number}")))
    builder.root(builder.operation("Sum", last))
    graph = selected(builder.build(), hide=("add",)).graph
    assert sum(len(node.edges) for node in graph.nodes) < 60_000


def test_a_crash_outside_the_part_is_told() -> None:
    graph = graph_of("w -> Mul -> Exp -> Tanh -> loss", failed="Tanh")
    selection = selected(graph, path=("w", "Exp"))
    assert "the node in which backward failed (TanhBackward0) is not among them" in selection.notes
    assert selection.graph.backward is not None
    assert selection.graph.backward.failed_node is None


def test_several_ways_of_selecting_leave_what_all_of_them_leave() -> None:
    graph = graph_of(NET)
    assert shown(selected(graph, path=("x", "loss"), around="Relu", radius=1, hide=("relu",)).graph) == "Mm -> Mm"
    with pytest.raises(BadInput, match=r"nothing is left to show: no autograd node is .* \(--path\), and those up to"):
        selected(graph, path=("Sub", "loss"), around="w1", radius=0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hide": ("",)}, "an empty expression matches everything"),
        ({"hide": ("(",)}, r"'\(' is not a regular expression: missing \), unterminated subpattern at position 0"),
        ({"radius": 3}, "a radius of 3 needs a middle"),
    ],
)
def test_bad_options_are_refused_before_there_is_a_graph(options: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        SelectOptions(**options)  # type: ignore[arg-type]


def test_data_is_not_moved_to_where_an_input_was_cut_off() -> None:
    builder = GraphBuilder()
    target = builder.constant("target")
    inner = builder.operation("Sub", builder.leaf("w"), builder.leaf("x", kind="input"), forward_call="torch.f")
    builder.root(builder.operation("Mean", inner, forward_call="torch.f", constants=[target]))
    viewed = view_of(builder.build(), ViewOptions(SelectOptions(hide=("x",))))
    (mean,) = public_graph(viewed.graph).find("Mean")
    assert mean.constants == (target,)


@pytest.mark.parametrize("seed", range(8))
def test_every_part_of_any_graph_can_be_drawn(seed: int) -> None:
    graph = transformer(4)
    numbers = random.Random(seed)
    name = f"node:{numbers.randrange(len(graph.nodes))}"
    expression = numbers.choice(["Add", "ln_", "weight", "T|View", "attn", "Bmm|Softmax"])
    for options in (
        SelectOptions(path=(name, "loss")),
        SelectOptions(around=name, radius=numbers.randrange(5)),
        SelectOptions(hide=(expression,)),
        SelectOptions(around=name, radius=3, hide=(expression,)),
    ):
        for depth in (None, 0, 2):
            viewed = view_of(graph, ViewOptions(options, fold=FoldOptions(depth=depth)))
            check_graph(viewed.graph)
            check_view(viewed.view, viewed.graph)
            assert viewed.view.notes[0], "what is left out is said first"


def test_views_do_not_count_in_a_neighbourhood_because_pictures_do_not_show_them() -> None:
    graph = graph_of("x -> Sin -> View -> Expand -> Cos -> Exp -> loss")
    assert shown(selected(graph, around="Sin", radius=1).graph) == (
        "x -> Sin; Sin -> View; View -> Expand; Expand -> Cos"
    )


def test_a_part_keeps_its_saved_tensors_but_no_source_outside() -> None:
    graph = relu_and_square()
    both, one = selected(graph, path=("Relu", "Pow")).graph, selected(graph, around="Pow", radius=0).graph
    # The result of relu, which is node 2 of the whole graph.
    assert [saved.source for node in both.nodes for saved in node.saved] == [0, 0]
    assert [saved.source for node in one.nodes for saved in node.saved] == [None]
    assert one.storages == graph.storages


def test_a_saved_tensor_loses_the_source_that_is_hidden() -> None:
    left = selected(relu_and_square(), hide=("^relu$",)).graph
    assert [saved.source for node in left.nodes for saved in node.saved if node.name == "PowBackward0"] == [None]


def sent(graph: Graph) -> dict[str, tuple[float | None, ...]]:
    """The norm that each operation sent along each of its edges."""
    return {
        node.name.removesuffix("Backward0"): tuple(each.norm if each else None for each in node.gradients)
        for node in graph.nodes
        if node.gradients
    }


def with_gradients(graph: Graph) -> Graph:
    """The edges of each node carry gradients of norm 10 times its number, counted on."""
    return replace(
        graph,
        nodes=tuple(
            replace(
                node,
                gradients=tuple(TensorFigures(norm=10.0 * node.id + place) for place in range(len(node.edges))),
                shares=tuple(BranchShare(float(place)) for place in range(len(node.edges))),
            )
            for node in graph.nodes
        ),
    )


def test_a_part_keeps_the_gradients_of_its_edges() -> None:
    graph = with_gradients(graph_of("x -> Sin -> Add -> loss; w -> Mul -> Add"))
    whole = {node.name.removesuffix("Backward0"): node.id for node in graph.nodes}
    left = selected(graph, around="Sin", radius=1).graph
    assert sent(left) == {"Sin": (10.0 * whole["Sin"],), "Add": (10.0 * whole["Add"], None)}
    assert [node.shares for node in left.nodes if node.name == "AddBackward0"] == [(BranchShare(0.0), None)]


def test_a_link_through_hidden_operations_has_no_gradient() -> None:
    graph = with_gradients(graph_of("w -> Sin -> Add -> loss; v -> Add; Sin -> Mul -> Add; u -> Mul"))
    own = {node.name.removesuffix("Backward0"): 10.0 * node.id for node in graph.nodes}
    left = selected(graph, hide=("^mul$",)).graph
    # The direct link from sin replaces the one through mul, too.
    assert shown(left) == "w -> Sin; Sin -> Add; v -> Add; u -> Add; Add -> loss"
    assert sent(left) == {"Sin": (own["Sin"],), "Add": (None, own["Add"] + 1, None)}
