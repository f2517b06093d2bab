"""Where a node of a traced graph belongs: its lines and its modules."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Generic, Protocol, TypeVar

import torch

from gradviz.recording.run.traced_stacks import exported_modules, is_exported
from gradviz.recording.torch_access.modules import own_modules

Scope = TypeVar("Scope")


class TracedNode(Protocol):
    """What is read of a `torch.fx.Node`."""

    meta: dict[str, Any]


@dataclass
class MovedNode:
    """A node of a graph that several nodes run, as one of them runs it."""

    meta: dict[str, Any]


def moved(node: TracedNode, around: TracedNode, times: int) -> TracedNode:
    """The node with the modules that `around` runs it for: torch keeps those of which it was traced first.

    Args:
        times: distinguishes this run from others.
    """
    own = list((node.meta.get("nn_module_stack") or {}).items())
    outer = list((around.meta.get("nn_module_stack") or {}).items())
    for mine, its in zip_longest(own[: len(outer)], outer):
        if mine is None or mine[1][1] != its[1][1]:
            return node  # not of the same classes
    if not outer:
        return node
    old, new = str(own[len(outer) - 1][1][0]), str(outer[-1][1][0])
    stack = dict(outer)
    for key, (text, kind) in own[len(outer) :]:
        text = new + str(text).removeprefix(old) if str(text).startswith(old) else str(text)
        stack[f"run {times} of {key}"] = text, kind
    return MovedNode({**node.meta, "nn_module_stack": stack})


class ModuleCalls(Generic[Scope]):
    """The module calls in which traced nodes were made; each is entered once.

    Args:
        enter: makes the scope of a call. It gets the key of Dynamo, which begins with the ``id()`` of the module; where
            Dynamo found the module, ``L['self'].blocks.act``; its class or the name of that; the scope around it.
        outermost: the scope of nodes that were made in none.
    """

    def __init__(self, enter: Callable[[str, str, Any, Scope], Scope], outermost: Scope) -> None:
        self._enter, self._outermost = enter, outermost
        self._running: list[tuple[str, Scope]] = []
        """Keys and scopes of those that the last node was made in."""

    def scope_of(self, traced: TracedNode) -> Scope:
        """The innermost one of a node; to be asked for in the order of the nodes."""
        stack = [(str(key), *entry) for key, entry in (traced.meta.get("nn_module_stack") or {}).items()]
        if is_exported(stack):  # paths are those inside the exported model, whose forward was compiled
            stack = [(each.key, f"L['self'].{each.path}", each.class_name) for each in exported_modules(traced)]
        same = 0
        for (running, _), (key, *_) in zip(self._running, stack, strict=False):
            if running != key:
                break
            same += 1
        del self._running[same:]
        for key, text, kind in stack[same:]:
            self._running.append((key, self._enter(key, str(text), kind, self._innermost)))
        return self._innermost

    @property
    def _innermost(self) -> Scope:
        return self._running[-1][1] if self._running else self._outermost


def source_path(text: str) -> str:
    """``L['self'].blocks.act`` for ``L['self']._modules['blocks'].act``."""
    return re.sub(r"\._(?:modules|parameters|buffers)\['([^']*)'\]", r".\1", text)


def dotted_source(text: str) -> str:
    """``self.blocks.act`` for ``L['self'].blocks.act`` and for ``L['self']._modules['blocks'].act``."""
    return re.sub(r"^[LG]\['([^']*)'\]", r"\1", source_path(text))


def module_at(found: Any, path: str) -> torch.nn.Module | None:
    """What is found there: also in plain lists and dictionaries, ``steps[0].act`` and ``heads['left']``."""
    for name, index, key in re.findall(r"(\w+)(?=[.\[]|$)|\[(\d+)\]|\['([^']*)'\]", path):
        if isinstance(found, torch.nn.Module):
            part = name or index
            found = own_modules(found).get(part, vars(found).get(part))
        elif isinstance(found, (list, tuple)):
            found = found[int(index)] if index and int(index) < len(found) else None
        else:
            found = found.get(name or key) if isinstance(found, dict) else None
    return found if isinstance(found, torch.nn.Module) else None
