"""The page in a real browser, used with mouse and keyboard, and judged by what is on the screen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from unicodedata import normalize
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, expect
from pypdf import PdfReader

from gradviz.capture.capture import Capture, Program
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph, Node, Root, TensorFacts
from gradviz.graph.node_findings import NodeFinding, Verdict
from gradviz.rendering.page import html_file
from gradviz.rendering.words.item_words import item_texts
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.build import ViewOptions, view_of
from gradviz.view.folding import FoldOptions
from tests.builders import GraphBuilder, graph_of, irregular_graph, transformer, unrolled_rnn
from tests.captures import small_capture
from tests.end_to_end.pages import Screen, page_of, page_of_all, started_browser
from tests.unit.analysis.memory_graphs import stack_of_blocks
from tests.unit.rendering.look.test_color_by import fading
from tests.unit.rendering.replay.test_frame_strip import scalar
from tests.unit.rendering.test_every_format import HOSTILE_NAMES, named_everywhere
from tests.unit.rendering.words.test_gradient_tooltips import with_fields

Opener = Callable[..., Screen]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Opens the page of a graph from disk; nothing may be loaded, and nothing may fail."""
    context = browser.new_context(viewport={"width": 1400, "height": 1700}, reduced_motion="reduce")
    context.set_default_timeout(60_000)
    screens: list[Screen] = []

    def open_page(graph: Graph, address: str = "", **options: object) -> Screen:
        page = context.new_page()
        screen = Screen(page, [], tmp_path / f"page{len(screens)}.html")
        screens.append(screen)
        page.on("console", lambda message: screen.complaints.append(message.text))
        page.on("pageerror", lambda error: screen.complaints.append(str(error)))
        page.on("request", lambda request: screen.note_request(request.url))
        return screen.reopen(page_of(graph, **options), address)  # type: ignore[arg-type]

    yield open_page
    complaints = [complaint for screen in screens for complaint in screen.complaints]
    context.close()
    assert complaints == []


FOLDED = ViewOptions(fold=FoldOptions(depth=1))


def drawn_titles(graph: Graph, view: ViewOptions) -> list[str]:
    """What the still picture shows, closed or open."""
    shown = view_of(graph, view)
    texts = item_texts(SubjectFacts(Capture(Program("train.py"), (graph,)), shown.graph, shown.view))
    return sorted(text.title for text in texts)


@pytest.mark.parametrize("depth", [0, 1, 2, None])
def test_it_begins_with_what_the_still_picture_shows(show: Opener, depth: int | None) -> None:
    view = ViewOptions(fold=FoldOptions(depth=depth))
    assert show(transformer(4), view=view).titles() == drawn_titles(transformer(4), view)


def test_a_box_opens_and_closes_where_it_is(show: Opener) -> None:
    screen = show(transformer(4), view=FOLDED)
    closed, place = screen.titles(), screen.place("h.0 … h.3")
    screen.toggle("h.0 … h.3")
    assert "attn" in screen.titles() and "h.0 … h.3" in screen.titles()
    assert screen.place("h.0 … h.3") == pytest.approx(place, abs=1)
    screen.toggle("h.0 … h.3")
    assert screen.titles() == closed
    assert screen.place("h.0 … h.3") == pytest.approx(place, abs=1)


def test_whatever_is_open_nothing_overlaps_and_every_wire_arrives(show: Opener) -> None:
    screen = show(transformer(4), view=ViewOptions(fold=FoldOptions(depth=0)))
    for box in ("model", "h.0 … h.3", "mlp", "attn", "head", "q", "v", "ln_1", "embed"):
        screen.press("f").toggle(box)
        assert (box, screen.overlaps(), screen.stray_ends()) == (box, [], [])
    for box in ("mlp", "q", "attn", "model"):
        screen.press("f").toggle(box)
        assert (box, screen.overlaps(), screen.stray_ends()) == (box, [], [])


def test_words_beside_wires_say_which_output_they_carry(show: Opener) -> None:
    builder = GraphBuilder()
    halves = builder.operation("Split", builder.leaf("x", kind="input"))
    builder.nodes[halves] = replace(builder.nodes[halves], outputs=(TensorFacts((2, 3), "float32"),) * 2)
    builder.root(builder.operation("Add", builder.operation("Sin", (halves, 0)), builder.operation("Cos", (halves, 1))))
    labels = show(builder.build()).page.locator("#scene .y text")
    assert sorted(labels.all_text_contents()) == ["output 0", "output 1"]


_COVERED_BY_TITLES = """() => {
const rects = (all) => [...document.querySelectorAll(all)].map(e => e.getBoundingClientRect());
const titles = rects('#picture .h.item .title text.t');
const items = rects('#picture .item:not(.h) > .s');
const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
return titles.filter(title => items.some(item => meet(title, item))).length;
}"""


