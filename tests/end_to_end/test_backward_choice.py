"""Which graph is recorded: of one backward call or several, of a variable, or of the tensors at the end."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.command import SAMPLES, SCRIPTS, Run, gradviz, python, refusal, written_script
from tests.shared_runs import SharedFolders

THREE = SCRIPTS / "three_backwards.py"
RESULTS = SCRIPTS / "many_results.py"

NODES_OF_STEP = {1: 3, 2: 4, 3: 5}
"""How many nodes each graph of `THREE` has: the leaf, the multiplications and the sum."""


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def sizes(folder: Path) -> dict[str, int]:
    """Number of nodes in every JSON file of a folder, by its name."""
    return {path.name: len(document(path)["graph"]["nodes"]) for path in folder.glob("*.json")}


def root_names(folder: Path) -> list[str]:
    (path,) = folder.glob("*.json")
    return [root["name"] for root in document(path)["graph"]["roots"]]


def render(*arguments: str | Path, cwd: Path) -> Run:
    return gradviz("render", "--format", "json", *arguments, cwd=cwd)


@pytest.fixture
def all_three(shared: SharedFolders) -> Path:
    """A capture of every backward call of `THREE`."""

    def fill(folder: Path) -> None:
        run = gradviz("record", "--backward", "all", "-o", "all.gradviz", THREE, cwd=folder)
        assert run.exit_code == 0, run.stderr
        assert "wrote all.gradviz: 3 graphs, 12 nodes" in run.stdout

    return shared.folder("all_three", fill) / "all.gradviz"


def test_a_derivative_without_parameters_names_the_way_to_the_next_call(tmp_path: Path) -> None:
    script = written_script(
        tmp_path,
        "import torch\n"
        "at = torch.randn(3, requires_grad=True)\n"
        "(force,) = torch.autograd.grad(at.square().sum(), at)\n"
        "layer = torch.nn.Linear(3, 1)\n"
        "layer(force).sum().backward()\n",
    )
    first, second = (render(*words, script, cwd=tmp_path) for words in ((), ("--backward", "2")))
    assert "no parameter is in it; --backward 2 draws the next call" in first.stdout
    assert "no parameter is in it" not in second.stdout
    assert "parameters reached" in second.stdout


def test_gradients_of_zero_before_the_first_step_name_the_way_to_the_next_call(tmp_path: Path) -> None:
    script = written_script(
        tmp_path,
        "import torch\n"
        "layer, last = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)\n"
        "torch.nn.init.zeros_(last.weight)\n"
        "optimizer = torch.optim.SGD([*layer.parameters(), *last.parameters()], lr=0.1)\n"
        "for step in range(2):\n"
        "    optimizer.zero_grad()\n"
        "    (last(layer(torch.randn(8, 3))) - 1).square().mean().backward()\n"
        "    optimizer.step()\n",
    )
    first, second = (render(*words, script, cwd=tmp_path) for words in ((), ("--backward", "2")))
    assert "2 of 4 parameters get a gradient of 0 in it" in first.stdout
    assert "--backward 2 draws the next call" in first.stdout
    assert "gradient of 0" not in second.stdout


def test_the_first_backward_is_drawn_and_ends_the_script(tmp_path: Path) -> None:
    run = render(THREE, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert sizes(tmp_path) == {"three_backwards.json": NODES_OF_STEP[1]}
    assert "did step" not in run.stdout
    assert "backward 1 at three_backwards.py:11; the script stopped after it" in run.stdout


def test_a_later_backward_can_be_chosen(tmp_path: Path) -> None:
    run = render("--backward", "2", THREE, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert sizes(tmp_path) == {"three_backwards.json": NODES_OF_STEP[2]}
    assert run.stdout.startswith("did step 1\nwrote ")
    assert "backward 2 at three_backwards.py:11" in run.stdout


def test_all_backwards_go_to_numbered_files(tmp_path: Path) -> None:
    run = render("--backward", "all", THREE, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert sizes(tmp_path) == {f"three_backwards-{step}.json": nodes for step, nodes in NODES_OF_STEP.items()}
    assert "the end\nwrote three_backwards-1.json\n" in run.stdout
    # Each picture is told about, not only the last one.
    assert [f"backward {step} at" in run.stdout for step in (1, 2, 3)] == [True, True, True]


def test_with_keep_going_the_script_runs_to_its_end(tmp_path: Path) -> None:
    run = render("--keep-going", THREE, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert sizes(tmp_path) == {"three_backwards.json": NODES_OF_STEP[1]}
    assert run.stdout.startswith("did step 1\ndid step 2\ndid step 3\nthe end\nwrote ")
    assert "the script ran to its end" in run.stdout


def test_a_number_beyond_the_last_backward_says_how_many_there_were(tmp_path: Path) -> None:
    run = render("--backward", "9", THREE, cwd=tmp_path)
    assert run.exit_code == 2
    (line,) = run.stderr.splitlines()
    assert line.startswith("gradviz: --backward 9: ")
    assert "only 3 times" in line
    assert "1 to 3" in line
    assert sizes(tmp_path) == {}


def test_a_capture_of_all_backwards_gives_the_same_files_as_the_script(all_three: Path, tmp_path: Path) -> None:
    run = render(all_three, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert sizes(tmp_path) == {f"all-{step}.json": nodes for step, nodes in NODES_OF_STEP.items()}


def test_one_backward_of_a_capture_can_be_chosen(all_three: Path, tmp_path: Path) -> None:
    assert render("--backward", "2", all_three, cwd=tmp_path).exit_code == 0
    assert sizes(tmp_path) == {"all.json": NODES_OF_STEP[2]}


def test_a_backward_that_a_capture_does_not_hold_is_refused_with_those_it_holds(
    all_three: Path, tmp_path: Path
) -> None:
    message = refusal(render("--backward", "7", all_three, cwd=tmp_path))
    assert "--backward 7" in message
    assert "1, 2, 3" in message
    assert sizes(tmp_path) == {}


def test_the_tree_of_several_graphs_says_which_is_which(all_three: Path, tmp_path: Path) -> None:
    run = gradviz("tree", all_three, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    headings = [line for line in run.stdout.splitlines() if line.startswith("backward ")]
    assert headings == ["backward 1", "backward 2", "backward 3"]


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "1.5", ""])
def test_what_is_no_number_of_a_backward_is_refused_before_the_script_runs(wrong: str, tmp_path: Path) -> None:
    message = refusal(render(f"--backward={wrong}", THREE, cwd=tmp_path))
    assert "--backward" in message
    assert "'all'" in message


def test_grad_counts_as_a_backward(tmp_path: Path) -> None:
    script = "import torch\nx = torch.ones(2, requires_grad=True)\n(slope,) = torch.autograd.grad(x.exp().sum(), x)\n"
    run = render(written_script(tmp_path, script), cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert "grad 1 at train.py:3" in run.stdout
    assert document(tmp_path / "train.json")["graph"]["backward"]["function"] == "grad"


def test_more_nodes_than_are_kept_at_once_end_the_recording_and_are_reported(tmp_path: Path) -> None:
    program = """
