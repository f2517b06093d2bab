"""Code that runs uncompiled behind a graph break has the lines, modules and functions of uncompiled code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.recording.child import forked_result
from tests.integration.recording.compiled import uncompiled_programs
from tests.shared_runs import SharedFolders

_RUN = """
import logging
import sys

logging.disable(logging.WARNING)
from torch._dynamo.utils import counters

from tests.integration.recording.compiled.uncompiled_programs import PROGRAMS, gradients, told


def _same(one, other):
    return one is other is None or torch.equal(one, other)

found = {}
for name, make in PROGRAMS.items():
    counters.clear()
    plain, plain_counts = gradients(make, "aot_eager"), json.dumps(counters["stats"])
    torch._dynamo.reset()
    counters.clear()
    compiled, recorded, cuts = told(make, "aot_eager")
    counts = json.dumps(counters["stats"])
    torch._dynamo.reset()
    found[name] = {
        "plain": told(make, None)[0],
        "compiled": compiled,
        "cuts": cuts,
        "same": all(map(_same, plain, recorded)) and counts == plain_counts,
        "traced": str((sys.gettrace(), sys.getprofile())),
    }
    torch._dynamo.reset()
print(json.dumps(found))
"""

NAMES = ("recurrent", "loop", "in_place", "custom", "operators", "cutting", "blocks", "unhashable")


@pytest.fixture
def found(shared: SharedFolders) -> dict[str, dict[str, Any]]:
    """What is told of each program."""

    def fill(folder: Path) -> None:
        (folder / "found.json").write_text(json.dumps(forked_result(_RUN)))

    result: dict[str, dict[str, Any]] = json.loads((shared.folder("uncompiled-code", fill) / "found.json").read_text())
    assert tuple(result) == NAMES
    return result


@pytest.mark.parametrize("name", NAMES)
def test_operations_behind_graph_breaks_have_their_lines_modules_and_calls(
    found: dict[str, dict[str, Any]], name: str
) -> None:
    assert found[name]["compiled"] == found[name]["plain"]


def test_looking_at_uncompiled_code_changes_no_gradient_no_graph_and_leaves_no_trace_function(
    found: dict[str, dict[str, Any]],
) -> None:
    assert {name: (each["same"], each["traced"]) for name, each in found.items()} == dict.fromkeys(
        NAMES, (True, "(None, None)")
    )


def test_calls_without_a_node_that_cut_off_gradients_have_their_line_and_what_gets_none(
    found: dict[str, dict[str, Any]],
) -> None:
    lines = Path(uncompiled_programs.__file__).read_text(encoding="utf-8").splitlines()
    expected = {number: words.rpartition("# cuts ")[2] for number, words in enumerate(lines, 1) if "  # cuts " in words}
    assert len(expected) == 4
    assert dict(found["cutting"]["cuts"]) == {
        line: [f"net.{name}.weight", f"net.{name}.bias"] for line, name in expected.items()
    }
    assert not any(each["cuts"] for name, each in found.items() if name != "cutting")


def test_the_profile_function_of_a_program_stays() -> None:
    script = """
import logging
import sys

logging.disable(logging.WARNING)

from tests.integration.recording.compiled.uncompiled_programs import PROGRAMS, gradients
from tests.integration.recording.helpers import record

seen = []
sys.setprofile(lambda frame, event, arg: seen.append(event))
record(lambda: gradients(PROGRAMS["loop"], "aot_eager"))
stays = sys.getprofile() is not None
sys.setprofile(None)
print(json.dumps([stays, len(seen) > 1000]))
"""
    assert forked_result(script) == [True, True]
