"""The graphs of the samples show what the samples are for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from gradviz.analysis.numbers.gradient_origins import find_gradient_origins
from gradviz.graph.invariants import check_graph
from gradviz.graph.model import BackwardCall, Graph, Node
from gradviz.graph.query.composite_inputs import with_constants_at_users
from gradviz.graph.traversal import ancestor_nodes
from gradviz.recording.torch_access.capabilities import works
from gradviz.rendering.words.gradient_words import norm_of
from tests.end_to_end.command import SAMPLES
from tests.golden.drawn_pictures import DrawnPicture, drawn_picture
from tests.golden.gallery import PICTURES, Picture
from tests.shared_runs import SharedFolders

Look = Callable[[str], DrawnPicture]

WHOLE_GRAPHS = {
    "log_of_product": "x -> Mul -> Log -> result; y -> Mul",
    "log_of_product_values": "x -> Mul -> Log -> result; y -> Mul",
    "where_does_not_hide_nan_values": """
        x -> Mul -> Sqrt -> Where -> Sum -> loss; scale -> Mul
        {positive} -> Where; {} -> Where
    """,
    "vector_gradient": """
        x -> Select -> Mul -> Log -> Mul -> y
        x -> Select -> Mul
        x -> Select -> Sin -> Mul
    """,
    "leaf_and_non_leaf": "w -> Mul -> Add -> y; {x} -> Mul; b -> Add",
    "grad_or_backward_1": "x1 -> Pow -> Add -> y; x2 -> Mul -> Add",
    "grad_or_backward_2": "x1 -> Pow -> Add -> y; x2 -> Mul -> Add",
    "dead_relu": """
        model.0.weight -> T -> Addmm -> Tanh -> Addmm -> Relu -> Addmm -> LogSoftmax -> NllLoss -> loss
        {inputs} -> Addmm; model.0.bias -> Addmm
        model.2.weight -> T -> Addmm; model.2.bias -> Addmm
        model.4.weight -> T -> Addmm; model.4.bias -> Addmm
        {labels} -> NllLoss
    """,
    "mlp": """
        model.0.weight -> T -> Addmm -> Relu -> Addmm -> LogSoftmax -> NllLoss -> loss
        {inputs} -> Addmm; model.0.bias -> Addmm
        model.2.weight -> T -> Addmm; model.2.bias -> Addmm
        {labels} -> NllLoss
    """,
    "several_inputs_and_outputs": """
        base -> Unbind -> Pow -> Add -> Sqrt -> diagonal
        Unbind -> Pow -> Add
        Unbind -> Mul -> area
        Unbind -> Mul -> Mul -> volume; height -> Mul
    """,
    "two_losses": """
        w -> Add -> Mul -> product; {x} -> Add
        w -> Add -> Mul
        Add -> Add -> total; Add -> Add
    """,
    "second_derivative_1": "x -> Pow -> Mul -> Add -> Add -> y; x -> Mul -> Add",
    "second_derivative_2": "x -> Pow -> Mul -> Mul -> Add -> slope",
    "min_max_1": "x -> Pow -> Add -> Sub -> loss; x -> Mul -> Mul -> Add; y -> Mul; y -> Pow -> Sub",
    "min_max_2": "x -> Pow -> Add -> Sub -> Neg -> flipped; x -> Mul -> Mul -> Add; y -> Mul; y -> Pow -> Sub",
    "concatenation": "image -> Cat -> Mul -> Sum -> loss; text -> Cat; {} -> Mul",
    "broadcasting_add": "matrix -> Add -> Sum -> total; row -> Add",
    "max_min_abs_where": """
        x -> Max -> Add -> Add -> Add -> loss
        y -> Min -> Add
        x -> Abs -> Sum -> Add
        x -> Where -> Sum -> Add; y -> Where; {} -> Where
    """,
    "cosine_similarity": """
        a -> Dot -> Div -> similarity; b -> Dot
        a -> LinalgVectorNorm -> Mul -> Div; b -> LinalgVectorNorm -> Mul
    """,
    "cross_entropy": """
        logits -> Softmax -> Index -> Log -> Mean -> Neg -> from_softmax; {} -> Index; {labels} -> Index
        logits -> LogSoftmax -> NllLoss -> from_log_softmax; {labels} -> NllLoss
        logits -> LogSoftmax -> NllLoss -> in_one_call; {labels} -> NllLoss
    """,
    "complex_affine": "weight -> Mm -> Add -> Abs -> Pow -> Mean -> loss; {signal} -> Mm; bias -> Add",
    "custom_relu": """
        w1 -> Mm -> MyReLU -> Mm -> Sub -> Pow -> Mean -> loss
        {inputs} -> Mm; w2 -> Mm; {targets} -> Sub
    """,
    "zero_or_no_gradient": """
        x -> Sign -> Add -> Add -> Add -> Sum -> loss
        x -> Ceil -> Add
        {positive} -> Add; {winner} -> Add
    """,
    "weight_or_weight_data": """
        x -> Mul -> Sum -> Add -> loss; weight -> Mul
        x -> Mul -> Sum -> Add; {weight.detach()} -> Mul
    """,
    "no_grad_in_the_middle_check": """
        {code} -> Addmm -> MseLoss -> loss; {inputs} -> MseLoss
        decoder.weight -> T -> Addmm; decoder.bias -> Addmm
    """,
    "injected_gradient": """
        {inputs} -> Addmm -> Tanh -> Addmm -> Pow -> Mean -> loss
        encoder.weight -> T -> Addmm; encoder.bias -> Addmm
        decoder.weight -> T -> Addmm; decoder.bias -> Addmm
        Tanh -> code
    """,
    "convolution_by_hand": """
        images -> Im2Col -> Transpose -> Clone -> UnsafeView -> Mm
        kernels -> View -> T -> Mm -> UnsafeView -> Transpose -> Clone -> Col2Im -> by_hand
        images -> Convolution -> by_conv2d; kernels -> Convolution
    """,
    "pointwise_convolution": """
        {images} -> Convolution -> convolved; convolution.weight -> Convolution; convolution.bias -> Convolution
        {images} -> Mm -> UnsafeView -> Add -> Permute -> mapped; linear.weight -> T -> Mm; linear.bias -> Add
    """,
    "distributed_data_parallel": """
        {} -> Addmm -> Relu -> Addmm -> Pow -> Mean -> loss
        parallel_model.module.0.weight -> T -> Addmm; parallel_model.module.0.bias -> Addmm
        parallel_model.module.2.weight -> T -> Addmm; parallel_model.module.2.bias -> Addmm
    """,
    "no_backward": """
        {} -> Addmm -> Tanh -> Addmm -> mean; encoder.0.weight -> T -> Addmm; encoder.0.bias -> Addmm
        mean_head.weight -> T -> Addmm; mean_head.bias -> Addmm
        Tanh -> Addmm -> Softplus -> spread; spread_head.weight -> T -> Addmm; spread_head.bias -> Addmm
    """,
    "crash_in_backward": """
        {inputs} -> Addmm -> Tanh -> Clamp -> Addmm -> MseLoss -> loss; {inputs} -> MseLoss
        encoder.weight -> T -> Addmm; encoder.bias -> Addmm
        decoder.weight -> T -> Addmm; decoder.bias -> Addmm
    """,
}
"""Every edge once, in the direction of the data: leaves, ``{constants}``, operations, and the roots at the ends."""

TOO_LARGE_FOR_A_LINE = {"unrolled_rnn", "resnet50", "gpt2", "vanishing_gradient_gradient"}
"""`test_real_models` compares what a naive walk finds in the largest of these."""


@pytest.fixture
def look(shared: SharedFolders) -> Look:
    """A picture of the gallery by its name, with its graph."""
    by_name = {picture.name: picture for picture in PICTURES}
    return lambda name: drawn_picture(by_name[name], shared)


def test_every_sample_is_looked_at_here() -> None:
    assert {picture.name for picture in PICTURES} == WHOLE_GRAPHS.keys() | TOO_LARGE_FOR_A_LINE


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_sample_runs_to_its_end_with_all_that_it_asserts(picture: Picture, look: Look) -> None:
    document = look(picture.name).document
    assert document.outcome == ("failed" if picture.exit_code else "finished")
    if picture.exit_code and not works("failed nodes"):
        (told,) = document.disclosures
        assert told.endswith("does not report which node failed in backward")
    else:
        assert document.disclosures == ()


@pytest.mark.parametrize("name", WHOLE_GRAPHS)
def test_the_whole_graph_of_a_sample_is_what_it_teaches(name: str, look: Look) -> None:
    graph = look(name).graph
    check_graph(graph)
    assert Counter(edges_of(graph)) == Counter(edges_in(WHOLE_GRAPHS[name]))
    # One leaf for each tensor, however often it is used.
    names = [node.names[0] for node in graph.nodes if node.is_leaf]
    assert len(names) == len(set(names))


def edges_in(text: str) -> Iterator[tuple[str, str]]:
    """The edges of a text like ``x -> Mul -> loss; y -> Mul``."""
    for chain in text.replace("\n", ";").split(";"):
        words = [word.strip() for word in chain.split("->")]
        yield from pairwise(words)


def edges_of(graph: Graph) -> Iterator[tuple[str, str]]:
    """The edges of a graph in the same words, with constants where pictures have them."""
    graph = with_constants_at_users(graph)
    for node in graph.nodes:
        for edge in node.edges:
            if edge is not None:
                yield word_for(graph.nodes[edge.target]), word_for(node)
        for constant in node.constants:
            yield f"{{{next(iter(graph.constants[constant].names), '')}}}", word_for(node)
    for root in graph.roots:
        yield word_for(graph.nodes[root.node]), root.name or "without a name"


def word_for(node: Node) -> str:
    return node.names[0] if node.is_leaf else node.name.partition("Backward")[0]


def test_the_vector_has_the_gradient_that_introductions_print(look: Look) -> None:
    assert look("vector_gradient").stdout.startswith("tensor([1.3633, 0.1912])\n")


def test_what_is_no_leaf_retains_its_gradient_only_when_asked_to(look: Look) -> None:
    graph = look("leaf_and_non_leaf").graph
    held = {name: tensor for node in graph.nodes for tensor in node.held for name in tensor.names}
    assert [name for name, tensor in held.items() if tensor.is_leaf] == ["w", "b"]
    assert [name for name, tensor in held.items() if tensor.retains_grad] == ["scaled"]
    assert [node.names for node in graph.nodes if node.hooks] == [("y",)]


def test_grad_and_backward_are_distinguished(look: Look) -> None:
    calls = [backward_of(look(f"grad_or_backward_{number}")) for number in (1, 2)]
    assert [(call.function, call.retain_graph) for call in calls] == [("grad", True), ("backward", False)]


def test_two_losses_are_the_roots_of_one_backward(look: Look) -> None:
    drawn = look("two_losses")
    assert backward_of(drawn).retain_graph
    assert [root.name for root in drawn.graph.roots] == ["product", "total"]


def test_each_output_of_an_operation_has_edges_of_its_own(look: Look) -> None:
    graph = look("several_inputs_and_outputs").graph
    (unbind,) = (node for node in graph.nodes if word_for(node) == "Unbind")
    assert unbind.names == ("width", "length")
    edges = [edge for node in graph.nodes for edge in node.edges if edge is not None and edge.target == unbind.id]
    assert [edge.input_nr for edge in edges] == [0, 1, 0, 1]


def test_only_the_first_derivative_of_two_is_given_a_graph(look: Look) -> None:
    calls = [backward_of(look(f"second_derivative_{number}")) for number in (1, 2)]
    assert [(call.function, call.create_graph) for call in calls] == [("grad", True), ("grad", False)]


def test_a_row_that_is_broadcast_keeps_its_own_shape(look: Look) -> None:
    shapes = {word_for(node): node.outputs[0].shape for node in look("broadcasting_add").graph.nodes if node.outputs[0]}
    assert (shapes["matrix"], shapes["row"], shapes["Add"]) == ((3, 4), (4,), (3, 4))


def test_complex_numbers_are_shown_until_they_end(look: Look) -> None:
    drawn = look("complex_affine")
    dtypes = [(word_for(node), node.outputs[0].dtype) for node in drawn.graph.nodes if node.outputs[0] is not None]
    assert [word for word, dtype in dtypes if dtype == "complex64"] == ["weight", "Mm", "bias", "Add"]
    assert b"complex64" in drawn.svg


def test_the_relu_that_never_fires_is_where_the_gradient_becomes_zero(look: Look) -> None:
    drawn = look("dead_relu")
    marked = re.findall(rb'data-item="\d+"><title>(\w+)[^<]*</title>(?:(?!</g>).)*<g class="warning">', drawn.svg)
    assert marked == [b"relu"]
    gradient_origins = find_gradient_origins(drawn.graph)
    assert [
        word_for(drawn.graph.nodes[node])
        for node, gradient_origin in gradient_origins.by_node.items()
        if not gradient_origin.is_aside
    ] == ["Relu"]
    assert {name for node in gradient_origins.arrived for name in drawn.graph.nodes[node].names} == {
        "model.0.weight", "model.0.bias", "model.2.weight", "model.2.bias", "model.4.weight",
    }  # fmt: skip


def test_every_number_of_a_chain_rule_is_on_the_picture(look: Look) -> None:
    svg = look("log_of_product_values").svg.decode("utf-8")
    for numbers in ("↓ 2  ↑ 0.5", "↓ 5  ↑ 0.2", "↓ 10  ↑ 0.1", "↓ 2.3  ↑ 1"):
        assert numbers in svg


def test_nan_arises_behind_where(look: Look) -> None:
    graph = look("where_does_not_hide_nan_values").graph
    gradient_origins = {
        word_for(graph.nodes[node]): gradient_origin.state
        for node, gradient_origin in find_gradient_origins(graph).by_node.items()
    }
    assert gradient_origins == {"Sqrt": "nan"}


def test_the_colours_of_one_picture_show_how_the_gradient_vanishes_from_layer_to_layer(look: Look) -> None:
    drawn = look("vanishing_gradient_gradient")
    boxes = set(re.findall(rb'<linearGradient id="bands\d".*?</linearGradient>', drawn.svg))
    steps = [[int(step) for step in re.findall(rb'class="step(\d)"', bands)] for bands in boxes]
    assert all(each == sorted(each) for each in steps)
    assert (min(map(min, steps)), max(map(max, steps))) == (0, 6)
    norms = [norm_of(node.arrived) or 0.0 for node in drawn.graph.nodes if word_for(node) == "Sigmoid"]
    assert len(norms) == 10
    assert all(later > 4 * earlier for earlier, later in pairwise(norms))


def test_a_custom_function_is_known_as_one(look: Look) -> None:
    assert [word_for(node) for node in look("custom_relu").graph.nodes if node.kind == "custom"] == ["MyReLU"]


def test_what_lies_before_no_grad_is_out_of_reach(look: Look) -> None:
    drawn = look("no_grad_in_the_middle_check")
    reached = {name for node in drawn.graph.nodes for name in node.names}
    unreached = [name for parameter in drawn.document.parameters for name in parameter.names if name not in reached]
    assert unreached == ["encoder.weight", "encoder.bias", "bottleneck.weight", "bottleneck.bias"]


def test_a_gradient_is_injected_between_the_leaves_and_the_loss(look: Look) -> None:
    graph = look("injected_gradient").graph
    loss, code = graph.roots
    assert (loss.name, code.name) == ("loss", "code")
    assert code.node in {node.id for node in ancestor_nodes(graph, graph.nodes[loss.node])}


def test_the_node_whose_backward_failed_is_marked(look: Look) -> None:
    drawn = look("crash_in_backward")
    failed = backward_of(drawn).failed_node
    assert failed is not None
    assert word_for(drawn.graph.nodes[failed]) == "Clamp"


def backward_of(drawn: DrawnPicture) -> BackwardCall:
    assert drawn.graph.backward is not None
    return drawn.graph.backward


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_a_sample_knows_nothing_of_gradviz(sample: Path) -> None:
    assert "gradviz" not in sample.read_text(encoding="utf-8")