def test_titles_of_boxes_keep_their_size_where_there_is_room_and_cover_nothing(show: Opener) -> None:
    screen = show(transformer(4), view=ViewOptions(fold=FoldOptions(depth=9)))
    height = "e => e.querySelector('.title text').getBoundingClientRect().height"
    natural = 16.0
    for zoom in ("-", "-", "-", "-", "+", "+", "+", "+", "+", "+", "+", "+", "+", "+", "+"):
        screen.press(zoom)
        assert screen.page.evaluate(_COVERED_BY_TITLES) == 0
        assert screen.item("model").first.evaluate(height) == pytest.approx(natural, abs=3.0)
    assert screen.titles_on_titles() == []


def test_boxes_whose_titles_are_out_of_sight_are_named_above_the_picture(show: Opener) -> None:
    screen = show(transformer(4), view=ViewOptions(fold=FoldOptions(depth=9)))
    screen.page.set_viewport_size({"width": 900, "height": 500})
    screen.page.mouse.move(200, 300)
    screen.page.mouse.wheel(0, -600)
    screen.page.mouse.down()
    screen.page.mouse.move(60, -400, steps=2)
    screen.page.mouse.up()
    crumbs = screen.page.locator("#crumbs li")
    expect(crumbs).to_contain_text(["graph", "model", "h.0"])
    screen.press("f")
    expect(crumbs).to_have_text(["graph"])


def test_everything_can_be_opened_and_closed_at_once(show: Opener) -> None:
    screen = show(transformer(4), view=FOLDED)
    screen.page.click("#unfold-all")
    everything = ViewOptions(fold=FoldOptions(depth=9))
    assert screen.settled().titles() == drawn_titles(transformer(4), everything)
    screen.page.click("#fold-all")
    assert screen.settled().titles() == drawn_titles(transformer(4), ViewOptions(fold=FoldOptions(depth=0)))


def test_of_several_similar_ones_each_can_be_shown_and_again_one(show: Opener) -> None:
    screen = show(transformer(4), view=FOLDED)
    screen.click("h.0 … h.3")
    closed, place = screen.titles(), screen.place("h.0 … h.3")
    screen.page.click("#panel button:text-is('Show each of 4')")
    blocks = ["h.0", "h.1", "h.2", "h.3"]
    assert [title for title in screen.settled().titles() if title in blocks] == blocks
    assert screen.place("h.0 … h.3") == pytest.approx(place, abs=1)
    screen.toggle("h.2")
    assert (screen.overlaps(), screen.stray_ends()) == ([], [])
    assert {"h.0", "h.1", "mlp", "h.3"} <= set(screen.lit("from")) and "log_softmax" in screen.lit("to")
    assert screen.search("softmax op:softmax") == "5 found"  # one in each block, and that of the loss
    copy = show(transformer(4), screen.page.evaluate("location.hash"), view=FOLDED)
    assert copy.titles() == screen.titles() and "h.2" in screen.titles()
    screen.press("Escape").click("h.0 … h.3")
    screen.press("a")
    assert "h.2" not in screen.titles() and "mlp" in screen.titles()
    assert screen.search("softmax op:softmax") == "2 found"
    screen.press("Escape").toggle("h.0 … h.3")
    assert screen.titles() == closed


def test_what_is_selected_lights_up_what_its_gradient_flows_to_and_came_from(show: Opener) -> None:
    screen = show(graph_of("x -> Mul -> Sin -> loss; w -> Mul -> Cos -> other"))
    screen.click("sin")
    assert (screen.lit("from"), screen.lit("to")) == (["mul", "w", "x"], ["loss"])
    screen.press("Escape")
    assert (screen.lit("from"), screen.lit("to")) == ([], [])


def test_light_passes_through_borders_of_boxes(show: Opener) -> None:
    screen = show(transformer(2), view=ViewOptions(fold=FoldOptions(show_all=True)))
    screen.press("f").click("log_softmax")
    assert {"tokens", "embedding", "softmax", "linear"} <= set(screen.lit("from"))
    assert screen.lit("to") == ["loss", "nll_loss"]


def test_the_shortest_way_between_two_lights_up(show: Opener) -> None:
    screen = show(graph_of("x -> Mul -> Sin -> Add -> loss; Mul -> Cos -> Exp -> Add; y -> Tan -> other"))
    screen.click("mul")
    screen.page.click("#panel button:text-is('Way to …')")
    screen.click("add")
    assert screen.lit("to") == ["add", "mul", "sin"] and screen.heading() == "mul"
    screen.click("x", modifiers=["Shift"])
    assert (screen.lit("from"), screen.lit("to")) == (["mul", "x"], [])
    screen.click("tan", modifiers=["Shift"])
    assert screen.page.inner_text("#status") == "no data flows between the two"


