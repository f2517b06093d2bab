"""Pictures of a replay: the states in each frame, the numbers, and formulas that the font cannot write."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from gradviz.analysis.replay.steps import Replay
from gradviz.capture.capture import Capture, Program
from gradviz.errors import BadInput
from gradviz.graph.gradients import NodeRun, TensorFigures
from gradviz.graph.model import Graph
from gradviz.rendering.look.palette import DARK, LIGHT, ThemeName
from gradviz.rendering.replay import frame_strip
from gradviz.rendering.replay.frame_strip import ReplayStrip, StripLook
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.rendering.subjects import subject_of
from gradviz.rendering.svg.formula_lines import FormulaLine
from gradviz.view.keywords import view_options
from tests.builders import chain_graph, graph_of
from tests.unit.rendering.look.test_palette import contrast


def scalar(value: float) -> TensorFigures:
    return TensorFigures(norm=abs(value), minimum=value, maximum=value, count=1, values=(value,))


def measured() -> Graph:
    """``w -> Exp -> Sin -> loss`` that ran, with gradients 7 and 42."""
    graph = graph_of("w -> Exp -> Sin -> loss")
    gradients: dict[int, tuple[TensorFigures, ...]] = {2: (scalar(7),), 1: (scalar(42),), 0: ()}
    nodes = [replace(node, gradients=gradients[node.id], run=NodeRun(2 - node.id)) for node in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


def strip_of(graph: Graph, look: StripLook | None = None, **options: object) -> tuple[ReplayStrip, int]:
    subject = subject_of(Capture(Program("train.py"), graphs=(graph,)), graph, view_options(options))
    replay = Replay(subject.graph, subject.view)
    steps = range(len(replay) + 1)
    return ReplayStrip(ReplayWords(subject, replay), look or StripLook(embed_font=False), steps), len(steps)


def states(markup: str) -> list[str]:
    """The states of the items of a frame, in the order of the graph, without the legend."""
    return re.findall(r'<g class="is-(\w+)"><g class="\w+" data-item', markup)


def test_a_strip_has_a_frame_for_the_forward_graph_and_each_step() -> None:
    strip, count = strip_of(measured())
    markup = strip.whole().markup
    ElementTree.fromstring(markup)
    assert re.findall(r'class="nt"[^>]*>(.*?)<', markup) == ["→", "1", "2", "3"]
    assert len(states(markup)) == count * 4


def test_each_frame_marks_what_runs_and_what_is_ready() -> None:
    strip, count = strip_of(measured())
    assert [states(strip.single(at).markup) for at in range(count)] == [
        ["ahead", "ahead", "ready", "runs"],
        ["ahead", "ready", "runs", "ran"],
        ["ready", "runs", "ran", "ran"],
        ["runs", "ran", "ran", "ran"],
    ]


def test_the_number_on_a_wire_appears_when_the_gradient_has_flowed() -> None:
    strip, count = strip_of(measured())
    numbers = [re.findall(r'<g class="gl"><text[^>]*>([\d.]+)<', strip.single(at).markup) for at in range(count)]
    assert [sorted(found) for found in numbers] == [[], ["7"], ["42", "7"], ["42", "7"]]
    wires = [re.findall(r'<path class="(carries|carried)"', strip.single(at).markup) for at in range(count)]
    assert [sorted(found) for found in wires] == [
        ["carries"],
        ["carried", "carries"],
        ["carried", "carried", "carries"],
        ["carried"] * 3,
    ]


def test_single_pictures_have_one_size() -> None:
    strip, count = strip_of(measured())
    assert len({(drawing.width, drawing.height) for drawing in map(strip.single, range(count))}) == 1


def test_too_many_steps_for_one_picture_are_refused_with_what_to_do() -> None:
    strip, count = strip_of(chain_graph(70), show_all=True)
    with pytest.raises(BadInput, match=f"{count} steps are too many for one picture") as refusal:
        strip.whole()
    assert "FOLDER/" in str(refusal.value.hint)


@pytest.mark.parametrize(("look", "wrong"), [({"direction": "up"}, "direction"), ({"theme": "pink"}, "theme")])
def test_an_unknown_look_is_refused(look: dict[str, str], wrong: str) -> None:
    with pytest.raises(BadInput, match=wrong):
        StripLook(**look)  # type: ignore[arg-type]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_can_be_read_on_what_runs_and_numbers_on_the_page(theme: ThemeName) -> None:
    rules = "".join(frame_strip.replay_rules({"light": LIGHT, "dark": DARK}[theme]))
    page = {"light": LIGHT, "dark": DARK}[theme].page
    fill = re.search(r"\.is-runs \.s\{fill:(#\w+)", rules)
    text = re.search(r"\.is-runs text.*?\{fill:(#\w+)", rules)
    number = re.search(r"\.gl text\{fill:(#\w+)", rules)
    assert fill and text and number
    assert contrast(fill[1], text[1]) >= 4.5
    assert contrast(page, number[1]) >= 4.5
    assert contrast(number[1], page) >= 4.5


def test_a_bar_is_above_its_letter_and_a_ring_has_its_own_position() -> None:
    line = FormulaLine("x̄ = ȳ ∘ b", 10)
    root = ElementTree.fromstring(line.markup(0, 0))
    assert "".join(root.itertext()).split() == ["x", "=", "y", "b"]
    (strokes,) = (path.get("d", "") for path in root.iter("path"))
    starts = [float(x) for x in re.findall(r"M([\d.]+)", strokes)]
    assert starts == sorted(starts)
    assert len(starts) == 3
    assert starts[0] < FormulaLine("x", 10).width


def test_indices_are_small_letters_below_and_above_the_line() -> None:
    (low, high) = (FormulaLine(words, 10).markup(0, 0) for words in ("y₁", "Aᵀ"))
    assert re.findall(r'y="([-\d.]+)"', low) == ["0", "2.2"]
    assert re.findall(r'y="([-\d.]+)"', high) == ["0", "-3.2"]


def test_other_accents_and_bars_without_a_letter_are_drawn() -> None:
    for words in ("café = ñ", "\u0304x", "A™"):
        root = ElementTree.fromstring(FormulaLine(words, 10).markup(0, 0))
        assert "".join(root.itertext()) == words.replace("\u0304", "")


def test_many_steps_are_laid_in_a_grid() -> None:
    (page,) = strip_of(chain_graph(12), show_all=True)[0].pages()
    assert page.height < 3 * page.width
