"""Options that select a part of a real script's graph, or other boxes."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.end_to_end.command import gradviz, refused, written_script

SCRIPT = """
import torch

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x
    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient

def attend(x, w):
    scores = torch.softmax(x @ w, dim=-1)
    return Doubled.apply(scores * x)

def main():
    torch.manual_seed(0)
    fc = torch.nn.Linear(4, 4)
    w = torch.randn(4, 4, requires_grad=True)
    inputs, target = torch.randn(3, 4), torch.randn(3, 4)
    hidden = attend(inputs, w)
    loss = (fc(hidden) - target).pow(2).mean()
    loss.backward()

main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("selection")
    script = written_script(folder, SCRIPT)
    assert gradviz("record", script, "-o", "run.gradviz", cwd=folder).exit_code == 0
    return folder


def tree(folder: Path, *options: str) -> str:
    run = gradviz("tree", "run.gradviz", "--width", "100", *options, cwd=folder)
    assert run.exit_code == 0, run.stderr
    return run.stdout


def test_a_path_leaves_only_what_lies_between_and_says_so(folder: Path) -> None:
    shown = tree(folder, "--path", "softmax", "fc")
    assert all(word in shown for word in ("softmax", "Doubled", "linear"))
    assert not any(word in shown for word in ("fc.weight", "matmul", "mean", "◆ loss"))
    assert "those on a path between 'softmax' and 'fc' (--path)" in shown


def test_json_holds_the_selected_part_of_the_graph(folder: Path) -> None:
    run = gradviz("render", "run.gradviz", "-o", "-", "--format", "json", "--hide", "fc|pow", cwd=folder)
    names = [node["name"] for node in json.loads(run.stdout)["graph"]["nodes"]]
    assert "PowBackward0" not in names
    assert "AddmmBackward0" not in names
    assert "SoftmaxBackward0" in names


def test_functions_of_the_script_are_boxes_when_asked_for(folder: Path) -> None:
    line = SCRIPT.splitlines().index("    hidden = attend(inputs, w)") + 1
    assert f"in attend() (called at train.py:{line})" in tree(folder, "--group-by", "function")
    assert "scores = torch.softmax(x @ w, dim=-1)" in tree(folder, "--group-by", "line")


def test_a_summary_of_a_part_does_not_say_that_parameters_are_not_reached(folder: Path) -> None:
    part = gradviz("render", "run.gradviz", "-o", "part.svg", "--around", "softmax", cwd=folder)
    assert part.exit_code == 0
    assert "reached" not in part.stdout


IN_A_LIST = """
import torch
class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.others = [torch.nn.Linear(4, 4) for _ in range(2)]
    def forward(self, x):
        for layer in (self.first, *self.others):
            x = torch.tanh(layer(x))
        return x
model = Stack()
model(torch.ones(2, 4)).sum().backward()
"""


def test_a_summary_counts_parameters_that_no_module_has_registered(tmp_path: Path) -> None:
    said = gradviz("render", written_script(tmp_path, IN_A_LIST), "-o", "net.svg", cwd=tmp_path).stdout
    assert "2 of 2 parameters reached; 4 more in the graph are in no known module's parameters()" in said
    registered = IN_A_LIST.replace(
        "[torch.nn.Linear(4, 4) for _ in range(2)]", "torch.nn.ModuleList([torch.nn.Linear(4, 4)])"
    )
    said = gradviz("render", written_script(tmp_path, registered), "-o", "net.svg", cwd=tmp_path).stdout
    assert "4 of 4 parameters reached\n" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--hide", "("], "'(' is not a regular expression: missing ), unterminated subpattern"),
        (["--group-by", "functions"], "cannot group by 'functions'; did you mean 'function'?"),
        (["--radius", "2"], "needs a middle; name the middle with --around NAME"),
        (["--all", "--depth", "0"], "--all folds nothing, and --depth asks to fold; leave out one of the two"),
        (["--all", "--fold", "fc"], "--all folds nothing, and --fold asks to fold; leave out one of the two"),
        (["--find", ""], "an empty expression matches everything; write a word or a regular expression"),
        (["--wdth", "3"], "no such option '--wdth'; did you mean '--width' or "),
        (["--lr", "3"], "arguments of the script itself go after --"),
    ],
)
def test_wrong_options_are_reported_before_the_script_runs(options: list[str], words: str, folder: Path) -> None:
    (folder / "prints.py").write_text("print('I ran')")
    assert words in refused("tree", "prints.py", *options, cwd=folder)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--around", "sofmax"], "nothing in this graph is named 'sofmax'; did you mean 'softmax'"),
        (["--path", "fc.weight", "w"], "no path leads from 'fc.weight' to 'w' or back"),
        (["--unfold", "fcc"], "no box is named 'fcc'; did you mean 'fc'?"),
    ],
)
def test_names_that_fit_nothing_are_reported_in_one_line(options: list[str], words: str, folder: Path) -> None:
    assert words in refused("tree", "run.gradviz", *options, cwd=folder)


def test_of_several_graphs_those_are_shown_that_have_the_name(tmp_path: Path) -> None:
    script = """
        import torch
        w = torch.ones(2, requires_grad=True)
        first = (w * 2).sum()
        first.backward()
        second = w.exp().sum()
        second.backward()
    """
    written_script(tmp_path, dedent(script))
    record = gradviz("record", "train.py", "--backward", "all", cwd=tmp_path)
    assert record.exit_code == 0, record.stderr
    shown = gradviz("tree", "train.gradviz", "--from", "second", cwd=tmp_path)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.startswith("backward 1\nnothing in this graph is named 'second'\n\nbackward 2\n")
    assert "ExpBackward0" in shown.stdout
    drawn = gradviz("render", "train.gradviz", "--around", "second", "--format", "json", cwd=tmp_path)
    assert drawn.exit_code == 0, drawn.stderr
    assert drawn.stderr == "gradviz: backward 1 is not drawn: nothing in this graph is named 'second'\n"
    assert [path.name for path in tmp_path.glob("*.json")] == ["train.json"]
    message = refused("tree", "train.gradviz", "--around", "third", cwd=tmp_path)
    assert message.startswith("nothing in this graph is named 'third'; ")
