"""`with gradviz.record():` in a program."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import json
import threading
import traceback
import weakref
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import gradviz
from gradviz.errors import BadInput, NothingRecorded
from gradviz.recording.torch_access.allocators import bytes_from_malloc
from tests.end_to_end.command import gradviz as gradviz_command
from tests.end_to_end.command import python, written_script


def weight(*shape: int) -> Tensor:
    return torch.ones(*shape, requires_grad=True)


def operations(graph: gradviz.Graph) -> list[str]:
    return [node.name for node in graph.nodes if not node.is_leaf]


def test_every_backward_in_the_block_is_a_graph_with_lines_and_modules() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    with gradviz.record() as recording:
        for _ in range(3):
            loss = model(torch.ones(4, 3)).sum()
            loss.backward()
    assert [graph.backward.number for graph in recording.graphs if graph.backward] == [1, 2, 3]
    assert recording.graph is recording.graphs[0]
    assert {scope.path for scope in recording.graph.scopes} == {"model", "model.0", "model.1"}
    last = recording.graph.nodes[-1]
    assert last.call_site is not None
    site = recording.graph.call_sites[last.call_site]
    assert recording.capture.sources[site.file][site.line].strip() == "loss = model(torch.ones(4, 3)).sum()"
    assert recording.capture.disclosures == ()


def test_the_stack_of_a_line_does_not_show_what_launched_the_program() -> None:
    with gradviz.record() as recording:
        weight(3).sum().backward()
    assert not recording.graph.call_sites[0].is_library


def test_a_single_call_can_be_picked() -> None:
    with gradviz.record(backward=2) as recording:
        weight(3).exp().sum().backward()
        weight(3).log().sum().backward()
        weight(3).sin().sum().backward()
    (graph,) = recording.graphs
    assert operations(graph) == ["LogBackward0", "SumBackward0"]


@pytest.mark.parametrize("number", [0, -1, True, "all", 1.5])
def test_a_number_that_is_none_is_refused_before_the_block(number: int) -> None:
    with pytest.raises(BadInput, match="is neither a number from 1 on nor 'last'"):
        gradviz.record(backward=number)


@pytest.mark.skipif(bytes_from_malloc() is None, reason="the allocator of this system does not tell what is in use")
def test_what_torchs_own_objects_take_is_measured_for_blocks_too() -> None:
    with gradviz.record() as recording:
        weight(3).exp().sum().backward()
    (reading,) = recording.graph.allocators
    (nodes,) = (each for each in reading.objects if each.what == "nodes")
    assert nodes.bytes_of_one > 0


@pytest.mark.parametrize("elements", [-1, True, "all", 1.5, None])
def test_a_number_of_values_that_is_none_is_refused_wherever_it_is_asked_for(elements: int) -> None:
    inspected = gradviz.inspect(weight(2).exp())
    for ask in (gradviz.record, inspected.backward):
        with pytest.raises(BadInput, match="is not a number of elements"):
            ask(values=elements)


def test_without_backward_the_graph_is_of_what_the_block_computed_and_variables_hold() -> None:
    before = weight(3).exp().sum()
    with gradviz.record() as recording:
        w = weight(3)
        hidden = w * 2
        loss = hidden.sum()
    assert [root.name for root in recording.graph.roots] == ["loss"]
    assert operations(recording.graph) == ["MulBackward0", "SumBackward0"]
    assert recording.capture.backward_calls == 0
    del before, loss


def test_a_block_that_computed_nothing_says_so() -> None:
    with gradviz.record() as recording:
        pass
    assert recording.graphs == ()
    assert "no backward() ran" in repr(recording)
    with pytest.raises(NothingRecorded, match="no backward\\(\\) ran"):
        recording.tree()


def test_before_the_block_has_ended_there_is_nothing_to_look_at() -> None:
    recording = gradviz.record()
    assert repr(recording) == "<gradviz.Recording: nothing was recorded yet>"
    with recording:
        assert repr(recording) == "<gradviz.Recording: the recording is still running>"
        with pytest.raises(BadInput, match="still running; look at it after the `with` block"):
            recording.svg()
        assert recording._repr_mimebundle_() == {"text/plain": repr(recording)}


def test_a_recording_is_used_once() -> None:
    recording = gradviz.record()
    with recording:
        pass
    with pytest.raises(BadInput, match="used already"), recording:
        pass


def test_an_exception_passes_with_the_traceback_of_the_program_alone_and_the_recording_says_what_went_wrong() -> None:
    def step(w: Tensor) -> None:
        hidden = w * 2
        loss = hidden.view(2, 2)
        loss.sum().backward()

    w = weight(3)
    with pytest.raises(RuntimeError) as native:
        step(w)
    recording = gradviz.record()
    with pytest.raises(RuntimeError) as recorded, recording:
        step(w)
    assert str(recorded.value) == str(native.value)
    error = recording.capture.error
    assert error is not None
    assert (recording.capture.outcome, error.type_name) == ("failed", "RuntimeError")
    assert "gradviz" not in error.traceback.replace(str(Path(__file__).parents[3]), "")
    assert error.call_site is not None
    assert recording.capture.sources[error.call_site[0]][error.call_site[1]].strip() == "loss = hidden.view(2, 2)"
    assert operations(recording.graph) == ["MulBackward0"]  # hidden, a variable of the frame that broke off
    frames = traceback.extract_tb(recorded.tb)
    assert [frame.line for frame in frames] == ["step(w)", "loss = hidden.view(2, 2)"]


def test_a_failing_backward_is_marked() -> None:
    loss = weight(3).exp().sum()
    loss.backward()
    recording = gradviz.record()
    with pytest.raises(RuntimeError, match="second time"), recording:
        loss.backward()
    graph = recording.graph
    assert graph.backward is not None
    assert graph.backward.failed_node is not None
    assert graph.nodes[graph.backward.failed_node].name == "ExpBackward0"
    assert recording.capture.error is not None
    assert recording.capture.error.in_backward


def test_only_one_block_records_at_a_time() -> None:
    with gradviz.record() as outer:
        with pytest.raises(BadInput, match="a recording is running already"), gradviz.record():
            pass
        weight(3).sum().backward()
    assert operations(outer.graph) == ["SumBackward0"]
    with gradviz.record() as next_one:
        weight(3).exp().sum().backward()
    assert operations(next_one.graph) == ["ExpBackward0", "SumBackward0"]


def test_a_thread_records_what_it_computes() -> None:
    found: list[gradviz.Recording] = []

    def work() -> None:
        w = weight(3)
        with gradviz.record() as recording:
            (w * 2).sum().backward()
        found.append(recording)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    (recording,) = found
    assert operations(recording.graph) == ["MulBackward0", "SumBackward0"]
    assert all(node.call_site is not None for node in recording.graph.nodes if not node.is_leaf)
    assert recording.capture.disclosures == ()


def test_nothing_is_kept_alive_once_the_block_has_ended() -> None:
    model = nn.Linear(3, 1)
    with gradviz.record() as recording:
        loss = model(torch.ones(4, 3)).sum()
        loss.backward()
    seen = [weakref.ref(model), weakref.ref(loss), weakref.ref(model.weight)]
    del model, loss
    assert [reference() for reference in seen] == [None] * 3
    assert recording.graphs


def test_a_recording_can_be_saved_and_loaded(tmp_path: Path) -> None:
    with gradviz.record() as recording:
        weight(3).sum().backward()
    path = recording.save(tmp_path / "run.gradviz")
    assert gradviz.load(path).capture == recording.capture
    assert gradviz.load(str(path)).tree() == recording.tree()


def test_what_is_no_recording_cannot_be_loaded(tmp_path: Path) -> None:
    for given, words in (
        (tmp_path / "nowhere.gradviz", "cannot read"),
        ("train.py", "is a script, not a recording"),
        (torch.ones(1), "load() takes the path of a file, not an object of type Tensor"),
    ):
        with pytest.raises(BadInput) as found:
            gradviz.load(given)  # type: ignore[arg-type]
        assert words in str(found.value)


SCRIPT = """
import torch, gradviz
w = torch.ones(3, requires_grad=True)
with gradviz.record() as recording:
    (w * 2).sum().backward()
    w.exp().sum().backward()
