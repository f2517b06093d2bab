"""Iterates over a module and those below it, also if they cannot be hashed, and without recursion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from gradviz.recording.torch_access.modules import compiled_from, own_modules, own_parameters


def modules_inside(root: torch.nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.nn.Module]]:
    """Dotted path and module of `root` and all below it; a shared module comes once per path."""
    opened: set[int] = set()
    waiting = [(prefix, root)]
    while waiting:
        path, module = waiting.pop()
        yield path, module
        if id(module) not in opened:
            opened.add(id(module))
            # What torch.compile wraps has the name of the wrapper, as the program calls it.
            compiled = compiled_from(module)
            children = [
                (path if child is compiled else f"{path}.{name}", child)
                for name, child in own_modules(module).items()
                if child is not None
            ]
            waiting.extend(reversed(children))


def distinct_modules(roots: Iterable[torch.nn.Module]) -> Iterator[torch.nn.Module]:
    """`roots` and all modules below them, each once."""
    opened: set[int] = set()
    for root in roots:
        waiting = [root]
        while waiting:
            module = waiting.pop()
            if id(module) not in opened:
                opened.add(id(module))
                yield module
                if own_modules(module):
                    waiting += [child for child in reversed(tuple(own_modules(module).values())) if child is not None]


def parameters_inside(*roots: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Every parameter of modules and all below them, each once, without those whose shape is not known yet."""
    found: dict[int, torch.nn.Parameter] = {}
    for module in distinct_modules(roots):
        for parameter in own_parameters(module).values():
            if parameter is not None and not torch.nn.parameter.is_lazy(parameter):
                found[id(parameter)] = parameter
    return list(found.values())


def outermost(modules: Iterable[torch.nn.Module]) -> list[torch.nn.Module]:
    """Modules that are inside no other of them, in order."""
    modules = list(modules)
    inside: set[int] = set()
    for module in modules:
        # So each is visited about once, and if two contain each other, one remains.
        if id(module) not in inside:
            inside.update(id(inner) for inner in distinct_modules([module]) if inner is not module)
    return [module for module in modules if id(module) not in inside]
