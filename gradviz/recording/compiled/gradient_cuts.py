"""Finds where gradients are cut off inside compiled code: in the replay of what Dynamo traced.

A parameter that the code uses, and that no gradient comes back to, is followed along everything that is computed from
it, to the calls whose results do not require grad.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx

from gradviz.graph.compilations import GradientCut
from gradviz.recording.compiled.region_replay import CannotReplay, Replay, replayed
from gradviz.recording.forward.function_names import public_name
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.run.file_kinds import is_library_file
from gradviz.recording.run.traced_stacks import frames_of
from gradviz.recording.torch_access.dynamo.dynamo_graphs import TensorInput, TracedGraph


def gradient_cuts(traced: TracedGraph, names: ModuleNames) -> tuple[GradientCut, ...]:
    """The cuts inside a traced graph; none if it has no gradients, or cannot be run again."""
    try:
        found = replayed(traced)
    except CannotReplay:  # its region is closed, and says so
        return ()
    if not any(each is not None for each in found.results):
        return ()
    cuts: dict[GradientCut, list[str]] = {}
    for name, placeholder in _parameters_without_gradient(traced, found, names):
        for cut in dict.fromkeys(_cuts_behind(placeholder, found)):
            cuts.setdefault(cut, []).append(name)
    return tuple(
        GradientCut(cut.function, tuple(parameters), cut.file, cut.line, cut.is_grad_off)
        for cut, parameters in cuts.items()
    )


def _parameters_without_gradient(
    traced: TracedGraph, found: Replay, names: ModuleNames
) -> Iterator[tuple[str, fx.Node]]:
    placeholders = (node for node in traced.graph.nodes if node.op == "placeholder")
    reached = set(found.input_of.values())
    number = 0
    for placeholder, given in zip(placeholders, traced.inputs, strict=True):
        if not isinstance(given, TensorInput):
            continue
        known = names.parameters.get(given.tensor_id)
        if given.requires_grad and number not in reached and known:
            yield next(iter(known)), placeholder
        number += 1


def _cuts_behind(placeholder: fx.Node, found: Replay) -> Iterator[GradientCut]:
    """The calls without gradient that are reached first from here; one without name if there are none."""
    waiting, seen = [placeholder], {placeholder}
    is_cut = False
    while waiting:
        for user in waiting.pop().users:
            if user in seen:
                continue
            seen.add(user)
            if user.name in found.without_gradient:
                is_cut = True
                yield _cut_at(user, is_grad_off=found.without_gradient[user.name])
            else:
                waiting.append(user)
    if not is_cut:
        yield GradientCut("", ())


def _cut_at(node: fx.Node, *, is_grad_off: bool) -> GradientCut:
    name = f"torch.Tensor.{node.target}" if node.op == "call_method" else public_name(node.target)
    frames = list(frames_of(node))
    own = [frame for frame in frames if not is_library_file(frame.file)] or frames
    return GradientCut(name, (), own[-1].file if own else "", own[-1].line if own else 0, is_grad_off)
