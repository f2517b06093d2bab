"""The check after every test notices whatever a recorder leaves behind."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch

from gradviz.recording.torch_access.patches import PATCHES, Replacement
from tests.leftovers import changes, random_state, snapshot

TELLS_HOOKS = hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks")


class _Mode(torch.overrides.TorchFunctionMode):
    """Does nothing, but is there."""


def noticed(monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], object]) -> str:
    before = snapshot()
    with monkeypatch.context() as undone:
        change(undone)
        return "\n".join(changes(before, snapshot()))


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (torch.nn.Module, "__call__"),
        (torch.nn.Module, "_call_impl"),
        (torch.Tensor, "backward"),
        (torch.autograd, "grad"),
        (torch.autograd.Function, "apply"),
        (torch.autograd, "_engine_run_backward"),
        (torch.autograd.graph, "_engine_run_backward"),
        (torch.nn.functional, "linear"),
    ],
)
def test_a_replaced_function_is_noticed(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    assert f"{name}: was " in noticed(monkeypatch, lambda undone: undone.setattr(owner, name, print))


def test_a_changed_command_line_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sys.argv: was " in noticed(monkeypatch, lambda undone: undone.setattr(sys, "argv", ["train.py"]))


def test_a_replaced_main_module_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "'__main__'" in noticed(monkeypatch, lambda undone: undone.setitem(sys.modules, "__main__", sys))


def test_a_mode_that_stays_is_noticed() -> None:
    before = snapshot()
    with _Mode():
        assert changes(before, snapshot()) == ["torch function modes: was 0, is 1"]


def test_a_global_module_hook_that_stays_is_noticed() -> None:
    before = snapshot()
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert "global module hooks: was {}, is {'_global_forward_hooks': 1" in changes(before, snapshot())[0]
    finally:
        handle.remove()


@pytest.mark.skipif(not TELLS_HOOKS, reason="this torch does not tell which hooks are in force")
def test_saved_tensors_hooks_that_stay_are_noticed() -> None:
    before = snapshot()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert "saved tensors hooks: was None" in changes(before, snapshot())[0]


def test_an_ordinary_training_step_leaves_nothing() -> None:
    before = snapshot()
    model = torch.nn.Linear(3, 1)
    model(torch.ones(2, 3)).sum().backward()
    assert changes(before, snapshot()) == []


def test_what_compiling_replaces_inside_torch_is_no_fault() -> None:
    compiled = torch.compile(lambda x: x.sum(), backend="aot_eager")
    before = snapshot()
    compiled(torch.ones(3, requires_grad=True)).backward()
    assert changes(before, snapshot()) == []


def test_a_drawn_random_number_shows_in_the_random_state() -> None:
    before = random_state()
    assert random_state() == before
    torch.rand(1)
    assert random_state() != before


def test_every_patch_that_stays_is_noticed() -> None:
    for patch in PATCHES:
        before = snapshot()
        left = Replacement(patch.path)
        if not left.put(lambda _: print):
            assert patch.path.startswith(("torch._dynamo.", "torch.export.")), (
                "only what the program may never load can be missing"
            )
            continue
        try:
            assert any(line.startswith(f"{patch.path}: was ") for line in changes(before, snapshot())), patch.path
        finally:
            left.take_back()
        assert changes(before, snapshot()) == []
