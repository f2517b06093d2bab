"""``gradviz check``, as users and build servers call it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gradviz.capture.capture_file import read_capture
from gradviz.recording.torch_access.allocators import bytes_from_malloc
from tests.end_to_end.command import gradviz, installed_gradviz, installed_python, refusal, written_script

VANISHING = """
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(*[layer for _ in range(14) for layer in (torch.nn.Linear(8, 8), torch.nn.Sigmoid())])
print("training")
loss = net(torch.randn(4, 8)).sum()
loss.backward()
"""
HEALTHY = VANISHING.replace("range(14)", "range(2)")


def test_a_finding_names_the_operation_and_the_line_and_the_exit_code_is_1(tmp_path: Path) -> None:
    run = gradviz("check", written_script(tmp_path, VANISHING), cwd=tmp_path)
    assert run.exit_code == 1
    assert "warning GV204 vanishing_chain train.py:5" in run.stdout  # where the sigmoids are made
    assert "14 x SigmoidBackward0" in run.stdout
    assert "train.py:7: loss = net(torch.randn(4, 8)).sum()" in run.stdout
    assert run.stderr == "training\n"


def test_a_healthy_script_gets_a_clean_report_that_says_what_was_checked(tmp_path: Path) -> None:
    run = gradviz("check", written_script(tmp_path, HEALTHY), cwd=tmp_path)
    assert run.exit_code == 0
    assert "nothing wrong found" in run.stdout
    assert "4 parameters, all reached" in run.stdout


def test_a_capture_is_checked_like_its_script(tmp_path: Path) -> None:
    script = written_script(tmp_path, VANISHING)
    gradviz("check", script, "-o", "run.gradviz", cwd=tmp_path)
    from_script = gradviz("check", script, "--format", "json", cwd=tmp_path)
    from_capture = gradviz("check", "run.gradviz", "--format", "json", cwd=tmp_path)
    assert json.loads(from_capture.stdout)["findings"] == json.loads(from_script.stdout)["findings"]


@pytest.mark.parametrize(
    ("options", "exit_code"),
    [
        (["--fail-on", "error"], 0),
        (["--fail-on", "never"], 0),
        (["--fail-on", "note"], 1),
        (["--ignore", "GV2"], 0),
        (["--select", "exploding_chain"], 0),
    ],
)
def test_what_counts_as_a_failure_is_the_users_choice(options: list[str], exit_code: int, tmp_path: Path) -> None:
    run = gradviz("check", written_script(tmp_path, VANISHING), *options, cwd=tmp_path)
    assert run.exit_code == exit_code
    chooses_rules = not {"--select", "--ignore"}.isdisjoint(options)
    assert ("rules ran" in run.stdout) == chooses_rules, "a bill is only as clean as what was looked for"


def test_only_new_findings_count_beside_a_baseline(tmp_path: Path) -> None:
    script = written_script(tmp_path, VANISHING)
    kept = ("--write-baseline", "known.json", "-o", "run.gradviz")
    assert gradviz("check", script, *kept, cwd=tmp_path).exit_code == 1
    for source in (script, "run.gradviz"):
        run = gradviz("check", source, "--baseline", "known.json", cwd=tmp_path)
        assert run.exit_code == 0
        assert "left out: 1 finding in the baseline" in run.stdout


def test_what_compiles_code_is_not_loaded_for_a_script_that_compiles_none(tmp_path: Path) -> None:
    """It takes seconds, each time."""
    script = written_script(
        tmp_path,
        "import sys, torch\n"
        "torch.ones(3, requires_grad=True).exp().sum().backward()\n"
        "print('loaded:', {'torch._dynamo', 'torch._functorch.aot_autograd'} & set(sys.modules))\n",
    )
    plain = installed_python(script, cwd=tmp_path).stdout
    assert plain in installed_gradviz("check", script, cwd=tmp_path).stderr


def test_a_script_that_raises_gets_its_own_traceback_first(tmp_path: Path) -> None:
    run = gradviz("check", written_script(tmp_path, VANISHING + "raise ValueError('mine')\n"), cwd=tmp_path)
    assert run.exit_code == 1
    assert "ValueError: mine" in run.stderr
    assert "vanishing_chain" in run.stdout


def test_a_script_that_raises_early_is_told_that_nothing_was_checked(tmp_path: Path) -> None:
    run = gradviz("check", written_script(tmp_path, "import torch\nraise ValueError('mine')\n"), cwd=tmp_path)
    assert run.exit_code == 1
    assert run.stdout == "train.py: it raised ValueError before any backward(): there was nothing to check\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--select", "GV2O4"], "no rule 'GV2O4'"),
        (["--format", "xml"], "unknown format 'xml'"),
        (["--fail-on", "fatal"], "unknown severity for --fail-on 'fatal'"),
        (["--baseline", "missing.json"], "cannot read the baseline missing.json"),
        (["-o", "-"], "standard output is for the findings"),
        (["-o", "net.jpg"], "ends in '.jpg', which is not a known format"),
        (["--steps", "0"], "steps = 0 is not a number of steps"),
        (["--seconds", "-1"], "seconds = -1 is not a duration"),
        (["--max-saved", "2XB"], "max-saved '2XB' is not a size"),
    ],
)
def test_bad_options_are_refused_before_the_script_runs(options: list[str], words: str, tmp_path: Path) -> None:
    run = gradviz("check", written_script(tmp_path, VANISHING), *options, cwd=tmp_path)
    assert words in refusal(run)
    assert "training" not in run.stderr


ENDLESS = """
import torch