def test_arrow_keys_follow_the_data_and_enter_opens(show: Opener) -> None:
    screen = show(transformer(2), view=FOLDED)
    screen.click("head")
    assert screen.press("ArrowDown").heading() == "log_softmax"
    assert screen.press("ArrowUp", "ArrowUp").heading().startswith("h.0")
    assert "mlp" not in screen.titles()
    assert "mlp" in screen.press("Enter").titles()
    assert "mlp" not in screen.press("e").titles()


def test_search_jumps_into_folded_boxes(show: Opener) -> None:
    screen = show(transformer(4), view=FOLDED)
    assert screen.search("softmax") == "2 found"
    screen.press("Enter", "Enter")
    assert screen.page.inner_text("#search-count") == "2 of 2"
    assert screen.heading() == "softmax" and "bmm" in screen.titles()
    assert screen.page.locator("#picture .item.match").count() == 2
    assert screen.search("op:softmax shape:zebra") == "nothing found"
    assert "Unterminated" in screen.search("/(/")
    assert screen.search("/^h.\\d+/") == "1 found"
    assert screen.search("op:sofmax") == "nothing found"
    screen.page.keyboard.press("Enter")
    assert screen.page.input_value("#search") == "op:softmax"


def test_what_was_measured_can_be_searched_for(show: Opener) -> None:
    screen = show(fading(graph_of("w -> Mul -> Sin -> Exp -> Sum -> loss")))
    assert screen.search("grad>0.05") == "2 found"
    assert screen.search("grad<=1e-4") == "1 found"
    assert screen.search("time>=4ms op:exp") == "1 found"
    assert "not a number with a unit" in screen.search("saved>2lightyears")


def test_the_panel_says_all_that_is_known(show: Opener) -> None:
    capture = small_capture()
    screen = show(capture.graphs[0], capture=capture)
    screen.click("linear")
    panel = screen.panel()
    for words in (
        "made by torch.nn.functional.linear",
        "loss = model(x).sum()",
        "alpha = 1.0",
        "mat2 [4, 3] · 48 B",
    ):
        assert words in panel
    assert screen.page.locator(".formula math msup").count() == 1
    screen.page.click("section:has(h3:has-text('formula')) .copy")
    expect(screen.page.locator("#status")).to_have_text("copied")
    screen.press("/")
    screen.page.keyboard.press("Control+v")
    assert "B\u0304 = Aᵀ Ȳ" in screen.page.input_value("#search")
    screen.page.click("#panel .neighbours button:has-text('sum')")
    assert screen.settled().heading() == "sum"


def test_details_are_unpacked_once_an_item_is_selected(show: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_file, "ITEMS_IN_A_PIECE", 1)
    screen = show(graph_of("w -> Exp -> Sin -> loss"))
    for title, formula in (("exp", "x\u0304 = y\u0304 ∘ y"), ("sin", "x\u0304 = y\u0304 ∘ cos(x)")):
        screen.click(title)
        expect(screen.page.locator("#panel math")).to_have_attribute("alttext", normalize("NFC", formula))


def test_gradients_are_reported_edge_by_edge_with_their_sizes(show: Opener) -> None:
    graph = small_capture().graphs[0]
    figures = TensorFigures((2, 4), "float32", norm=0.5, minimum=-0.3, maximum=0.3, count=8, histogram=(1, 0, 7))
    measured = (
        replace(node, arrived=(figures,), gradients=tuple(replace(figures, histogram_from=2) for _ in node.edges))
        for node in graph.nodes
    )
    screen = show(replace(graph, nodes=tuple(measured)))
    screen.click("linear")
    assert "from sum [2, 4]\n\nnorm 0.5 · from -0.3 to 0.3" in screen.panel()
    labels = screen.page.locator("#panel .chart").evaluate_all("charts => charts.map(chart => chart.ariaLabel)")
    assert labels[0] == "sizes of elements from 1e0 to 1e3, most of them between 1e2 and 1e3"
    into = screen.page.locator("section:has(h3:has-text('gradient out')) .item-link")
    into.first.click()
    assert screen.settled().heading() == "weight"