print([len(graph.nodes) for graph in recording.graphs], recording.graphs[0].roots[0].node)
print(gradviz.inspect(w.log().sum()).graph.nodes[1].name)
"""


def test_a_script_with_a_block_runs_as_it_does_under_python(tmp_path: Path) -> None:
    script = written_script(tmp_path, SCRIPT)
    native = python(script, cwd=tmp_path)
    recorded = gradviz_command("render", script, "--backward", "all", "--keep-going", cwd=tmp_path)
    assert native.stdout == "[3, 3] 2\nLogBackward0\n"
    assert recorded.stdout.startswith(native.stdout)
    assert (native.exit_code, recorded.exit_code, native.stderr, recorded.stderr) == (0, 0, "", "")
    assert {path.name for path in tmp_path.glob("*.svg")} == {"train-1.svg", "train-2.svg"}


def test_the_command_still_ends_such_a_script_at_its_first_backward(tmp_path: Path) -> None:
    run = gradviz_command("tree", written_script(tmp_path, SCRIPT), cwd=tmp_path)
    assert run.exit_code == 0
    assert "MulBackward0" in run.stdout
    assert "stopped after backward 1" in run.stderr


def step(model: nn.Module, x: Tensor) -> Tensor:
    loss: Tensor = model(x).square().sum()
    return loss


def test_a_block_knows_what_the_backward_keeps_and_what_the_program_held_before() -> None:
    model, x = nn.Linear(64, 64), torch.randn(256, 64)
    with gradviz.record() as recording:
        for _ in range(2):
            step(model, x).backward()
    for graph in recording.graphs:
        kinds = {storage.kind: storage.bytes for storage in graph.storages}
        assert kinds == {"input": 256 * 64 * 4, "intermediate": 256 * 64 * 4}
        (reading,) = graph.allocators
        assert reading.after - reading.before >= 256 * 64 * 4


def test_without_backward_a_block_compares_with_the_allocator_as_well() -> None:
    model, x = nn.Linear(64, 64), torch.randn(256, 64)
    with gradviz.record() as recording:
        loss = step(model, x)
    assert loss.grad_fn is not None
    (reading,) = recording.graph.allocators
    assert reading.after - reading.before >= 256 * 64 * 4
    assert {storage.kind for storage in recording.graph.storages if "x" in storage.names} == {"input"}


def test_a_block_in_a_script_leaves_the_command_its_figures(tmp_path: Path) -> None:
    source = """
