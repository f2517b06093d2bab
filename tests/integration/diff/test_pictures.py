"""Pictures of two runs: what only one of them has or what changed is marked in words, and the rest is folded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gradviz
from gradviz.cli import run
from gradviz.graph.invariants import check_graph
from gradviz.rendering.difference_picture import difference_subject
from gradviz.rendering.formats import Subject, format_named
from gradviz.view.invariants import check_view
from tests.integration.diff import pairs
from tests.integration.diff.pairs import block_step, recorded


class Layer(nn.Module):
    def __init__(self, eps: float, *, has_activation: bool) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16, eps=eps), nn.Linear(16, 16), nn.Linear(16, 16)
        self.act = nn.ReLU() if has_activation else nn.Identity()

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.down(self.act(self.up(self.norm(x))))


def layers_step(count: int = 12, *, other_eps_at: int = -1, no_activation_at: int = -1) -> pairs.Step:
    """A step of a row of layers, of which one may differ."""

    def step() -> Any:
        layers = [
            Layer(1e-6 if index == other_eps_at else 1e-5, has_activation=index != no_activation_at)
            for index in range(count)
        ]
        model = nn.Sequential(*layers)
        return model(torch.randn(2, 5, 16)).square().mean()

    return step


def subject_of(one: pairs.Step, other: pairs.Step) -> Subject:
    """What is drawn of the two; its graph and view keep to what holds for all."""
    subject = difference_subject(gradviz.diff(recorded(one), recorded(other)).compared)
    check_graph(subject.graph)
    check_view(subject.view, subject.graph)
    return subject


def badges(subject: Subject) -> list[str]:
    """Every badge of the picture, with the title above it."""
    markup = str(format_named("svg").renderer().render(subject))
    found = re.findall(r'<g class="[a-z_ ]+" data-item.*?</g>\n', markup, re.DOTALL)
    words = (re.findall(r"<text[^>]*>([^<]*)", each.partition("</title>")[2]) for each in found)
    return [f"{each[0]}: {each[-1]}" for each in words if any(word in each[-1] for word in ("only in", "changed"))]


def test_a_changed_argument_is_marked_and_the_alike_layers_around_it_stay_folded() -> None:
    subject = subject_of(layers_step(), layers_step(other_eps_at=5))
    assert badges(subject) == ["layer_norm: ✗ first difference: changed"]
    assert sorted(item.repeat for item in subject.view.items if item.kind == "box" and item.repeat > 1) == [5, 6]
    markup = str(format_named("svg").renderer().render(subject))
    assert "eps is 1e-05 in A, 1e-06 in B" in markup and "--" not in "".join(subject.view.notes)
    assert "the same in both" in markup and "+ only in B" not in markup  # the legend


def test_an_inserted_layer_is_one_marked_box_and_the_rest_stays_folded() -> None:
    def step(*, has_one_more: bool) -> Any:
        before = (pairs.Block(), pairs.Block(is_post_norm=True), pairs.Block(is_scaled=False))
        last = pairs.Block(approximate="tanh")
        inserted = [Layer(1e-5, has_activation=True)] if has_one_more else []
        model = nn.Sequential(*before, *inserted, last)
        torch.manual_seed(1)
        return model(torch.randn(2, 5, 16)).square().mean()

    subject = subject_of(lambda: step(has_one_more=False), lambda: step(has_one_more=True))
    assert badges(subject) == ["layer: ✗ first difference: only in B"]
    assert sum(item.is_open for item in subject.view.items) == 1  # what both have stays folded


def test_a_removed_activation_is_drawn_between_its_neighbours() -> None:
    subject = subject_of(layers_step(), layers_step(no_activation_at=4))
    assert badges(subject) == ["relu: ✗ first difference: only in A"]
    graph = subject.graph
    assert subject.marks is not None
    (relu,) = subject.marks.of_nodes
    users = [node.name for node in graph.nodes if any(edge is not None and edge.target == relu for edge in node.edges)]
    (source,) = [edge for edge in graph.nodes[relu].edges if edge is not None]
    last_of_linear = nn.Linear(16, 16)(torch.ones(2, 5, 16)).grad_fn  # a view, of another name since torch 2.14 or 2.15
    assert last_of_linear is not None
    assert users == ["AddmmBackward0"] and graph.nodes[source.target].name == last_of_linear.name()


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (block_step(), []),
        (pairs.compiled_step(), []),
        (block_step(is_post_norm=True), ["layer_norm: ✗ first difference: changed"]),
        (block_step(dropout=0.1), ["dropout: ✗ first difference: only in B"]),
    ],
    ids=["the same", "compiled", "reordered", "one more operation"],
)
def test_only_what_differs_is_marked(other: pairs.Step, expected: list[str]) -> None:
    assert badges(subject_of(block_step(), other)) == expected


def test_autocast_changes_operations_and_no_parameter() -> None:
    found = badges(subject_of(block_step(), pairs.autocast_step))
    assert "linear: ✗ first difference: changed" in found
    assert not [badge for badge in found if badge.startswith("parameter") or "only in" in badge]


def test_the_command_draws_pictures_and_refuses_what_it_cannot_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, step in (("a", layers_step(2)), ("b", layers_step(2, other_eps_at=1))):
        recorded(step).save(tmp_path / f"{name}.gradviz")
    both = [str(tmp_path / "a.gradviz"), str(tmp_path / "b.gradviz")]
    for suffix, beginning in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("html", b"<!doctype html>")):
        assert run(["diff", *both, "-o", str(tmp_path / f"d.{suffix}")]) == 1
        assert "Where it began" in capsys.readouterr().out
        written = (tmp_path / f"d.{suffix}").read_bytes()
        assert written.startswith(beginning)
        if suffix in ("svg", "html"):
            saved = gradviz.diff(*both).save(tmp_path / f"saved.{suffix}")
            assert saved.read_bytes() == written
    for output, message in (
        ("d.json", "diff draws no json"),
        ("d.xyz", "not a known format"),
        ("-", "standard output"),
    ):
        assert run(["diff", *both, "-o", output if output == "-" else str(tmp_path / output)]) == 2
        printed = capsys.readouterr()
        assert message in printed.err and printed.err.count("\n") == 1 and not printed.out
        assert not (tmp_path / output).exists()