def test_the_backward_pass_is_replayed_step_by_step(show: Opener) -> None:
    graph = fading(graph_of("w -> Mul -> Sin -> Sum -> loss; Mul -> Cos -> Sum"))
    for name, fields in {
        "Sin": {"gradients": (scalar(0.5),)},
        "Cos": {"gradients": (scalar(-0.2),)},
        "Mul": {"arrived": (scalar(0.3),), "values": (scalar(7.0),)},
    }.items():
        graph = with_fields(graph, name, **fields)
    screen = show(graph)
    assert "↑ 0.3" in (screen.item("mul").text_content() or "")
    screen.press("p")
    assert screen.heading() == "backward begins"
    screen.press("ArrowRight")
    assert screen.heading() == "sum" and "step 1 of 5" in screen.panel()
    assert screen.in_state("runs") == ["sum"] and screen.in_state("ahead") == ["mul", "w"]
    assert screen.in_state("ready") == ["cos", "sin"]
    screen.press("ArrowRight")
    assert screen.in_state("waits") == ["mul"]
    sums, mul = screen.page.locator(".play-words .sum"), screen.item("mul")
    first = sums.text_content() or ""
    assert first in ("0.5 + …", "-0.2 + …") and "↓ 7" in (words := mul.text_content() or "") and "↑" not in words
    screen.press("ArrowRight")
    assert sums.text_content() == {"0.5 + …": "0.5 − 0.2 = 0.3", "-0.2 + …": "-0.2 + 0.5 = 0.3"}[first]
    assert {"0.5", "-0.2"} <= set(screen.page.locator(".play-words .amount").all_text_contents())
    assert "↑ 0.3" in (mul.text_content() or "")
    screen.press("End")
    assert screen.in_state("ran") == ["cos", "loss", "mul", "sin", "sum"] and screen.in_state("runs") == ["w"]
    assert screen.page.input_value("#play-slider") == "5"
    screen.press("Escape")
    assert screen.in_state("ran") == [] and screen.heading() == "train.py"


def test_a_folded_box_runs_all_that_is_in_it(show: Opener) -> None:
    screen = show(transformer(2), view=FOLDED)
    screen.press("p", "End")
    assert screen.heading() == "embed" and "weight" in screen.panel()  # The leaf inside the closed box is no stop.
    assert screen.in_state("runs") == ["embed", "model"]
    assert int(screen.page.input_value("#play-slider")) < 10 < screen.panel().count("\n") + 10
    screen.press("Home")
    assert screen.in_state("runs") == ["loss"]


def test_a_link_opens_the_same_view_and_back_goes_to_the_one_before(show: Opener) -> None:
    screen = show(transformer(4), view=FOLDED)
    screen.toggle("h.0 … h.3")
    screen.click("add")
    address = screen.page.evaluate("location.hash")
    assert "node=" in address and "open=model.h.0" in address
    copy = show(transformer(4), address, view=FOLDED)
    assert (copy.titles(), copy.heading()) == (screen.titles(), "add")
    screen.page.go_back()
    expect(screen.page).not_to_have_url(re.compile("node="))
    assert "mlp" in screen.titles() and screen.heading() == "train.py"
    screen.page.go_back()
    expect(screen.page).not_to_have_url(re.compile("open="))
    assert "mlp" not in screen.settled().titles()


def test_a_copied_link_restores_the_whole_view(show: Opener) -> None:
    graph = fading(graph_of("w -> Mul -> Sin -> Exp -> Sum -> loss; Mul -> Cos -> Sum"))
    screen = show(graph)
    screen.page.evaluate("navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }")
    screen.page.select_option("#colour", "gradient")
    screen.page.click("#direction")
    screen.click("cos")
    screen.press("o")
    screen.turn_to("Parameters")
    screen.search("op:mul")
    screen.press("Escape")
    screen.search("op:mul")
    screen.page.click("#zoom-out")
    screen.settled()
    screen.page.click("#copy-link")
    address = "#" + screen.page.evaluate("copied").split("#")[1]
    assert {part.split("=")[0] for part in address[1:].split("&")} == {
        "node", "color", "direction", "only", "tab", "find", "at",
    }  # fmt: skip
    again = show(graph, address)
    view = "document.querySelector('#scene').getAttribute('transform').match(/[\\d.]+/g).map(Number)"
    assert again.page.evaluate(view) == pytest.approx(screen.page.evaluate(view), abs=1.5)
    assert again.titles() == screen.titles() and "exp" not in again.titles()
    assert again.page.input_value("#search") == "op:mul" and again.page.input_value("#colour") == "gradient"
    assert again.page.get_attribute("#panel [role=tab][aria-selected=true]", "data-focus") == "tab-parameters"
    played = show(graph, "#step=2")
    assert played.page.input_value("#play-slider") == "2"


