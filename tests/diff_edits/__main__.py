"""Changes one operation of small real models at random, and counts how often `gradviz.diff` names it first.

``make diff-edits`` records 100 pairs with one edit each, and 100 pairs without any. An edit is one of four: an
operation is added after a random module, the ``eps`` of a normalisation is another, an activation is another, one
element of a parameter is another. A pair counts as found if the first difference is at the edited module, or names the
parameter.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

import gradviz
from gradviz.analysis.diff.difference import Origin
from tests.zoo.families import families as all_families
from tests.zoo.family import Family, Subject, loss_of, seed

_FAST_KINDS = ("encoder", "decoder", "encoder-decoder", "vision")


@dataclass(frozen=True)
class Edit:
    """What was changed, and whether an answer names it."""

    what: str
    is_named_by: Callable[[Origin], bool]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    families = [each for each in all_families() if each.kind in _FAST_KINDS and not each.hides_layers]
    found: Counter[str] = Counter()
    edited: Counter[str] = Counter()
    false_alarms = 0
    warm: set[str] = set()
    for number in range(options.pairs):
        family = generator.choice(families)
        if family.name not in warm:
            # Libraries keep what they compute in a first step, such as positions: a second one has fewer operations.
            warm.add(family.name)
            _recorded(family, number)
        plain = _recorded(family, number)
        again = gradviz.diff(plain, _recorded(family, number))
        if not again.same or again.difference.rounding is not None:
            false_alarms += 1
            print(f"{number}: {family.name}: not the same as itself: {again.difference.sentence}")
        edit, changed = _recorded_with_an_edit(family, number, generator)
        if edit is None or changed is None:
            continue
        kind = edit.what.partition(":")[0]
        edited[kind] += 1
        first = gradviz.diff(plain, changed).first
        if first is not None and edit.is_named_by(first):
            found[kind] += 1
        else:
            print(f"{number}: {family.name}: {edit.what}: found {first.what if first else 'nothing'}", flush=True)
    print(f"named first: {found.total()} of {edited.total()} edits; false alarms: {false_alarms} of {options.pairs}")
    for kind, count in edited.items():
        print(f"  {kind}: {found[kind]} of {count}")


def _recorded(family: Family, number: int, edit: Callable[[Subject], None] | None = None) -> gradviz.Recording:
    seed(number)
    subject = family.make()
    if edit is not None:
        edit(subject)
    seed(number)
    with gradviz.record(fingerprints=True, backward=1, model=subject.model) as recording:
        loss_of(subject.model(**subject.inputs)).backward()  # type: ignore[no-untyped-call]
    return recording


def _recorded_with_an_edit(
    family: Family, number: int, generator: random.Random
) -> tuple[Edit | None, gradviz.Recording | None]:
    edits: list[Edit] = []
    kinds = [_add_operation, _change_eps, _change_activation, _change_element]
    generator.shuffle(kinds)

    def change(subject: Subject) -> None:
        for kind in kinds:
            edit = kind(subject.model, generator)
            if edit is not None:
                edits.append(edit)
                return

    recording = _recorded(family, number, change)
    return (edits[0], recording) if edits else (None, None)


def _add_operation(model: nn.Module, generator: random.Random) -> Edit | None:
    """After a linear layer that ran, its result is multiplied by 1.01."""
    layers = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not layers:
        return None
    name, module = generator.choice(layers)
    module.register_forward_hook(lambda _module, _inputs, result: result * 1.01)
    return Edit(f"added operation: after {name}", lambda origin: origin.cause == "only_b" and _is_at(origin, "mul", ""))


def _change_eps(model: nn.Module, generator: random.Random) -> Edit | None:
    norms = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)]
    if not norms:
        return None
    name, module = generator.choice(norms)
    module.eps *= 10
    return Edit(f"another eps: {name}", lambda origin: "eps" in origin.what and _is_at(origin, "layer_norm", name))


def _change_activation(model: nn.Module, generator: random.Random) -> Edit | None:
    activations = [
        (name, module)
        for name, module in model.named_modules()
        if name and ("act" in name.rpartition(".")[2]) and not list(module.children())
    ]
    if not activations:
        return None
    name, _ = generator.choice(activations)
    parent = model.get_submodule(name.rpartition(".")[0])
    setattr(parent, name.rpartition(".")[2], nn.Softplus())
    return Edit(f"another activation: {name}", lambda origin: _is_at(origin, "softplus", ""))


def _change_element(model: nn.Module, generator: random.Random) -> Edit | None:
    weights = [(name, weight) for name, weight in model.named_parameters() if weight.dim() == 2 and "emb" not in name]
    if not weights:
        return None
    name, weight = generator.choice(weights)
    with torch.no_grad():
        weight.view(-1)[generator.randrange(weight.numel())] += 0.5
    return Edit(f"another element: {name}", lambda origin: origin.cause == "input" and name in origin.what)


def _is_at(origin: Origin, operation: str, module: str) -> bool:
    place = origin.b or origin.a
    return place is not None and place.operation == operation and place.module.endswith(module)


if __name__ == "__main__":
    main()
