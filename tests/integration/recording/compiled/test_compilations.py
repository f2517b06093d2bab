"""Graph breaks and recompilations of `torch.compile` are noted, with lines and reasons."""

# Much of torch has no types.
# mypy: allow-untyped-calls, allow-untyped-defs, disallow-any-decorated=false
from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.compiled.compiled_functions import CompiledFunction, compiled_document, compiled_functions
from gradviz.analysis.rules import RULES
from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.compilations import Compilation, GraphBreak
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run
from gradviz.recording.torch_access.capabilities import works
from gradviz.rendering.reports.compiled_text import CompiledText
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.rendering.words.item_words import item_texts
from gradviz.rendering.words.link_words import link_texts
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.folding import FoldOptions, fold
from tests.captures import small_capture

BLOCKS = """
import torch

class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return x + self.linear(x)

blocks = [Block(4), Block(4), Block(4)]
for block in blocks:
    block.compile(backend="aot_eager")
for _ in range(2):
    x = torch.ones(2, 4)
    for block in blocks:
        x = block(x)
    x.sum().backward()
torch.nn.Module.compile(last := Block(6), backend="aot_eager")
last(torch.ones(2, 6)).sum().backward()
"""

PROGRAM = """
import torch

@torch.compile(backend="eager")
def stepped(x, name):
    y = x.sin()
    if y.sum() > 0:  # break
        y = 2 * y
    return y.cos() if name else y

x = torch.ones(3, requires_grad=True)
for step in range(5):
    stepped(x, "name" + str(step)).sum().backward()

layers = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()), backend="eager")
layers(x).sum().backward()
"""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """What was recorded of the program, after it was written and read."""
    script = tmp_path_factory.mktemp("compiled") / "train.py"
    script.write_text(PROGRAM)
    plan = RecordingPlan(backward=None, keep_going=True, calls=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorded = run(find_script(str(script)), (), plan)
    assert recorded.capture.error is None, recorded.capture.error
    return read_capture(write_capture(recorded.capture), "run.gradviz")


def only_function(capture: Capture) -> CompiledFunction:
    found, *_ = compiled_functions(capture)
    return found


def test_a_break_has_its_line_and_reason_and_divides_the_function_into_regions(capture: Capture) -> None:
    found = only_function(capture)
    (broken,) = found.breaks
    assert (found.name, found.line, found.backend) == ("stepped", 4, "eager")
    assert (broken.line, broken.code) == (7, "if y.sum() > 0:  # break")
    assert "depends on the value of a tensor" in broken.explanation or "data-dependent" in broken.explanation.lower()
    assert [region.line for region in found.regions] == [4, 7]


def test_a_module_of_torch_has_its_class_and_the_line_that_calls_it(capture: Capture) -> None:
    _, of_torch = compiled_functions(capture)
    assert (of_torch.name, Path(of_torch.file).name, of_torch.line) == ("Sequential", "train.py", 16)


def test_what_is_compiled_again_has_the_guard_that_failed(capture: Capture) -> None:
    first, rest = only_function(capture).regions
    assert first.versions == 1
    assert (rest.versions, rest.is_given_up) == (5, False)
    if any(rest.failed_guards):  # torch tells it from 2.7 on
        assert "name == 'name0'" in rest.failed_guards


def test_each_version_of_a_block_that_is_compiled_by_itself_has_its_guard(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BLOCKS, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorded = run(find_script(str(script)), (), RecordingPlan(backward=None, keep_going=True))
    assert recorded.capture.error is None, recorded.capture.error
    (block,) = compiled_functions(recorded.capture)
    (region,) = block.regions
    assert region.versions == 3
    if works("compilations") and any(region.failed_guards):  # torch tells it from 2.7 on
        assert all(region.failed_guards)


def test_a_picture_has_the_break_where_the_data_passes_it(capture: Capture) -> None:
    views = [fold(graph, FoldOptions()) for graph in capture.graphs]
    facts = SubjectFacts(capture, capture.graphs[0], views[0])
    links = link_texts(facts, LinkGradients(facts), item_texts(facts))
    (crossing,) = (text for text in links if text.label.startswith("graph break"))
    assert crossing.label == "graph break, line 7"
    assert crossing.tooltip[0] == "sin → mul"
    assert any(line.startswith("graph break of torch.compile at train.py:7: ") for line in crossing.tooltip)
    assert "1 graph break between them: train.py:7 (gradviz compiled says why)" in views[0].notes
    assert not any("graph break" in note for note in views[-1].notes)


def test_python_between_two_breaks_is_no_region() -> None:
    guard = "___stack0 == 7.5"
    compilations = (
        Compilation(0, 0, "f", "train.py", 3, operations=2),
        Compilation(1, 0, "f", "train.py", 5, is_rest=True),
        Compilation(1, 1, "f", "train.py", 5, is_rest=True, failed_guard=guard),
    )
    text = " ".join(
        CompiledText(80).text(compiled_document(replace(small_capture(), compilations=compilations))).split()
    )
    assert "1 region, 0 graph breaks, 1 recompilation" in text
    assert "no torch call, compiled 2 times" in text
    assert "___stack0 is a value that the code before the break left" in text


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_it_is_said_that_kernels_are_not_known(backend: str) -> None:
    compilations = (Compilation(0, 0, "f", "train.py", 3, operations=2, backend=backend),)
    document = compiled_document(replace(small_capture(), compilations=compilations))
    assert ("which of its kernels" in CompiledText(300).text(document)) == (backend == "inductor")


def test_check_notes_both(capture: Capture) -> None:
    notes = {finding.code: finding for finding in check_case(Case(capture), RULES).findings}
    assert works("compilations")
    assert notes["GV905"].location is not None and notes["GV905"].location.line == 7
    assert "5 times" in notes["GV906"].message
    assert not any(finding.is_alarm for finding in notes.values())


_OF_OPTIMIZER = """Attempt to trace forbidden callable
  Explanation: Dynamo developers have intentionally marked that the function `Adam.step` in file \
`/env/lib/python3.11/site-packages/torch/optim/lr_scheduler.py` should not be traced.
  Hint: Avoid calling the function `Adam.step`.
  Hint: Apply `@torch._dynamo.dont_skip_tracing` to the function `Adam.step`."""


def test_what_torch_itself_keeps_from_being_traced_has_no_advice_to_edit_it() -> None:
    capture = replace(
        small_capture(),
        compilations=(
            Compilation(0, 0, "step", "train.py", 3, broken=GraphBreak(_OF_OPTIMIZER, "train.py", 5)),
            Compilation(1, 0, "wrapper", "optimizer.py", 9, broken=GraphBreak("", "optim.py", 79, is_of_torch=True)),
        ),
    )
    (found,) = (each for each in check_case(Case(capture), RULES).findings if each.code == "GV905")
    assert "torch keeps Dynamo from tracing Adam.step" in found.message and "site-packages" not in found.message
    assert "move this call out of what is compiled" in found.fix
    text = CompiledText(80).text(compiled_document(capture))
    assert "hint" not in text and "inside torch's own code" in text


def test_a_break_that_torch_itself_wants_in_what_a_line_calls_is_none_of_the_program() -> None:
    reason = "Call\n  Explanation: User-inserted graph break. Message: None\n  Hint: Remove the call."
    broken = [GraphBreak(reason, "/project/train.py", line) for line in (7, 9)]
    capture = replace(
        small_capture(),
        sources={"/project/train.py": {7: "optimizer.step()", 9: "torch._dynamo.graph_break()"}},
        compilations=tuple(Compilation(number, 0, "f", broken=each) for number, each in enumerate(broken)),
    )
    fixes = [each.fix for each in check_case(Case(capture), RULES).findings if each.code == "GV905"]
    assert fixes[0].startswith("move this call out of what is compiled") and fixes[1:] == ["Remove the call."]


def test_a_learning_rate_for_which_code_is_compiled_again_is_to_be_a_tensor() -> None:
    guard = "self.param_groups[0]['lr'] == 0.001"
    versions = (Compilation(0, number, "step", "train.py", 3, failed_guard=guard) for number in range(4))
    capture = replace(small_capture(), compilations=tuple(versions))
    (found,) = (each for each in check_case(Case(capture), RULES).findings if each.code == "GV906")
    assert found.fix.startswith("make a learning rate that changes a tensor")


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_sizes_that_may_change_already_are_not_advised_again(*, is_dynamic: bool) -> None:
    versions = (Compilation(0, number, "step", "train.py", 3, is_dynamic=is_dynamic) for number in range(4))
    capture = replace(small_capture(), compilations=tuple(versions))
    (found,) = (each for each in check_case(Case(capture), RULES).findings if each.code == "GV906")
    assert ("dynamic=True" in found.fix) != is_dynamic


def test_dynamic_is_noted_of_each_compilation(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    each = "torch.compile(torch.sin, backend='eager', dynamic={})(torch.ones(3, requires_grad=True)).sum().backward()"
    script.write_text("\n".join(["import torch", *(each.format(value) for value in (None, True))]), encoding="utf-8")
    recorded = run(find_script(str(script)), (), RecordingPlan(backward=None, keep_going=True))
    assert [each.is_dynamic for each in recorded.capture.compilations] == [False, True]