def test_only_what_is_joined_is_laid_out_anew_and_fitted(show: Opener) -> None:
    screen = show(graph_of("a -> Mul -> Sin -> Sum -> loss; b -> Exp -> Neg -> Tanh -> Sigmoid -> Cos -> Sum"))
    height = "document.querySelector('#picture .items').getBoundingClientRect().height"
    whole = screen.page.evaluate("document.querySelector('#scene').getBBox().height")
    screen.click("sin")
    screen.press("o")
    assert screen.titles() == ["a", "loss", "mul", "sin", "sum"]
    assert screen.page.evaluate("document.querySelector('#scene').getBBox().height") < whole
    assert screen.page.evaluate(height) > 300 and screen.overlaps() == [] and screen.stray_ends() == []
    screen.press("o")
    assert "tanh" in screen.titles()


def test_the_picture_turns_from_left_to_right_and_back(show: Opener) -> None:
    screen = show(transformer(4), view=ViewOptions(fold=FoldOptions(depth=9)))
    upright = screen.titles()
    (x, y), (end_x, end_y) = screen.place("tokens"), screen.place("loss")
    assert end_y - y > abs(end_x - x)
    screen.page.click("#direction")
    screen.settled()
    (x, y), (end_x, end_y) = screen.place("tokens"), screen.place("loss")
    assert 0 < x < end_x - abs(end_y - y), "what does not fit is seen from its beginning"
    assert screen.titles() == upright and screen.overlaps() == [] and screen.stray_ends() == []
    assert screen.page.evaluate(_COVERED_BY_TITLES) == 0
    screen.toggle("attn")
    assert screen.overlaps() == [] and screen.stray_ends() == []


def test_pills_show_the_measure_of_the_colour(show: Opener) -> None:
    screen = show(fading(graph_of("w -> Mul -> Sin -> Exp -> Sum -> loss")))
    pills = screen.page.locator("#picture .item text.b")
    screen.page.select_option("#colour", "gradient")
    expect(pills).to_have_text(["0.001", "0.01", "0.1", "1"])
    screen.page.select_option("#colour", "none")
    expect(pills).to_have_count(0)


def test_light_has_a_legend(show: Opener) -> None:
    screen = show(transformer(2))
    screen.search("nll_loss")
    assert "found" in screen.page.inner_text("#legend")
    screen.click("nll_loss")
    legend = screen.page.inner_text("#legend")
    assert "its gradient flows to these" in legend and "its gradient came from these" in legend


def test_the_panel_keeps_its_width(show: Opener) -> None:
    screen = show(fading(graph_of("w -> Mul -> Sin -> Exp -> Sum -> loss")))
    width = screen.page.locator("#panel").evaluate("panel => panel.offsetWidth")
    for tab in ("Parameters", "About"):
        screen.turn_to(tab)
        assert screen.page.locator("#panel").evaluate("panel => panel.offsetWidth") == width


def test_colours_can_be_chosen_with_their_legend(show: Opener) -> None:
    screen = show(fading(graph_of("w -> Mul -> Sin -> Exp -> Sum -> loss")), color_by="gradient")
    fill = "element => getComputedStyle(element.querySelector('.s')).fill"
    shades = [screen.item(title).evaluate(fill) for title in ("mul", "sin", "exp", "sum")]
    assert len(set(shades)) == 4
    assert "1e-4 … 1" in screen.page.inner_text("#legend")
    screen.page.select_option("#colour", "none")
    assert len({screen.item(title).evaluate(fill) for title in ("mul", "sin", "exp", "sum")}) == 1


def test_a_folded_box_has_the_colours_of_all_that_it_holds(show: Opener) -> None:
    half = with_fields(transformer(2), "NllLoss", outputs=(TensorFacts((), "float64"),))
    screen = show(with_fields(half, "Softmax", outputs=(TensorFacts((4,), "float16"),)), view=FOLDED)
    screen.page.select_option("#colour", "dtype")
    assert screen.page.locator("#legend .entry").all_inner_texts()[:3] == ["float32", "float16", "float64"]
    bands = "element => [...element.querySelectorAll('.bands .s')].map(band => getComputedStyle(band).fill)"
    found = screen.item("h.0 … h.1").evaluate(bands)
    assert len(found) == len(set(found)) == 2


def test_coloured_by_gradient_a_wire_is_as_wide_as_what_flows_back(show: Opener) -> None:
    graph = fading(graph_of("w -> Mul -> Sin -> Exp -> loss"))
    nodes = (replace(node, gradients=tuple(node.arrived[0] for _ in node.edges)) for node in graph.nodes)
    screen = show(replace(graph, nodes=tuple(nodes)), color_by="gradient")
    wide = screen.widths()
    assert len(set(wide)) == 3
    screen.page.select_option("#colour", "none")
    assert len(set(screen.widths())) == 1
    screen.press("w")
    assert screen.widths() == wide and "width of wires" in screen.page.inner_text("#legend")
    assert show(graph_of("w -> Sum -> loss")).page.locator("#weigh").is_hidden()


