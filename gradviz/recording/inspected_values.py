"""Builds the graph of tensors that exist already, for `gradviz.inspect`, or explains why they have none."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sized
from itertools import islice
from types import FrameType
from typing import Any

import torch

from gradviz.capture.capture import Capture
from gradviz.errors import BadInput, NothingRecorded
from gradviz.graph.number_words import counted
from gradviz.recording.forward.tensor_names import NameTable, names_on_stack
from gradviz.recording.forward.tensors_in_containers import MAX_ELEMENTS, named_tensors, stored_attributes
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.recorder import running_recorder
from gradviz.recording.requested_backward import InspectedRoots
from gradviz.recording.run.notebook_cells import program_name, with_cells_named
from gradviz.recording.torch_access import capabilities
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, grad_fn_of
from gradviz.recording.walk.capture_builder import CaptureBuilder
from gradviz.recording.walk.roots import RootTensor, root_of

FORWARD_UNSEEN = (
    "lines and module calls are unknown, because the forward was not recorded: "
    "compute it inside `with gradviz.record():` to see them"
)


def inspect_values(values: tuple[Any, ...], models: Any, frame: FrameType) -> tuple[Capture, InspectedRoots]:
    """The graph of tensors that exist already, with names from `models` and from the variables around `frame`.

    The second result is the tensors themselves, as long as the program holds them.
    """
    capabilities.check()
    names = names_on_stack(frame)
    given_models = names.add_models(models)
    check_models(models, given_models)
    roots = roots_of_values(values, names)
    running = running_recorder()
    builder = running.new_builder() if running is not None else _builder_without_recording()
    builder.add_graph(roots, names, models=given_models)
    if builder.saw_no_forward:
        builder.disclose(FORWARD_UNSEEN)
    for sentence in left_out(values, names):
        builder.disclose(sentence)
    capture = builder.capture(program_name(frame.f_code.co_filename), (), "finished", None)
    return with_cells_named(capture), InspectedRoots.of(roots)


def check_models(models: Any, found: list[Any]) -> None:
    if models is not None and not found:
        raise BadInput(
            f"model is an object of type {type(models).__name__}, not a module",
            hint="pass the torch.nn.Module that computed the tensors, or leave it out",
        )


def _builder_without_recording() -> CaptureBuilder:
    facts = FactsTable()
    return CaptureBuilder(facts, ForwardWatch(facts))


UNNAMED = "output"
"""Stands for a value that no variable holds, in the names of its parts: ``output['loss']``."""


def roots_of_values(values: tuple[Any, ...], names: NameTable) -> list[RootTensor]:
    """The roots in tensors, or in structures of them, in the order given.

    Raises:
        BadInput: there is no tensor in `values`.
        NothingRecorded: none of the tensors has a graph.
    """
    tensors: list[tuple[str, torch.Tensor]] = []
    edges: list[RootTensor] = []
    for value in values:
        edge = _gradient_edge(value)
        if edge is not None:
            edges.append(edge)
            continue
        found = list(named_tensors(value, UNNAMED))
        if not found:
            raise _no_tensor_in(value, names)
        tensors += found
    if not values:
        raise BadInput("inspect() was given nothing", hint="pass the tensor whose graph you want, such as the loss")
    roots = [*edges, *(root for path, tensor in tensors if (root := _root(path, tensor, names)) is not None)]
    if not roots:
        raise _no_graph(tensors, names)
    distinct: dict[tuple[Any, int], RootTensor] = {}
    for root in roots:
        distinct.setdefault((root.grad_fn, root.output_nr), root)
    return list(distinct.values())


def left_out(values: tuple[Any, ...], names: NameTable) -> Iterator[str]:
    """One sentence each about parts of `values` that are not in the graph."""
    tensors = [(path, tensor) for value in values for path, tensor in named_tensors(value, UNNAMED)]
    without = [_name(path, tensor, names) or path for path, tensor in tensors if _grad_fn(tensor) is None]
    if without and len(without) < len(tensors):
        shown = ", ".join(without[:4]) + (f" and {len(without) - 4:,} more" if len(without) > 4 else "")
        yield f"{len(without):,} of the {len(tensors):,} tensors given have no grad_fn and are not shown: {shown}"
    for value in values:
        if isinstance(value, (list, tuple, dict)) and len(value) > MAX_ELEMENTS:
            yield f"only the first {MAX_ELEMENTS:,} of the {len(value):,} elements given were read"


def _gradient_edge(value: Any) -> RootTensor | None:
    if isinstance(value, torch.autograd.graph.Node):
        return RootTensor(None, None, value, 0)
    return root_of(value, None) if isinstance(value, torch.autograd.graph.GradientEdge) else None


def _root(path: str, tensor: torch.Tensor, names: NameTable) -> RootTensor | None:
    return root_of(tensor, _name(path, tensor, names)) if _grad_fn(tensor) is not None else None


def _name(path: str, tensor: torch.Tensor, names: NameTable) -> str | None:
    """The variable that holds a tensor, or else its position in what was given."""
    return names.name_of(tensor) or (path if path != UNNAMED else None)


def _grad_fn(tensor: torch.Tensor) -> Any:
    with DISABLE_TORCH_FUNCTION():
        return grad_fn_of(tensor)


# -- why there is nothing to show --------------------------------------------------------------------------------

_OUTPUT = "pass the tensor whose graph you want, such as the loss"


def _no_tensor_in(value: Any, names: NameTable) -> BadInput:
    kind = type(value)
    if isinstance(value, torch.nn.Module):
        name = names.module_name(value)
        return BadInput(
            f"inspect() was given the model {name} itself ({kind.__name__}), and a graph belongs to its output",
            hint=f"call it first: gradviz.inspect({name}(...), model={name})",
        )
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        return BadInput(f"inspect() takes tensors, not the text {path!r}", hint=f"did you mean gradviz.load({path!r})?")
    if kind.__module__.partition(".")[0] == "numpy":
        return BadInput(
            f"inspect() was given a NumPy {kind.__name__}, which has no graph",
            hint="pass the tensor that it was made from",
        )
    if value is None:
        return BadInput("inspect() was given None", hint=f"{_OUTPUT}; does the function that makes it return it?")
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return BadInput(f"there is no tensor in {_contents(value)} that inspect() was given", hint=_OUTPUT)
    if callable(value):
        return BadInput(
            f"inspect() takes tensors, and calls nothing: it was given a {kind.__name__}", hint="pass what it returns"
        )
    return BadInput(
        f"inspect() takes tensors, not an object of type {kind.__name__}", hint=_tensors_of(value) or _OUTPUT
    )


def _contents(value: Sized) -> str:
    """``the empty list``, ``the dict of 3 values (2 str, 1 int)``."""
    kind = type(value).__name__
    if not len(value):
        return f"the empty {kind}"
    elements = value.values() if isinstance(value, dict) else iter(value)  # type: ignore[call-overload]
    counts = Counter(type(element).__name__ for element in islice(elements, MAX_ELEMENTS))
    found = ", ".join(f"{count} {name}" for name, count in counts.most_common(4))
    return f"the {kind} of {counted(len(value), 'value')} ({found})"


def _tensors_of(value: Any) -> str | None:
    """A hint where the tensors are attributes of an object."""
    held = [name for name, part in stored_attributes(value).items() if issubclass(type(part), torch.Tensor)]
    return f"pass one of its tensors: {', '.join(f'.{name}' for name in held[:4])}" if held else None


def _no_graph(tensors: list[tuple[str, torch.Tensor]], names: NameTable) -> NothingRecorded:
    path, tensor = tensors[0]
    name = _name(path, tensor, names) or "the tensor"
    reason, hint = _why_without_graph(tensor)
    if len(tensors) > 1:
        return NothingRecorded(f"none of the {len(tensors):,} tensors has a grad_fn; {name}, say, {reason}", hint=hint)
    return NothingRecorded(f"{name} has no grad_fn: it {reason}", hint=hint)


def _why_without_graph(tensor: torch.Tensor) -> tuple[str, str]:
    with DISABLE_TORCH_FUNCTION():
        if tensor.requires_grad:
            return "is a leaf, which no operation made", "pass what was computed from it"
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return f"holds {str(tensor.dtype).removeprefix('torch.')}, of which there are no gradients", _OUTPUT
        if tensor.is_inference():
            return "was computed under torch.inference_mode()", "compute it outside of that"
    why = "was computed under torch.no_grad(), was detached, or nothing that it was computed from requires grad"
    if not torch.is_grad_enabled():
        return why, "gradients are off right now: compute it outside of torch.no_grad()"
    return why, "check requires_grad of what it was computed from"