def train():
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        net(torch.ones(3, 2)).sum().backward()
        optimizer.step()

train()
"""


def test_a_script_that_trains_on_and_on_is_stopped_and_the_report_says_where(tmp_path: Path) -> None:
    run = gradviz("check", written_script(tmp_path, ENDLESS), "--steps", "3", "--width", "200", cwd=tmp_path)
    assert run.exit_code == 0
    assert "the script was stopped after 3 steps at train.py:10" in run.stdout
    assert "3 backward calls" in run.stdout


def test_seconds_stop_it_too_and_can_be_in_the_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.gradviz]\nseconds = 0.5\n", encoding="utf-8")
    run = gradviz("check", written_script(tmp_path, ENDLESS), "--width", "200", cwd=tmp_path)
    assert "the script was stopped 0.5 s past its first backward at train.py:" in run.stdout


def test_a_script_without_any_backward_is_reported(tmp_path: Path) -> None:
    text = "import torch\nnet = torch.nn.Linear(2, 1)\nprint(net(torch.ones(3, 2)).detach())\n"
    run = gradviz("check", written_script(tmp_path, text), cwd=tmp_path)
    assert run.exit_code == 2
    assert "train.py: nothing to check" in run.stdout
    assert "no backward() ran, so no gradient could be checked" in run.stdout
    assert gradviz("check", "train.py", "--allow-empty", cwd=tmp_path).exit_code == 0


def installed_package(folder: Path, entry_point: str, code: str) -> dict[str, str]:
    """A package ``house`` with rules, as pip would install it; returns the environment that has it."""
    (folder / "house.py").write_text(code, encoding="utf-8")
    facts = folder / "house-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n", encoding="utf-8")
    (facts / "entry_points.txt").write_text(f"[gradviz.rules]\n{entry_point}\n", encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


HOUSE_RULE = """
from gradviz.analysis.rule import Rule

class Quiet(Rule):
    '''Every script is reported.'''
    code, name, severity = "HOUSE1", "house_style", "warning"
    def check(self, case):
        yield self.finding(f"{case.capture.backward_calls} backward calls are too many")

class Broken(Quiet):
    code, name = "HOUSE2", "house_names"
    def check(self, case):
        raise KeyError("mask")
"""


def test_a_rule_of_another_package_runs_beside_ours_and_one_that_raises_is_reported_as_such(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    env = installed_package(site, "a = house:Quiet\nb = house:Broken\nc = house:Missing", HOUSE_RULE)
    run = gradviz("check", written_script(tmp_path, HEALTHY), "--width", "200", cwd=tmp_path, env=env)
    assert "warning HOUSE1 house_style" in run.stdout
    assert "1 backward calls are too many" in run.stdout
    assert "rule HOUSE2 (house_names) of house failed: KeyError: 'mask'" in run.stdout
    assert "the rules house:Missing of house cannot be used" in run.stdout
    assert gradviz("check", "train.py", "--ignore", "HOUSE1", cwd=tmp_path, env=env).exit_code == 0


def test_the_rules_are_listed_and_each_has_a_page(tmp_path: Path) -> None:
    listing = gradviz("rules", "--width", "60", cwd=tmp_path).stdout
    assert "GV204  vanishing_chain" in listing
    assert max(map(len, listing.splitlines())) <= 60
    page = gradviz("rules", "vanishing_chain", cwd=tmp_path).stdout
    assert page.startswith("GV204 vanishing_chain (warning)")
    assert "What it finds" in page and "Instead" in page
    assert "no rule 'vanishing_chian'" in refusal(gradviz("rules", "vanishing_chian", cwd=tmp_path))


def test_findings_are_drawn_on_the_graph_and_the_run_can_be_kept_and_checked_again(tmp_path: Path) -> None:
    script = written_script(tmp_path, VANISHING)
    first = gradviz("check", script, "-o", "net.svg", "-o", "run.gradviz", "--format", "json", cwd=tmp_path)
    assert "GV204 vanishing_chain" in (tmp_path / "net.svg").read_text(encoding="utf-8")
    again = gradviz("check", "run.gradviz", "--format", "json", cwd=tmp_path)
    assert json.loads(again.stdout)["findings"] == json.loads(first.stdout)["findings"]
    assert "✗ GV204 vanishing_chain" in gradviz("tree", "run.gradviz", cwd=tmp_path).stdout
    assert "GV204" not in gradviz("tree", "run.gradviz", "--no-check", cwd=tmp_path).stdout


CUT_IN_THE_SECOND_STEP = """
import torch

