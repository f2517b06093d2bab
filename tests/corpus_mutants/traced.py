"""Runs a script, and writes which gradients and parameters every step of every optimizer saw."""

from __future__ import annotations

import json
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any


def run_traced() -> None:
    """``sys.argv`` names the script and the file for what was seen."""
    script, report = sys.argv[1:]
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    torch.set_num_threads(1)
    steps: list[list[Any]] = []

    def parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def before(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        steps.append([None if each.grad is None else _figures(each.grad) for each in parameters(optimizer)])

    def after(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        steps.append([_figures(each) for each in parameters(optimizer)])

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
    raised, line, variables = None, None, {}
    sys.path.insert(0, str(Path(script).parent))
    try:
        variables = runpy.run_path(script, run_name="__main__")
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == script), None)
    ends = {name: found for name, value in sorted(variables.items()) if (found := _of_variable(value))}
    with Path(report).open("w") as file:
        json.dump({"raised": raised, "line": line, "steps": steps, "ends": ends}, file)


def _of_variable(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.nn.Module):
        return [figure for _, each in value.named_parameters() for figure in _with_gradient(each)]
    if isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad:
        return _with_gradient(value)
    return []


def _with_gradient(tensor: Any) -> list[Any]:
    return [_figures(tensor), None if tensor.grad is None else _figures(tensor.grad)]


def _figures(tensor: Any) -> list[float]:
    values = tensor.detach().to_dense().double().flatten()
    return [] if not values.numel() else [float(values.norm()), float(values.sum())]