def test_the_table_of_parameters_sorts_and_leads_to_leaves(show: Opener) -> None:
    screen = show(fading(graph_of("v -> Mul -> Sin -> Sum -> loss; w -> Sin; b -> Sum")))
    screen.turn_to("Parameters")
    names = screen.page.locator(".parameters tbody button")
    assert names.all_inner_texts() == ["v", "w", "b"]
    screen.page.click("th button:has-text('gradient')")
    assert names.all_inner_texts() == ["b", "w", "v"]
    screen.page.click("th button:has-text('gradient')")
    assert names.all_inner_texts() == ["v", "w", "b"]
    names.nth(1).click()
    assert screen.settled().heading() == "w" and screen.lit("to") == ["loss", "sin", "sum"]


def test_memory_is_a_map_by_module_or_line_that_leads_to_what_keeps_it(show: Opener) -> None:
    screen = show(stack_of_blocks(3))
    screen.turn_to("Memory")
    assert "every storage counted once" in screen.panel()
    screen.page.locator(".treemap text:has-text('h.0')").click()
    assert screen.settled().heading() == "h.0"
    # The module that was clicked fills the map; the way back is above it.
    screen.page.locator(".treemap .cell.operation").first.click()
    assert screen.settled().page.locator("#picture .match").count() == 2
    screen.click("addmm")
    screen.turn_to("Memory")
    assert screen.page.locator(".treemap .current").count() == 1
    screen.page.click(".way button:text-is('all')")
    sizes = "rects => rects.map(rect => rect.width.baseVal.value * rect.height.baseVal.value)"
    areas = screen.page.locator(".treemap rect.d1").evaluate_all(sizes)
    assert len(areas) == 3 and max(areas) < 1.15 * min(areas)
    width = int(screen.page.locator(".treemap").get_attribute("width") or 0)
    screen.page.locator("#panel-edge").press("ArrowLeft")
    expect(screen.page.locator(".treemap")).to_have_attribute("width", str(width + 24))
    screen.page.click("button:text-is('by line')")
    assert screen.page.locator(".treemap .o").count() == 0 < screen.page.locator(".treemap .operation").count()


def test_the_source_is_beside_the_graph_a_line_shows_its_nodes_and_a_node_its_line(show: Opener) -> None:
    capture = small_capture()
    screen = show(capture.graphs[0], capture=capture)
    screen.turn_to("Source")
    line = screen.page.locator(".lines-view button:has-text('loss = model(x).sum()')")
    assert "B" in line.locator(".cost").inner_text()
    line.click()
    assert screen.settled().page.locator("#picture .match").count() == 2
    assert screen.page.inner_text("#search-count") == "2 found"
    screen.click("sum")
    expect(line).to_have_attribute("aria-current", "true")
    assert screen.heading() == "sum"


def test_the_theme_follows_the_system_or_what_was_asked_for(show: Opener) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = show(graph_of("w -> Sum")), show(graph_of("w -> Sum"), theme="dark")
    assert light.page.evaluate(ground) == "rgb(255, 255, 255)" != dark.page.evaluate(ground)
    light.page.emulate_media(color_scheme="dark")
    expect(light.page.locator("body")).to_have_css("background-color", dark.page.evaluate(ground))


def test_keys_are_listed(show: Opener) -> None:
    screen = show(graph_of("w -> Sum"))
    screen.press("?")
    assert "follow the data back" in screen.page.inner_text("dialog")
    screen.press("Escape", "/")
    assert screen.page.evaluate("document.activeElement.id") == "search"


EVIL_NAME = " ".join(
    ["<img src=x onerror=alert(1)>", "javascript:alert(1)", *sorted(HOSTILE_NAMES, key=len), "x" * 1_000_000]
)


