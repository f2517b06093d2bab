"""Pictures coloured by measured figures: the step of each item, and the words if nothing was measured."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from gradviz.capture.capture import Capture, Program
from gradviz.errors import BadInput
from gradviz.graph.gradients import NodeRun, TensorFigures
from gradviz.graph.model import Graph, Region
from gradviz.graph.query.engine_times import timed
from gradviz.rendering.formats import FORMATS, Format, Subject, format_named
from gradviz.rendering.look.color_by import Colouring, colouring_of
from gradviz.rendering.look.color_ramps import ColorBy
from gradviz.rendering.notebook import html_of
from gradviz.rendering.words.item_words import item_texts
from gradviz.view.folding import FoldOptions, fold
from tests.builders import GraphBuilder, graph_of, transformer
from tests.unit.analysis.memory_graphs import relu_and_square, stack_of_blocks
from tests.unit.analysis.test_gradient_origins import FINE, NAN, ZERO, with_flow

COLOURED = [each for each in FORMATS if "color_by" in each.option_names()]
every_coloured_format = pytest.mark.parametrize("chosen", COLOURED, ids=lambda chosen: chosen.name)


def subject_of(graph: Graph, depth: int | None = None) -> Subject:
    return Subject(Capture(Program("train.py"), (graph,)), graph, fold(graph, FoldOptions(depth=depth)))


def coloured(graph: Graph, by: ColorBy, depth: int | None = None) -> dict[str, tuple[tuple[str, ...], str]]:
    """Tints and figure of each item, by its title."""
    subject = subject_of(graph, depth)
    colouring = colouring_of(subject, by)
    assert isinstance(colouring, Colouring)
    titles = (text.title for text in item_texts(subject.facts))
    return dict(zip(titles, zip(colouring.tints, colouring.figures, strict=True), strict=True))


def fading(graph: Graph) -> Graph:
    """A tenth of the gradient is lost from node to node."""
    last = len(graph.nodes) - 1
    nodes = [
        replace(
            node,
            arrived=(TensorFigures(count=1, norm=10.0 ** (node.id - last)),),
            run=NodeRun(last - node.id, seconds=1e-3 * (node.id + 1)),
        )
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))


def test_a_gradient_that_fades_runs_through_the_colours() -> None:
    graph = fading(graph_of("w -> Mul -> Sin -> Exp -> Sum -> loss"))
    assert coloured(graph, "gradient") == {
        "w": (("step0",), "0.0001"),
        "mul": (("step1",), "0.001"),
        "sin": (("step3",), "0.01"),
        "exp": (("step5",), "0.1"),
        "sum": (("step6",), "1"),
        "loss": ((), ""),
    }


def test_an_item_that_represents_repetitions_shows_the_tint_of_each() -> None:
    graph = fading(stack_of_blocks(3))
    tints, figure = coloured(graph, "gradient", depth=1)["h.0 … h.2"]
    assert (tints, figure) == (("step2", "step4", "step6"), "1e-05 → 0.1")


def test_zero_nan_and_unknown_gradients_are_not_on_the_scale() -> None:
    flow = {"Sum": (FINE, [FINE]), "Mul": (NAN, [NAN]), "w": (ZERO, [])}
    found = coloured(with_flow("w -> Mul -> Exp -> Sum -> loss; {data} -> Mul", flow), "gradient")
    assert {title: tints for title, (tints, _) in found.items()} == {
        "w": ("plain",), "data": ("plain",), "mul": ("broken",), "exp": ("unknown",), "sum": ("step6",), "loss": (),
    }  # fmt: skip


def test_memory_is_counted_for_each_item_and_leaves_keep_none() -> None:
    graph = relu_and_square()
    found = coloured(graph, "memory")
    assert found["w"] == (("plain",), "")
    assert found["relu"] == (("step6",), "400 B")
    whole = coloured(stack_of_blocks(3), "memory", depth=0)
    assert whole["model"] == (("step6",), "14.6 KiB")


def test_time_is_the_sum_over_the_repetitions_of_an_item() -> None:
    found = coloured(fading(stack_of_blocks(2)), "time", depth=0)
    assert found["model"] == (("step6",), "28 ms")


def test_compiled_code_has_one_time_for_all_that_is_inside() -> None:
    graph = fading(graph_of("w -> Mul -> Sin -> Sum -> loss"))
    leaf, mul, sin, total = graph.nodes
    inside = (replace(each, region=0, inner_nr=each.id, run=NodeRun(each.id)) for each in (mul, sin))
    region = Region("CompiledFunctionBackward", run=NodeRun(1, seconds=0.5))
    compiled = replace(graph, nodes=(leaf, *inside, total), regions=(region,))
    found = coloured(compiled, "time")
    assert found["mul"] == found["sin"] == (("unknown",), "")
    assert found["sum"] == (("step6",), "4 ms")
    assert [each.run for each in timed(compiled)] == [leaf.run, total.run, region.run]
    closed = replace(region, closed="this torch does not tell what it was compiled from")
    assert list(timed(replace(compiled, regions=(closed,)))) == [leaf, total]


def test_modules_are_coloured_at_the_deepest_level_with_enough_colours() -> None:
    subject = subject_of(transformer(12))
    colouring = colouring_of(subject, "module")
    assert colouring is not None
    assert len(colouring.categories) <= 8
    assert any("h" in name for _, name in colouring.categories)
    assert {tint for tint in colouring.present if tint.startswith("category")}


def test_of_more_modules_than_colours_neighbours_differ_and_the_legend_names_those_that_do_not() -> None:
    builder = GraphBuilder()
    output = builder.leaf("w")
    for index in range(11):
        output = builder.operation("Sin", output, scope=builder.scope(f"layers.{index}", "Layer"))
    builder.root(output)
    colouring = colouring_of(subject_of(builder.build()), "module")
    assert colouring is not None
    assert [name for _, name in colouring.categories][1:4] == ["layers.1, layers.9", "layers.2, layers.10", "layers.3"]
    assert "others" not in colouring.present


@pytest.mark.parametrize("by", ["gradient", "memory", "time"])
def test_a_colouring_without_recorded_figures_is_refused_with_what_to_do(by: ColorBy) -> None:
    with pytest.raises(BadInput, match="recorded") as refusal:
        colouring_of(subject_of(replace(graph_of("w -> Sum -> loss"), knows_saved_tensors=False)), by)
    assert refusal.value.hint


@every_coloured_format
@pytest.mark.parametrize("by", ["kind", "gradient", "memory", "time", "module", "none"])
def test_every_format_draws_every_colouring_the_same_twice(chosen: Format, by: str) -> None:
    graph = fading(stack_of_blocks(3))
    renderer = chosen.renderer(color_by=by, theme="dark")
    content = renderer.render(subject_of(graph, depth=1))
    if chosen.name != "pdf":
        assert content == renderer.render(subject_of(graph, depth=1))


@every_coloured_format
def test_an_unknown_colouring_is_refused_before_anything_is_drawn(chosen: Format) -> None:
    with pytest.raises(BadInput, match="grad") as refusal:
        chosen.renderer(color_by="grad")
    assert "gradient" in str(refusal.value.hint)


def test_every_class_of_an_svg_has_its_rule_and_every_fill_its_definition() -> None:
    graph = fading(stack_of_blocks(3))
    svg = str(
        next(each for each in FORMATS if each.name == "svg").renderer(color_by="gradient").render(subject_of(graph, 1))
    )
    used = set(re.findall(r'class="[^"]*\b((?:step|category)\d|plain|unknown|broken)\b', svg))
    assert used
    assert [tint for tint in used if f".{tint} .s" not in svg] == []
    assert set(re.findall(r"url\(#(\w+)\)", svg)) <= set(re.findall(r' id="(\w+)"', svg))


def test_two_coloured_pictures_on_one_page_of_a_notebook_share_no_name() -> None:
    graph = fading(stack_of_blocks(3))
    svg = str(format_named("svg").renderer(color_by="gradient").render(subject_of(graph, 1)))
    page = html_of(svg)
    names = set(re.findall(r' id="([^"]+)"', page))
    assert any(name.endswith("-bands0") for name in names)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= names
    assert "#bands0" not in page


def test_colours_show_the_kind_of_operation_and_leaves_keep_their_own() -> None:
    found = coloured(graph_of("w -> Convolution -> Relu -> Add -> NllLoss -> loss"), "kind")
    tints = {title: tints for title, (tints, _) in found.items()}
    assert tints.pop("convolution") == ("category0",)
    assert tints.pop("relu") == ("category3",)
    assert tints.pop("nll_loss") == ("category7",)
    assert tints == {"w": (), "add": (), "loss": ()}


def test_a_graph_without_coloured_kinds_has_the_colours_of_roles() -> None:
    assert colouring_of(subject_of(graph_of("w -> Add -> loss")), "kind") is None
    assert colouring_of(subject_of(graph_of("w -> Relu -> loss")), "none") is None