import gradviz, torch
from torch import nn
model, x = nn.Linear(64, 64), torch.randn(256, 64)
hidden = model(x)
with gradviz.record() as recording:
    y = hidden.square()
hidden.square().sum().backward()
"""
    run = gradviz_command("memory", written_script(tmp_path, source), "--json", cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    document = json.loads(run.stdout)
    assert (document["saved_bytes"], document["input_bytes"]) == (2 * 256 * 64 * 4, 256 * 64 * 4)


def test_a_block_measures_gradients_as_the_command_does_unless_it_is_reported_not_to() -> None:
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    with gradviz.record() as recording:
        step(model, x).backward()
    with gradviz.record(gradients=False) as without:
        step(model, x).backward()
    assert model.weight.grad is not None
    weight, twice = recording.graph.find("weight")[0], without.graph.find("weight")[0]
    assert weight.arrived[0] is not None
    assert weight.arrived[0].norm == pytest.approx(float(model.weight.grad.norm()) / 2, rel=1e-5)
    assert (twice.arrived, twice.run, without.graph.roots[0].gradient) == ((), None, None)


def test_a_backward_in_the_block_that_was_refused_shows_its_root_and_what_else_was_computed() -> None:
    with pytest.raises(RuntimeError), gradviz.record() as recording:
        kept = torch.ones(2, requires_grad=True) * 2
        torch.ones(()).backward()
    assert kept.grad_fn is not None
    assert [graph.nodes[-1].name for graph in recording.graphs] == ["MulBackward0"]
    assert "requires no grad" in recording.tree()
    with pytest.raises(gradviz.BadInput, match=r"nothing to play: backward\(\) did not begin: output requires no grad"):
        recording.replay()


def test_a_block_that_is_open_when_python_ends_is_reported_in_one_line(tmp_path: Path) -> None:
    script = """
import gradviz, torch
with gradviz.record():
    pass
left_open = gradviz.record().__enter__()
torch.ones(2, requires_grad=True).sum().backward()
print("the end")
"""
    run = python(written_script(tmp_path, script), cwd=tmp_path)
    assert (run.exit_code, run.stdout) == (0, "the end\n")
    assert run.stderr == (
        "gradviz: a recording was still open when Python ended, and nothing of it was kept: leave its "
        "`with gradviz.record():` block first\n"
    )