def test_no_name_does_harm(show: Opener) -> None:
    subject = named_everywhere(EVIL_NAME)
    screen = show(subject.graph, capture=subject.capture, editor="vscode")
    screen.page.on("dialog", lambda dialog: screen.complaints.append(dialog.message))
    assert len(screen.titles()) > 3 and "<img src=x onerror=alert(1)>" in screen.panel()
    strange = "#panel :is(img, script, iframe), #search-list :is(img, b b), #picture :is(img, foreignObject), #tip img"
    screen.page.locator("#picture .item.custom").first.click()
    assert screen.settled().heading().startswith("<img src=x onerror=alert(1)> javascript:alert(1)")
    for tab in screen.page.locator("#panel [role=tab]").all_inner_texts():
        screen.turn_to(tab)
        assert screen.page.locator(strange).count() == 0, tab
    links = screen.page.locator("a[href]").evaluate_all("links => links.map(link => link.protocol)")
    assert set(links) <= {"vscode:"}
    assert screen.search("onerror=alert(1)") != "nothing found" and screen.page.locator(strange).count() == 0
    screen.page.locator("#picture .item.custom text").first.hover()
    screen.page.wait_for_selector("#tip:not([hidden])")
    assert screen.page.locator(strange).count() == 0
    with screen.page.expect_download() as saved:
        screen.press("Escape", "Escape").turn_to("About")
        screen.page.click("button:text-is('Save as SVG')")
    assert not list(ElementTree.parse(saved.value.path()).iter("{http://www.w3.org/1999/xhtml}img"))
    assert re.fullmatch(r"[\w.-]+\.svg", saved.value.suggested_filename)


def test_what_a_check_found_is_marked_listed_and_found(show: Opener) -> None:
    graph = replace(
        graph_of("x -> Sqrt -> Sum -> loss"),
        findings=(NodeFinding("GV301", "nan_from_op", "error", "0", why="its slope", fix="add something", node=1),),
        unplaced_findings=(Verdict("GV105", "parameter_not_used", "warning", "w gets nothing"),),
    )
    screen = show(graph)
    assert "GV301 nan_from_op" in (screen.item("sqrt").text_content() or "")
    screen.turn_to("Findings")
    assert "error GV301 nan_from_op\n\n0\n\nwhy its slope\n\ndo add something" in screen.panel()
    screen.page.click("#panel .finding button:has-text('sqrt')")
    assert screen.settled().heading() == "sqrt"
    assert "w gets nothing\n\nabout nothing that is in the picture" in screen.panel()
    assert screen.search("finding") == "1 found"
    screen.page.select_option("#colour", "finding")
    assert {"error", "nothing found"} <= set(screen.page.locator("#legend .entry").all_inner_texts())


ODD_GRAPHS = {
    "one node": graph_of("w -> Sum"),
    "no edge": Graph(nodes=(Node(0, "MulBackward0"),), roots=(Root(0),)),
    "two hundred roots": graph_of("; ".join(f"w{number} -> Sin -> loss{number}" for number in range(200))),
    "a long loop": unrolled_rnn(40),
}


@pytest.mark.parametrize("graph", ODD_GRAPHS.values(), ids=ODD_GRAPHS)
def test_odd_graphs_have_a_sensible_page(show: Opener, graph: Graph) -> None:
    screen = show(graph)
    assert screen.titles() and screen.overlaps() == [] and screen.stray_ends() == []
    assert "train.py" in screen.panel()


def test_of_a_large_picture_only_what_is_visible_is_drawn(show: Opener) -> None:
    screen = show(transformer(60), view=ViewOptions(fold=FoldOptions(show_all=True)))
    assert 10 < len(screen.titles()) < 400 and "nll_loss" not in screen.titles()
    screen.search("nll_loss")
    screen.press("Enter")
    assert "nll_loss" in screen.titles() and screen.heading() == "nll_loss"
    assert screen.overlaps() == []


def test_more_than_can_move_as_elements_is_painted_and_still_answers(show: Opener) -> None:
    screen = show(irregular_graph(700, columns=30), view=ViewOptions(fold=FoldOptions(show_all=True)))
    item = screen.page.locator("#picture .item:not(.h)").nth(20)
    title = item.locator("text").first.evaluate("text => text.firstChild.data")
    box = item.bounding_box()
    assert box is not None
    screen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    screen.page.mouse.wheel(0, 1500)
    expect(screen.page.locator("#picture-canvas")).to_be_visible()
    assert screen.titles() == []
    ink = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(value => value)"
    assert screen.page.locator("#picture-canvas").evaluate(ink)
    assert "painted" in (screen.page.get_attribute("#picture", "aria-label") or "")
    screen.page.mouse.down()
    screen.page.mouse.up()
    assert screen.heading() == title
    with screen.page.expect_download() as saved:
        screen.page.keyboard.press("Escape")
        screen.search("tanh")
        screen.page.click("button:text-is('Save as SVG')")
    content = saved.value.path().read_text(encoding="utf-8")
    assert content.count('class="item ') > 400 and 'match"' in content
    screen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    screen.page.mouse.wheel(0, -1500)
    expect(screen.page.locator("#picture-canvas")).to_be_hidden()
    assert title in screen.titles() and screen.overlaps() == []
    screen.page.mouse.wheel(0, 1500)
    expect(screen.page.locator("#picture-canvas")).to_be_visible()
    screen.page.locator("#picture").press("ArrowDown")
    assert screen.page.inner_text("#status").startswith(screen.heading())