import sys
from functools import partial
from gradviz.cli.captures import program_run

program_run.RecordingPlan = partial(program_run.RecordingPlan, max_kept_nodes=7)
from gradviz.cli import main
main(sys.argv[1:])
"""
    run = python("-c", program, "render", "--format", "json", "--backward", "all", THREE, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert sizes(tmp_path) == {"three_backwards-1.json": 3, "three_backwards-2.json": 4}
    assert "did step 1\nwrote " in run.stdout, "there is nothing left to wait for"
    assert "2 graphs with 7 nodes were recorded" in run.stdout


@pytest.mark.parametrize(
    ("name", "roots", "nodes"),
    [
        ("logits", ["logits"], 3),
        ('out["logits"]', ["out['logits']"], 3),
        ("state.hidden", ["state.hidden"], 2),
        ("pair[1]", ["pair[1]"], 2),
        ("pair", ["pair[0]", "pair[1]"], 3),
    ],
)
def test_a_variable_of_the_script_can_be_the_root(name: str, roots: list[str], nodes: int, tmp_path: Path) -> None:
    run = render("--root", name, RESULTS, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert sizes(tmp_path) == {"many_results.json": nodes}
    assert [found.replace('"', "'") for found in root_names(tmp_path)] == roots


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("logit", ["'logit'", "did you mean 'logits'"]),
        ('out["los"]', ["los", "did you mean 'loss'"]),
        ("state.hiden", ["hiden", "did you mean 'hidden'"]),
        ("pair[5]", ["pair[5]", "5"]),
        ("epochs", ["epochs", "int", "not a tensor"]),
        ("without_graph", ["without_graph", "grad_fn"]),
        ("logits +", ["logits +", "not a name"]),
        ("print(1)", ["print(1)", "not a name"]),
    ],
)
def test_a_root_that_cannot_be_drawn_is_refused_in_one_line(name: str, words: list[str], tmp_path: Path) -> None:
    message = refusal(render("--root", name, RESULTS, cwd=tmp_path))
    assert [word for word in words if word not in message] == []
    assert sizes(tmp_path) == {}


def test_a_root_is_taken_at_the_end_though_the_script_calls_backward(tmp_path: Path) -> None:
    run = render("--root", "loss", THREE, cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert run.stdout.startswith("did step 1\ndid step 2\ndid step 3\nthe end\n")
    assert sizes(tmp_path) == {"three_backwards.json": NODES_OF_STEP[3]}


def test_without_backward_the_graph_is_that_of_the_tensors_left_at_the_end(tmp_path: Path) -> None:
    run = render(SAMPLES / "no_backward.py", cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    assert root_names(tmp_path) == ["mean", "spread"]
    assert "graph of mean, spread; the script ran to its end" in run.stdout


@pytest.mark.parametrize("script", ["import torch\nx = torch.ones(2) * 2\n", "import torch\n"])
def test_a_script_without_any_graph_is_reported_in_one_line(script: str, tmp_path: Path) -> None:
    message = refusal(render(written_script(tmp_path, script), cwd=tmp_path))
    assert "backward()" in message
    assert sizes(tmp_path) == {}


def test_a_script_that_never_imports_torch_is_reported_in_one_line(tmp_path: Path) -> None:
    message = refusal(render(written_script(tmp_path, "x = 1\n"), cwd=tmp_path))
    assert "never imported torch" in message


@pytest.mark.parametrize("option", [("--root", "loss"), ("--keep-going",)])
def test_what_needs_a_script_to_run_is_refused_for_a_capture(
    option: tuple[str, ...], all_three: Path, tmp_path: Path
) -> None:
    message = refusal(render(*option, all_three, cwd=tmp_path))
    assert option[0] in message
    assert "is a recording" in message


def test_the_commands_that_gradviz_suggests_work_when_pasted(tmp_path: Path) -> None:
    """Also if the script was called with options, arguments and a name that needs quotes in a shell."""
    script = written_script(tmp_path, THREE.read_text(), "my train.py")
    run = render("--backward", "2", script, "--", "--lr", "a b", cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("next:")]
    words = shlex.split(line.removeprefix("next:").strip())
    assert words[:2] == ["gradviz", "tree"]
    tree = gradviz(*words[1:], cwd=tmp_path)
    assert tree.exit_code == 0, tree.stderr
    assert f"{NODES_OF_STEP[2]} autograd nodes" in tree.stdout
