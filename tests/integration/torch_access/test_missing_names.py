"""Whatever torch lacks, the program runs as it would alone, the loss is told, and nothing else is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gradviz.recording.torch_access.capabilities import CAPABILITIES, Capability, try_all
from tests.end_to_end.command import GRADVIZ, forked, python
from tests.shared_runs import SharedFolders

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAM = HERE / "child_programs" / "step.py"

ALSO_LOST: dict[str, set[str]] = {
    "identity of storages": {"storages", "constants"},
    "versions of tensors": {"saved"},
    "shapes of results": {"outputs"},
    "classes of custom functions": {"kind", "custom_functions", "findings", "unplaced_findings"},
    "custom functions": {"call_site", "forward_call", "module", "constants", "findings"},
    "slots of nodes": {"attributes", "saved", "storages", "allocators", "kind", "knows_saved_tensors"},
    "saved tensors": {"saved", "storages", "allocators", "kind", "knows_saved_tensors"},
    "checkpointing": {"kind"},
    "records of checkpoints": {"saved", "storages"},
    "hooks of leaves": {"hooks", "before_hooks"},
    "identity of tensors": {"findings"},
}
"""What the loss of a capability may change in the graph or in the findings besides what is disclosed."""

OTHER_WAYS = {
    "Node._raw_saved_",
    "Node._saved_",
    "_CheckpointFrame.saved_args",
    "_CheckpointFrame.input_saver",
    "torch._C._autograd._top_saved_tensors_default_hooks",
}
"""Each of them is one of two ways to the same: other releases of torch have the other one. Without one of them the
capability may remain; then nothing at all may be lost."""

NAMES = [(capability, name) for capability in CAPABILITIES for name in capability.names]


class Run:
    """``gradviz check`` of the program, on a torch without one name."""

    def __init__(self, lacking: str, folder: Path) -> None:
        drawing = folder / "graph.json"
        done = forked(
            "tests.integration.torch_access.child:run_gradviz",
            *(GRADVIZ, lacking, "check", "--format", "json", "-o", drawing, PROGRAM),
            cwd=folder,
        )
        self.exit_code = done.exit_code
        self.standard_error = done.stderr
        self.program_output = done.stderr if "{" not in done.stdout else done.stdout
        self.report: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :]) if "{" in done.stdout else {}
        self.printed = done.stdout.partition("{")[0] + done.stderr
        self.graph: dict[str, Any] = _with_lines(json.loads(drawing.read_text())["graph"]) if drawing.exists() else {}

    def numbers(self) -> list[str]:
        """What the program printed."""
        return [line for line in self.printed.splitlines() if line[:1].isdigit()]


def _with_lines(graph: dict[str, Any]) -> dict[str, Any]:
    """The graph with each line where its index stood, because a line that is lost moves the others."""
    sites = graph.pop("call_sites")
    for each in (graph["backward"], *graph["nodes"]):
        if each.get("call_site") is not None:
            each["call_site"] = sites[each["call_site"]]
    return graph


@cache
def complete(folder: Path) -> Run:
    return Run("-", folder)


@cache
def alone() -> list[str]:
    done = python(PROGRAM, cwd=HERE)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.splitlines()


def lost_in(run: Run, whole: Run) -> set[str]:
    """Fields that differ: of nodes, of the graph, of the report."""
    fields = {key for key in whole.graph if key != "nodes" and run.graph.get(key) != whole.graph[key]}
    nodes = zip(run.graph["nodes"], whole.graph["nodes"], strict=True)
    fields |= {key for mine, theirs in nodes for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)}
    return fields | {key for key in ("findings",) if run.report[key] != whole.report[key]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return complete(tmp_path_factory.mktemp("whole"))


def test_with_all_names_nothing_is_missing(whole: Run) -> None:
    assert whole.report["disclosures"] == []
    assert whole.report["not_looked_for"] == []
    assert whole.numbers() == alone()


@pytest.mark.parametrize(("capability", "name"), NAMES, ids=[f"{each.name}-{name}" for each, name in NAMES])
def test_a_missing_name_costs_what_is_told_and_no_more(
    capability: Capability, name: str, whole: Run, tmp_path: Path
) -> None:
    run = Run(name, tmp_path)
    assert run.numbers() == alone()
    if capability.is_essential:
        assert run.exit_code == 2, run.printed
        assert "cannot be recorded: it does not report" in run.standard_error
        return
    # The custom function of the program is wrong; where calls of such functions are not seen, nobody looked.
    is_found = any(each["severity"] == "error" for each in run.report["findings"])
    assert run.exit_code == int(is_found), run.printed
    told = " ".join(run.report["disclosures"])
    assert "defect" not in told
    assert "made before the recording began" not in told  # that would be a wrong reason
    losing = [each for each in CAPABILITIES if each.lost and f"does not report {each.lost}" in told]
    has_another_way = capability.name == "custom functions" or name in OTHER_WAYS
    is_used = capability.name not in NOT_USED_HERE and capability.name not in NOT_USED_BY_ONE_PROCESS
    if is_used and not has_another_way and capability.lost:
        assert capability in losing
    allowed = {field for each in losing for field in ALSO_LOST.get(each.name, ())}
    assert lost_in(run, whole) <= allowed
    blind = {each["code"] for each in run.report["not_looked_for"]}
    assert {each["code"] for each in whole.report["findings"]} - {
        each["code"] for each in run.report["findings"]
    } <= blind


NOT_USED_HERE = {
    "failed nodes",
    "compiled code",
    "graphs of compiled code",
    "compiled modules",
    "strict export",
    "backward of compiled code",
}
"""What is only tried when a backward raises, or Dynamo is loaded: another program does that."""

NOT_USED_BY_ONE_PROCESS = {"flight recorder"}

COMPILED = HERE / "child_programs" / "compiled_step.py"
NAMES_USED_THERE = [(capability, name) for capability, name in NAMES if capability.name in NOT_USED_HERE]


NEEDED_ELSEWHERE = {
    "torch.nn.modules.module._has_any_global_hook": "to keep Dynamo from warning of hooks of gradviz",
    "torch._inductor.config.fallback_random": "to run code of inductor that draws random numbers a second time",
}
"""Names without which nothing is lost here."""


@dataclass(frozen=True)
class CompiledRun:
    """``gradviz check`` of the program with compiled code, on a torch without one name."""

    numbers: list[str]
    report: dict[str, Any]
    leaves: list[list[str]]

    @property
    def told(self) -> str:
        return " ".join(self.report["disclosures"])


KEEPS_DYNAMO_AWAY = (
    "torch._dynamo.eval_frame._maybe_set_eval_frame",
    "torch.nn.modules.module._global_forward_pre_hooks",  # with torch 2.6
)


@pytest.fixture
def compiled_run(shared: SharedFolders) -> Callable[[str], CompiledRun]:
    """The run without that name; all of them are made at once."""

    def fill(folder: Path) -> None:
        names = dict.fromkeys(["-", *(name for _, name in NAMES_USED_THERE)])
        words = ("-m", "tests.integration.torch_access.names_of_compiled_code", str(COMPILED), str(folder), *names)
        subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, check=True)

    folder = shared.folder("names_of_compiled_code", fill)

    def read(name: str) -> CompiledRun:
        printed = (folder / f"{name}.err").read_text().splitlines()
        nodes = json.loads((folder / f"{name}.json").read_text())["graph"]["nodes"]
        leaves = [node.get("names", []) for node in nodes if node["name"].endswith("AccumulateGrad")]
        numbers = [line for line in printed if line[:1].isdigit()]
        return CompiledRun(numbers, json.loads((folder / name).read_text()), leaves)

    return read


@cache
def compiled_alone() -> list[str]:
    done = python(COMPILED, cwd=HERE)
    assert done.exit_code == 1, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("capability", "name"), NAMES_USED_THERE, ids=[f"{each.name}-{name}" for each, name in NAMES_USED_THERE]
)
def test_a_missing_name_of_compiled_code_costs_what_is_told_and_no_more(
    capability: Capability, name: str, compiled_run: Callable[[str], CompiledRun]
) -> None:
    """Without what keeps Dynamo away the recorder is traced: that may fail, and is disclosed as a defect, too."""
    whole, run = compiled_run("-"), compiled_run(name)
    assert run.numbers == whole.numbers == compiled_alone()
    assert "defect" not in run.told or name in KEEPS_DYNAMO_AWAY
    if try_all()[capability.name] and name not in NEEDED_ELSEWHERE:
        is_told = f"does not report {capability.lost}" in run.told
        assert is_told or (capability.name == "graphs of compiled code" and "each a single node" in run.told)
    assert run.leaves == whole.leaves
    found, expected = ({each["code"] for each in one.report["findings"]} for one in (run, whole))
    assert expected - found <= {each["code"] for each in run.report["not_looked_for"]}