def test_the_picture_can_be_saved(show: Opener) -> None:
    screen = show(transformer(2), view=FOLDED)
    with screen.page.expect_download() as svg:
        screen.page.click("button:text-is('Save as SVG')")
    content = svg.value.path().read_text(encoding="utf-8")
    assert svg.value.suggested_filename == "train.svg"
    assert ElementTree.fromstring(content).tag.endswith("svg") and "log_softmax" in content
    with screen.page.expect_download() as png:
        screen.page.click("button:text-is('Save as PNG')")
    assert png.value.path().read_bytes().startswith(b"\x89PNG")


def test_on_paper_there_is_the_picture_alone_with_its_legend(show: Opener) -> None:
    screen = show(transformer(4), view=ViewOptions(fold=FoldOptions(depth=9)))
    screen.page.mouse.move(300, 300)
    screen.page.mouse.down()
    screen.page.mouse.move(300, 0, steps=2)
    screen.page.mouse.up()
    before = screen.page.locator("#scene").get_attribute("transform")
    seen = "printed = document.querySelector('#picture').getAttribute('viewBox')"
    screen.page.evaluate(f"globalThis.printed = ''; addEventListener('beforeprint', () => {{ {seen} }})")
    pages = PdfReader(BytesIO(screen.page.pdf())).pages
    words = "".join(page.extract_text() for page in pages)
    assert len(pages) == 1
    assert "normalisation" in words and "Copy link" not in words and "Notes" not in words
    width, height = map(float, screen.page.evaluate("printed").split()[2:])
    assert width > 200 and height > 400
    assert screen.page.locator("#scene").get_attribute("transform") == before
    assert screen.page.locator("#picture").get_attribute("viewBox") is None


def test_a_small_window_shows_the_graph_and_the_panel(show: Opener) -> None:
    screen = show(transformer(2))
    screen.page.set_viewport_size({"width": 480, "height": 600})
    screen.search("nll_loss")
    screen.press("Enter")
    box = screen.page.locator("#picture").bounding_box()
    assert box is not None and box["height"] > 150 and box["width"] == 480
    assert screen.heading() == "nll_loss"


def test_of_several_graphs_one_is_chosen_and_what_changed_is_reported(show: Opener) -> None:
    first = graph_of("w -> Mul -> Sum -> loss")
    screen = show(first)
    screen.reopen(page_of_all([first, graph_of("w -> Mul -> Exp -> Sum -> loss")]))
    picker = screen.page.locator("#call")
    assert picker.locator("option").count() == 2 and "exp" not in screen.titles()
    picker.select_option("1")
    screen.page.wait_for_url("**#graph=2")
    expect(screen.item("exp")).to_be_visible()
    screen.turn_to("Calls")
    assert "ExpBackward0\t0\t1" in screen.panel()
    screen.page.click(".changes button:text-is('ExpBackward0')")
    assert screen.settled().heading() == "exp"
    assert "#graph=2&node=" in screen.page.url
    screen.reopen(page_of_all([first, graph_of("w -> Mul -> Exp -> Sum -> loss")]), "#graph=7")
    assert "exp" not in screen.titles()


def test_a_page_of_one_graph_offers_no_other_whatever_the_address_asks_for(show: Opener) -> None:
    screen = show(graph_of("w -> Sum -> loss"), "#graph=-1&color=__proto__&open=*,9,%00&item=-1&node=x&weigh=toString")
    assert screen.page.locator("#call").is_hidden() and screen.titles() == ["loss", "sum", "w"]


def test_on_a_phone_nothing_overflows_and_the_panel_is_a_sheet(show: Opener) -> None:
    screen = show(transformer(4))
    screen.page.set_viewport_size({"width": 390, "height": 844})
    outside = """() => [...document.querySelectorAll('#bar *, #strip *, #panel, #legend, #zoom button')]
      .filter(e => e.offsetParent).map(e => [e.id || e.tagName, e.getBoundingClientRect()])
      .filter(([, {left, right}]) => right > innerWidth + 1 || left < -1).map(([name]) => name)"""
    assert screen.page.evaluate(outside) == []
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert screen.page.is_visible("#fold-all") and screen.page.is_visible("#legend summary")
    sheet = screen.page.locator("#panel")
    assert (closed := sheet.evaluate("panel => panel.offsetHeight")) < 100
    screen.search("nll_loss")
    screen.press("Enter")
    assert sheet.evaluate("panel => panel.offsetHeight") > 3 * closed
    assert screen.page.evaluate("document.querySelector('#picture').getBoundingClientRect().height") > 120
