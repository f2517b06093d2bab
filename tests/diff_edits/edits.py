"""Edits of one operation of a model, each with the answers that name it.

An edit is one of eight kinds: an operation is added after a random linear layer, its result is detached, it has no
bias any more or its weight is frozen; the ``eps`` of a normalisation is another, or the normalisation is left out; an
activation is another; one element of a parameter is another.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gradviz.analysis.diff.difference import Origin


@dataclass(frozen=True)
class Edit:
    """What was changed, and whether an answer names it."""

    kind: str
    what: str
    is_named_by: Callable[[Origin], bool]

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def random_edit(model: nn.Module, generator: random.Random) -> Edit:
    """Make one edit that the model allows; every model has an element to change."""
    kinds = list(_KINDS)
    generator.shuffle(kinds)
    edits = (kind(model, generator) for kind in kinds)
    return next(edit for edit in edits if edit is not None)


def _add_operation(model: nn.Module, generator: random.Random) -> Edit | None:
    """After a linear layer, its result is multiplied by 1.01."""
    found = _chosen(model, generator, nn.Linear)
    if found is None:
        return None
    name, module = found
    module.register_forward_hook(lambda _module, _inputs, result: result * 1.01)
    return Edit("added operation", f"after {name}", lambda origin: origin.cause == "only_b" and _is_at(origin, "mul"))


def _change_eps(model: nn.Module, generator: random.Random) -> Edit | None:
    found = _chosen(model, generator, nn.LayerNorm)
    if found is None:
        return None
    name, module = found
    module.eps *= 10
    return Edit("another eps", name, lambda origin: "eps" in origin.what and _is_at(origin, "layer_norm", name))


def _change_activation(model: nn.Module, generator: random.Random) -> Edit | None:
    activations = [
        name
        for name, module in model.named_modules()
        if name and "act" in name.rpartition(".")[2] and not list(module.children())
    ]
    if not activations:
        return None
    name = generator.choice(activations)
    parent, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(parent), attribute, nn.Softplus())
    return Edit("another activation", name, lambda origin: _is_at(origin, "softplus"))


def _change_element(model: nn.Module, generator: random.Random) -> Edit | None:
    weights = [(name, weight) for name, weight in model.named_parameters() if weight.dim() == 2 and "emb" not in name]
    name, weight = generator.choice(weights)
    with torch.no_grad():
        weight.view(-1)[generator.randrange(weight.numel())] += 0.5
    return Edit("another element", name, lambda origin: origin.cause == "input" and name in origin.what)


def _detach(model: nn.Module, generator: random.Random) -> Edit | None:
    """After a linear layer: the values are the same, and the gradient is cut off."""
    found = _chosen(model, generator, nn.Linear)
    if found is None:
        return None
    name, module = found
    module.register_forward_hook(lambda _module, _inputs, result: result.detach())
    return Edit("detached", f"after {name}", lambda origin: origin.cause == "only_b" and _is_at(origin, "detach"))


def _drop_bias(model: nn.Module, generator: random.Random) -> Edit | None:
    found = _chosen(model, generator, nn.Linear, lambda module: module.bias is not None)
    if found is None:
        return None
    name, module = found
    module.bias = None
    return Edit("bias left out", name, lambda origin: _is_at(origin, "linear", name) or f"{name}.bias" in origin.what)


def _freeze(model: nn.Module, generator: random.Random) -> Edit | None:
    found = _chosen(model, generator, nn.Linear, lambda module: module.weight.requires_grad)
    if found is None:
        return None
    name, module = found
    module.weight.requires_grad_(False)
    # Tied weights have several names.
    names = [each for each, weight in model.named_parameters(remove_duplicate=False) if weight is module.weight]
    return Edit("frozen", name, lambda origin: "frozen" in origin.what and any(each in origin.what for each in names))


def _leave_out_norm(model: nn.Module, generator: random.Random) -> Edit | None:
    found = _chosen(model, generator, nn.LayerNorm)
    if found is None:
        return None
    name, _ = found
    parent, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(parent), attribute, nn.Identity())
    return Edit("norm left out", name, lambda origin: origin.cause == "only_a" and _is_at(origin, "layer_norm", name))


_KINDS = (
    _add_operation,
    _change_eps,
    _change_activation,
    _change_element,
    _detach,
    _drop_bias,
    _freeze,
    _leave_out_norm,
)


def _chosen(
    model: nn.Module, generator: random.Random, kind: type[nn.Module], fits: Callable[[Any], bool] = lambda _: True
) -> tuple[str, Any] | None:
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, kind) and fits(module)]
    return generator.choice(found) if found else None


def _is_at(origin: Origin, operation: str, module: str = "") -> bool:
    place = origin.b or origin.a
    return place is not None and place.operation == operation and place.module.endswith(module)
