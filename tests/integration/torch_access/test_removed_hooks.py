"""A recording can end in a hook that torch calls, in a program that goes on."""

from __future__ import annotations

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from gradviz.recording.torch_access.removed_hooks import hooks_in_use, remove_hooks
from gradviz.recording.torch_access.tensors import hook_table_of


def test_hooks_that_are_removed_while_torch_calls_them_do_nothing_and_are_removed_later() -> None:
    calls = []

    def remove_all(*_: object) -> None:
        calls.append("ours")
        with hooks_in_use():
            remove_hooks(ours)

    ours = [register(remove_all) for register in (register_module_forward_hook, register_optimizer_step_post_hook)]
    theirs = [
        register(lambda *_: calls.append("theirs"))
        for register in (register_module_forward_hook, register_optimizer_step_post_hook)
    ]
    module = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(module.parameters())
    for _ in range(2):
        module(torch.ones(2))
        optimizer.step()
    remove_hooks(theirs)
    assert calls == ["ours", "theirs", "theirs", "theirs", "theirs"]
    assert not any(handle.id in hook_table_of(handle) for handle in ours)
