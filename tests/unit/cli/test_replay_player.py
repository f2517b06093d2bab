"""Keys of a replay in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import click
import pytest

from gradviz.capture.capture import Capture, Program
from gradviz.cli.player import player
from gradviz.cli.player.keys import Keys
from gradviz.cli.player.player import Player
from gradviz.cli.player.replay_session import ReplaySession
from gradviz.rendering.replay.step_text import TextLook
from gradviz.view.keywords import view_options
from tests.builders import graph_of

RIGHT, LEFT, HOME, END, ENTER, ESCAPE = "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F", "\r", "\x1b"

FIVE_STEPS = "w -> Mul -> Sin -> Sum -> loss; b -> Sin"

Press = Callable[..., list[str]]


@pytest.fixture
def press(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Press:
    """Shows a replay with these keys, and returns the first line of each screen, or the last line."""

    def play(
        *keys: str,
        graph: str = "w -> Mul -> Sin -> Sum -> loss; b -> Sin",
        steps: range | None = None,
        **options: object,
    ) -> list[str]:
        made, viewing = graph_of(graph), view_options(options)
        session = ReplaySession(
            Capture(Program("train.py"), graphs=(made,)), made, (), TextLook(width=80), has_own_width=True
        )
        words = session.words(viewing)
        waiting = iter((*keys, "q"))
        monkeypatch.setattr(player, "keys_of_terminal", lambda: nullcontext(Keys(lambda: next(waiting), lambda: False)))
        Player(session, viewing, words, steps or range(len(words.replay) + 1)).play()
        return [page.split("\n")[0] for page in capsys.readouterr().out.split("\x1b[H\x1b[2J")[1:]]

    return play


def test_keys_lead_on_and_back(press: Press) -> None:
    pages = press(RIGHT, "n", LEFT, "p", "p", END, HOME, " ")
    shown = [page.split("   ")[0] for page in pages]
    assert shown == ["forward", "step 1 of 5", "step 2 of 5", "step 1 of 5", "forward", "forward", "step 5 of 5",
                     "forward", "step 1 of 5"]  # fmt: skip


def test_a_number_leads_to_its_step(press: Press) -> None:
    assert press("g", "3", ENTER)[-1].startswith("step 3 of 5")
    assert press("g", "2", "1", "\x7f", ENTER)[-1].startswith("step 2 of 5")
    assert press("n", "g", "4", ESCAPE)[-1].startswith("step 1 of 5")


def test_a_search_leads_to_the_next_step_that_matches_and_round_again(press: Press) -> None:
    pages = press("/", *"mul", ENTER, "/", ENTER)
    assert [page.split("   ")[1] for page in pages[1:]] == ["mul", "mul"]
    assert press("/", *"sin", ENTER)[-1].split("   ")[1] == "sin"


def test_a_box_can_be_opened_where_it_runs_and_closed_again(press: Press) -> None:
    keys = ["/", *"sin", ENTER]
    graph = "w -> model.fc/Mul -> model.fc/Sin -> Sum -> loss; x -> model.fc/Mul"
    folded = press(*keys, graph=graph, depth=0)[-1]
    opened = press(*keys, "o", graph=graph, depth=0)[-1]
    closed = press(*keys, "o", "c", graph=graph, depth=0)[-1]
    assert folded.startswith("step 2 of 3   model   Model · 3 nodes")
    assert opened.startswith("step 2 of 3   model.fc   Fc · 3 nodes")
    assert closed == folded


def test_a_loop_without_a_name_is_opened_one_level_deeper(press: Press) -> None:
    graph = "w -> " + " -> ".join(f"{name}.{turn}" for turn in range(40) for name in ("Mul", "Sin", "Cos")) + " -> loss"
    *_, folded, opened = press("n", "n", "n", "o", graph=graph, depth=0)
    assert "×" in folded
    assert "×" not in opened


def test_only_the_steps_that_were_asked_for_are_played(press: Press) -> None:
    assert [page.split("   ")[0] for page in press(END, "n", HOME, "p", steps=range(2, 4))] == [
        "step 2 of 5", "step 3 of 5", "step 3 of 5", "step 2 of 5", "step 2 of 5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (("g", "9", ENTER), "there is no step 9: the steps are 0 to 5"),
        (("g", "x", ENTER), "'x' is not the number of a step"),
        (("/", *"conv", ENTER), "nothing in this graph matches 'conv'"),
        (("/", "(", ENTER), "is not a regular expression"),
        (("n", "o"), "this step is not a box"),
        (("o",), "no box runs before the first step"),
        (("c",), "no box is open that was opened here"),
        ((END, "n"), "this is the last step"),
        (("ß",), "keys: right n"),
    ],
)
def test_what_cannot_be_done_is_said_in_the_last_line(
    press: Press, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], message: str
) -> None:
    said: list[str] = []
    echo = click.echo

    def heard(text: str, **options: bool) -> None:
        said.append(text)
        echo(text, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(click, "echo", heard)
    press(*keys)
    assert any(message in text for text in said), said[-1]


def test_keys_that_arrive_together_all_count(press: Press) -> None:
    assert press(RIGHT * 3)[-1].startswith("step 3 of 5")
    assert press("g", "4\r", "p")[-1].startswith("step 3 of 5")


def test_the_code_of_a_key_may_arrive_in_parts() -> None:
    parts = iter(("\x1b", "[", "C" + LEFT, "n", ESCAPE))
    more = iter((True, True, False))
    keys = Keys(lambda: next(parts), lambda: next(more))
    assert [keys.next() for _ in range(4)] == [RIGHT, LEFT, "n", ESCAPE]


def test_the_end_of_the_input_is_no_key() -> None:
    with pytest.raises(EOFError):
        Keys(lambda: "", lambda: False).next()
