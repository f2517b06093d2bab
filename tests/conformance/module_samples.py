"""Samples from torch's own list of modules, which its tests use: ``torch.testing._internal``'s ``module_db``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import torch
from torch.testing._internal import common_modules

from tests.conformance.sample import SEED, Prepared, Sample, with_own_tensors
from tests.conformance.tally import Tally

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


@cache
def _modules() -> dict[str, Any]:
    return {info.name: info for info in common_modules.module_db}


def module_names() -> list[str]:
    """All of them, once each."""
    return list(_modules())


def samples_of(name: str, turn: int, tally: Tally) -> Iterator[Sample]:
    """Every way in which torch makes and calls the module, in each dtype, beginning with another one each turn."""
    info = _modules()[name]
    ways = [(dtype, training) for dtype in DTYPES if dtype in info.dtypes for training in (True, False)]
    if not ways:
        tally.skipped["modules: it runs in none of the four dtypes"] += 1
        return
    turn %= len(ways)
    for dtype, training in (*ways[turn:], *ways[:turn]):
        torch.default_generator.manual_seed(SEED)
        given = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        word = f"{str(dtype).removeprefix('torch.')} {'training' if training else 'evaluation'}"
        for number, entry in enumerate(given):
            if entry.forward_input is not None:
                prepare = partial(_prepare, info.module_cls, entry, dtype, training)
                yield Sample(name, f"{name} {word} #{number}", prepare)


def _prepare(module_class: type[torch.nn.Module], given: Any, dtype: torch.dtype, training: bool) -> Prepared:
    torch.default_generator.manual_seed(SEED)
    made = given.constructor_input
    module = module_class(*made.args, **made.kwargs).to(dtype).train(training)
    (args, kwargs), leaves = with_own_tensors((given.forward_input.args, given.forward_input.kwargs))
    _materialize(module, args, kwargs)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return Prepared([*leaves, *parameters], lambda: module(*args, **kwargs))


def _materialize(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
    """Lazy modules get their parameters from a first call."""
    if any(torch.nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
        with torch.no_grad():
            module(*args, **kwargs)
