"""What the program drops is freed at once, also while it is recorded."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gradviz
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.torch_access.allocators import bytes_from_malloc
from tests.integration.recording.helpers import record, record_failing, recorder
from tests.integration.recording.small_graphs import PROGRAMS, Program, weight


@pytest.fixture(autouse=True)
def without_garbage_collector() -> Iterator[None]:
    """What is freed here must be freed without the garbage collector: with it off, a cycle would show."""
    gc.freeze()  # what was there before is neither collected nor counted, which would take seconds
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def live_tensors() -> int:
    """How many tensors Python holds that the test has made, after a collection."""
    gc.collect()
    # By type(): some objects among them answer isinstance() with code of their own.
    return sum(1 for thing in gc.get_objects() if issubclass(type(thing), Tensor))


def tensors_of_shape(shape: tuple[int, ...]) -> int:
    """How many there are right now."""
    return sum(1 for thing in gc.get_objects() if issubclass(type(thing), Tensor) and thing.shape == shape)


class Witness:
    """An object in the metadata of a node, freed with the node."""


def step(seen: list[Any]) -> None:
    """A training step that leaves weak references to all that it made."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    data = torch.ones(2, 3)
    hidden = model(data)
    loss = (hidden * data).sum()
    loss.backward()
    witness = Witness()
    assert loss.grad_fn is not None
    loss.grad_fn.metadata["witness"] = witness
    seen += map(weakref.ref, (model, model[0], model[0].weight, data, hidden, loss, witness))


def test_tensors_modules_and_graph_die_while_the_recording_still_runs() -> None:
    seen: list[Any] = []
    with recorder() as running:
        step(seen)
        alive = [reference() for reference in seen]
    assert running.has_graphs()
    assert alive == [None] * 7


def test_nothing_lives_longer_once_recording_has_ended() -> None:
    seen: list[Any] = []
    recording = record(lambda: step(seen))
    assert len(recording.graph.nodes) > 3
    assert [reference() for reference in seen] == [None] * 7


def test_what_a_deep_graph_holds_dies_with_it() -> None:
    seen: list[Any] = []

    def run() -> None:
        x = weight(1)
        for _ in range(2_000):
            x = x + 1
        loss = x.sum()
        loss.backward()
        assert loss.grad_fn is not None
        witness = Witness()
        loss.grad_fn.next_functions[0][0].metadata["witness"] = witness  # type: ignore[union-attr, index]
        seen.extend(map(weakref.ref, (x, loss, witness)))

    record(run)
    assert [reference() for reference in seen] == [None] * 3


def test_no_tensor_is_left_over_by_a_recording() -> None:
    def run(program: Program) -> None:
        roots = program()
        torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])

    for program in PROGRAMS.values():
        run(program)  # torch keeps some tensors of its own from the first run on
    before = live_tensors()
    kept = [record(partial(run, program)) for program in PROGRAMS.values()]
    assert all(recording.capture.graphs for recording in kept)
    assert live_tensors() == before


def test_copies_of_arguments_of_a_custom_function_are_freed_after_the_block_whose_calls_were_logged() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return 2 * gradient

    w = weight(2)
    Twice.apply(w).sum().backward()
    gradient = w.grad  # which has no Python object until somebody asks
    before = tensors_of_shape((2,))
    with gradviz.record(calls=True):
        Twice.apply(w).sum().backward()
    assert tensors_of_shape((2,)) == before
    assert w.grad is gradient


def test_a_local_variable_that_is_deleted_after_backward_is_freed_at_once() -> None:
    def run() -> list[Any]:
        big = torch.ones(1000)
        loss = (weight(1000) * big).sum()
        loss.backward()
        references = [weakref.ref(big), weakref.ref(loss)]
        del big, loss
        return [reference() for reference in references]

    assert record(run).value == [None, None]


def test_a_local_variable_of_a_caller_that_is_rebound_is_freed_at_once() -> None:
    def inner(loss: Tensor) -> None:
        loss.backward()

    def run() -> list[Any]:
        big = torch.ones(1000)
        reference = weakref.ref(big)
        inner((weight(1000) * big).sum())
        big = torch.zeros(1)
        return [reference(), big.sum().item()]

    assert record(run).value == [None, 0.0]