body, head = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
head(torch.ones(2, 3)).sum().backward()
head(body(torch.ones(2, 3)).detach()).sum().backward()
optimizer.step()
print("done")
"""


def test_other_commands_run_a_script_as_a_check_does_and_draw_the_graph_with_what_it_finds(tmp_path: Path) -> None:
    script = written_script(tmp_path, CUT_IN_THE_SECOND_STEP)
    run = gradviz("tree", script, "--check", cwd=tmp_path)
    assert run.exit_code == 0
    assert "┄ detach" in run.stdout and "⊘ body.weight and 1 more" in run.stdout
    assert "backward()" in run.stdout and "train.py:7" in run.stdout, "the graph with the cut is drawn"
    assert "note: ✗ GV101 detached (train.py:7): no gradient for body.weight and body.bias" in run.stdout
    assert "1 more backward call is recorded" in run.text
    assert run.stderr == "done\n"


def test_a_kept_check_has_what_pictures_and_reports_of_memory_show(tmp_path: Path) -> None:
    gradviz("check", written_script(tmp_path, HEALTHY), "-o", "run.gradviz", cwd=tmp_path)
    (graph,) = read_capture((tmp_path / "run.gradviz").read_bytes(), "run.gradviz").graphs
    assert any(facts.histogram for node in graph.nodes for facts in node.gradients if facts is not None)
    assert bool(graph.allocators) is (bytes_from_malloc() is not None)


def test_of_a_kept_check_one_graph_is_drawn_and_the_others_are_named(tmp_path: Path) -> None:
    gradviz("check", written_script(tmp_path, CUT_IN_THE_SECOND_STEP), "-o", "run.gradviz", cwd=tmp_path)
    run = gradviz("render", "run.gradviz", "-o", "net.svg", cwd=tmp_path)
    assert "backward 2 at train.py:7" in run.stdout
    assert "1 more backward call is recorded (--backward N draws one of them, --backward all each)" in run.stdout
    assert {path.name for path in tmp_path.glob("*.svg")} == {"net.svg"}
    gradviz("render", "run.gradviz", "--backward", "all", "-o", "net.svg", cwd=tmp_path)
    assert {path.name for path in tmp_path.glob("*.svg")} == {"net.svg", "net-1.svg", "net-2.svg"}


@pytest.mark.parametrize("option", ["--no-gradients", "--root=loss"])
def test_what_a_check_needs_cannot_be_left_out_of_it(option: str, tmp_path: Path) -> None:
    run = gradviz("render", written_script(tmp_path, VANISHING), "--check", option, cwd=tmp_path)
    assert f"{option.partition('=')[0]} and --check exclude each other" in refusal(run)


def test_why_answers_for_one_parameter_and_frozen_ones_count_as_errors_on_request(tmp_path: Path) -> None:
    script = written_script(tmp_path, HEALTHY.replace("loss =", "net[0].requires_grad_(False)\nloss ="))
    gradviz("check", script, "-o", "run.gradviz", cwd=tmp_path)
    answer = gradviz("check", "run.gradviz", "--why", "net.0.bias", cwd=tmp_path).stdout
    assert answer.startswith("net.0.bias gets no gradient: it does not require grad\n    train.py:7: net[0]")
    as_data = json.loads(gradviz("check", "run.gradviz", "--why", "0.bias", "--format", "json", cwd=tmp_path).stdout)
    assert (as_data["name"], as_data["kind"], as_data["decided_at"]["line"]) == ("net.0.bias", "frozen", 7)
    assert "not sarif" in refusal(gradviz("check", "run.gradviz", "--why", "0.bias", "--format", "sarif", cwd=tmp_path))
    missing = refusal(gradviz("check", "run.gradviz", "--why", "net.0.bios", cwd=tmp_path))
    assert "'net.0.bias'" in missing
    strict = gradviz("check", "run.gradviz", "--all-params-get-grad", cwd=tmp_path)
    assert strict.exit_code == 1
    assert "4 parameters: 2 reached, 2 frozen at train.py:7" in strict.stdout


def test_a_picture_that_cannot_be_drawn_does_not_cost_the_findings(tmp_path: Path) -> None:
    text = "import torch\nw = torch.ones(2, requires_grad=True)\ntorch.optim.SGD([w], lr=0.1).step()\n"
    run = gradviz("check", written_script(tmp_path, text), "-o", "net.svg", cwd=tmp_path)
    assert "GV110 no_backward train.py:3" in run.stdout
    assert "has no graph to draw" in run.stderr
    assert not (tmp_path / "net.svg").exists()


def test_an_optimizer_that_steps_without_any_backward_is_found(tmp_path: Path) -> None:
    text = ENDLESS.replace(".sum().backward()", ".sum()")
    run = gradviz("check", written_script(tmp_path, text.replace("while True", "for _ in range(3)")), cwd=tmp_path)
    assert "error GV110 no_backward train.py:10" in run.stdout
    assert "torch.optim.SGD.step() ran 3 times and changed nothing" in run.stdout