def test_locals_that_the_program_keeps_are_not_emptied() -> None:
    def run() -> tuple[Any, ...]:
        number, loss = 3, weight(2).sum()
        kept = locals()
        loss.backward()
        return kept, dict(kept)

    kept, at_once = record(run).value
    assert kept is not at_once
    assert kept["number"] == 3
    assert set(kept) >= {"number", "loss"}


def test_locals_that_the_program_keeps_elsewhere_are_not_emptied() -> None:
    holder: dict[str, Any] = {}

    def run() -> None:
        number, loss = 3, weight(2).sum()  # noqa: F841
        holder["variables"] = inspect.currentframe().f_locals  # type: ignore[union-attr]
        loss.backward()

    record(run)
    assert holder["variables"]["number"] == 3


def test_every_variable_is_still_there_after_backward() -> None:
    outer = weight(2)

    def run() -> dict[str, Any]:
        number, text = 3, "a"
        loss = (outer * 2).sum()
        loss.backward()
        return dict(locals())

    variables = record(run).value
    assert (variables["number"], variables["text"]) == (3, "a")
    assert variables["outer"] is outer


def test_variables_of_a_generator_and_a_comprehension_stay() -> None:
    def batches() -> Iterator[Tensor]:
        w, count = weight(2), 0
        while count < 3:
            yield (w * count).sum()
            count += 1

    def run() -> list[int]:
        return [number for number, loss in enumerate(batches()) if loss.backward() is None]

    assert record(run).value == [0, 1, 2]


def test_an_error_that_the_program_caught_keeps_no_more_alive_than_without_us() -> None:
    def fail() -> weakref.ref[Any]:
        class Broken(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                return x * 2

            @staticmethod
            def backward(ctx: Any, gradient: Tensor) -> Tensor:
                raise ValueError

        loss = Broken.apply(weight(2)).sum()
        with pytest.raises(ValueError):
            loss.backward()
        return weakref.ref(loss)

    native = fail()
    gc.collect()
    assert native() is None
    recorded = record(fail).value
    gc.collect()
    assert recorded() is None


def test_an_error_that_ends_the_program_keeps_nothing_once_it_is_gone() -> None:
    seen: list[Any] = []

    def run() -> None:
        loss = weight(2).sum()
        seen.append(weakref.ref(loss))
        loss.backward()
        raise ValueError

    recording = record_failing(run, ValueError)
    assert len(recording.graph.nodes) == 2
    del recording
    gc.collect()
    assert seen[0]() is None


def test_a_program_without_backward_keeps_its_data_no_longer() -> None:
    """Inputs of operations are remembered as constants, but must not be held for it."""

    def run(free: Callable[[], None]) -> list[Any]:
        seen = []
        w = weight(3)
        for _ in range(3):
            batch = torch.ones(3)
            seen.append(weakref.ref(batch))
            hidden = (w * batch).sin()
            seen.append(weakref.ref(hidden))
            del batch, hidden
        free()
        return [reference() for reference in seen]

    assert record(lambda: run(lambda: None), RecordingPlan()).value == [None] * 6


def test_reference_counts_of_what_the_program_holds_are_unchanged() -> None:
    import sys

    def run() -> list[int]:
        model, data = nn.Linear(2, 2), torch.ones(1, 2)
        loss = model(data).sum()
        loss.backward()
        return [sys.getrefcount(thing) for thing in (model, data, loss, model.weight, model.forward)]

    native = run()
    assert record(run).value == native


def test_memory_and_objects_after_recordings_are_what_they_were() -> None:
    in_use = bytes_from_malloc()
    if in_use is None:
        pytest.skip("the C library of this machine does not tell what it gave out")
    model, x = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)), torch.ones(64, 64)

    def record_some(times: int) -> tuple[int, int]:
        for _ in range(times):
            record(lambda: model(x).sum().backward())
            model.zero_grad()
        gc.collect()
        return in_use(), len(gc.get_objects())

    record_some(3)  # caches of torch, of Python and of gradviz's own
    memory, objects = record_some(1)
    memory_later, objects_later = record_some(20)

    # One recording is some 50,000 bytes and 500 objects: if any stayed, there would be twenty of them.
    assert memory_later - memory < 20 * 1_000
    assert objects_later - objects < 20
