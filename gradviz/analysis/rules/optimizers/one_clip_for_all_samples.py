"""GV769."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import summed_axes
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call, TensorUse


class OneClipForAllSamples(Rule):
    """Gradients of single samples are clipped with one norm of all of them together.

    What it finds
    -------------
    A tensor with a gradient of a parameter for each sample, as of ``vmap(grad(...))``, or of all parameters in a row,
    that is multiplied by one number before its samples are added up, or afterwards, where a bound keeps the number
    small and it was computed from the norm of the whole tensor.

    Why it matters
    --------------
    Differentially private training bounds what each sample contributes. With one norm for all, a sample with a large
    gradient contributes as large a share as before, and the others are made smaller because of it: the noise that is
    added hides no one.

    Example
    -------
    weight = torch.nn.Parameter(torch.randn(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    error = lambda w, x, y: (x @ w - y) ** 2
    for step in range(3):
        x, y = torch.randn(16, 3), torch.randn(16)
        each = torch.func.vmap(torch.func.grad(error), (None, 0, 0))(weight.detach(), x, y)
        factor = (1.0 / (each.norm() + 1e-6)).clamp(max=1.0)
        weight.grad = (each * factor).mean(0) + 0.01 * torch.randn(3)
        optimizer.step()

    Instead
    -------
    weight = torch.nn.Parameter(torch.randn(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    error = lambda w, x, y: (x @ w - y) ** 2
    for step in range(3):
        x, y = torch.randn(16, 3), torch.randn(16)
        each = torch.func.vmap(torch.func.grad(error), (None, 0, 0))(weight.detach(), x, y)
        factor = (1.0 / (each.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1.0)
        weight.grad = (each * factor).mean(0) + 0.01 * torch.randn(3)
        optimizer.step()
    """

    code = "GV769"
    name = "one_clip_for_all_samples"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        shapes = {shape_of(flow, number) for number in flow.log.parameters}
        for row, call in enumerate(flow.log.calls):
            if not _is_over_samples(flow, row, call, shapes) or not (
                flow.has_step_after(row) or _is_applied(flow, row)
            ):
                continue
            clip = _clip(flow, row, call)
            if clip is not None and flow.log.calls[clip.norm].call_site not in told:
                told.add(flow.log.calls[clip.norm].call_site)
                yield self._finding(flow, clip)

    def _finding(self, flow: Dataflow, clip: _Clip) -> Finding:
        location, scaled = two_lines(flow, clip.norm, clip.scaled)
        return self.finding(
            f"{call_words(flow.log.calls[clip.norm])} makes one number of the gradients of all "
            f"{clip.shape[0]:,} samples, {clip.shape}, and all of them are clipped with it",
            symptom="grad_wrong",
            why="a bound for each sample needs the norm of each: one large gradient makes all others small, and keeps "
            "its share",
            fix="take the norm of each sample: each.flatten(1).norm(dim=1), and give the factors the axes of the "
            "gradients",
            location=location,
            symptom_location=scaled,
            evidence={"samples": clip.shape[0]},
        )


class _Clip(Struct, frozen=True):
    """Gradients of samples that are multiplied by one number."""

    norm: int
    """The call that makes one number of all of them."""
    scaled: int
    shape: Shape


_BOTH = 2
_MAX_MAKERS = 24
_REDUCES = frozenset({"sum", "mean", "einsum"})
_TAKES_ALL = frozenset({"norm", "vector_norm", "matrix_norm", "sum", "dot"})
_BOUNDS = frozenset({"clamp", "clip", "minimum", "min", "where", "clamp_max", "maximum", "max", "clamp_min"})
_NUMBERS = (
    _TAKES_ALL
    | _BOUNDS
    | {"add", "mul", "div", "sqrt", "rsqrt", "reciprocal", "stack", "pow", "square", "cat"}
    | SHAPE_ONLY
)
_BY_ELEMENT = frozenset(
    {"view", "reshape", "flatten", "square", "pow", "abs", "mul", "detach", "float", "clone", "cat"}
)


def _is_over_samples(flow: Dataflow, row: int, call: Call, shapes: set[Shape]) -> bool:
    """Whether a call adds up the first axis of something without a history, and what is left is as a parameter, or as
    several parameters in a row."""
    if plain_name(call.function) not in _REDUCES or call.kind != "operation" or call.live_inputs or not call.outputs:
        return False
    shape, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    if (
        len(shape) < _BOTH
        or shape[0] < _BOTH
        or shape[1:] != made
        or summed_axes(call, call.inputs[0], len(shape)) != frozenset({0})
    ):
        return False
    return made in shapes or (len(made) == 1 and _is_of_parameters(flow, row, call, shapes))


def _is_of_parameters(flow: Dataflow, row: int, call: Call, shapes: set[Shape]) -> bool:
    """Whether what a call adds up was put together, for each sample, from tensors that are as parameters."""
    for made, maker in flow.makers(call.inputs[0].tensor, row, _MAX_SCALED):
        if plain_name(maker.function) in _JOINS:
            parts = [(use.tensor, made) for use in maker.inputs]
            return len(parts) > 1 and all(_shape_before(flow, *part)[1:] in shapes for part in parts)
        if plain_name(maker.function) not in ("mul", "div"):
            return False
    return False


_MAX_SCALED = 4
_JOINS = frozenset({"cat", "hstack", "column_stack"})


def _shape_before(flow: Dataflow, tensor: int, row: int) -> Shape:
    """The shape of a tensor before it was flattened."""
    for _ in range(_MAX_SCALED):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in SHAPE_ONLY or len(call.inputs) != 1:
            break
        tensor, row = call.inputs[0].tensor, made
    return shape_of(flow, tensor)


def _is_applied(flow: Dataflow, row: int) -> bool:
    """Whether the program itself changes something in place by what a call returns, as steps by hand do."""
    waiting, count = [row], 0
    while waiting and count < _MAX_MAKERS:
        made = waiting.pop()
        result = flow.log.calls[made].outputs[0].tensor
        for user in flow.users(result, made):
            call, count = flow.log.calls[user], count + 1
            if any(use.tensor != result for use in call.changed):
                return True
            if plain_name(call.function) in _STEPS and call.outputs:
                waiting.append(user)
    return False


_STEPS = frozenset({"add", "sub", "mul", "div", "neg"})


def _clip(flow: Dataflow, row: int, call: Call) -> _Clip | None:
    """The call that multiplies the gradients of all samples by one number, before they are added up or afterwards."""
    given, result = call.inputs[0].tensor, call.outputs[0].tensor
    made = flow.newest_producer(given, row)
    scaled = None if made is None else flow.lists.single(made, given)
    if made is not None and scaled is not None and plain_name(scaled.function) in ("mul", "div"):
        shape = shape_of(flow, given)
        each = next((use.tensor for use in scaled.inputs if shape_of(flow, use.tensor) == shape), None)
        if each is not None and (found := _clip_with(flow, made, scaled, each, shape)) is not None:
            return found
    for user in flow.users(result, row):
        scaled = flow.lists.single(user, result)
        if plain_name(scaled.function) in ("mul", "div"):
            return _clip_with(flow, user, scaled, given, shape_of(flow, given))
    return None


def _clip_with(flow: Dataflow, row: int, scaled: Call, each: int, shape: Shape) -> _Clip | None:
    """The norm from which the factor of a call comes, if it is that of these gradients, and bounded."""
    factors = scaled.inputs if len(scaled.inputs) == _BOTH else ()
    factor = next((use for use in factors if use.tensor != each and prod(shape_of(flow, use.tensor)) == 1), None)
    if factor is None:
        return None
    above = list(flow.makers_above(factor.tensor, row, _MAX_MAKERS, lambda one: _numbers(flow, one)))
    is_bound = any(plain_name(one.function) in _BOUNDS for _, one in above)
    norm = next((number for number, one in above if _is_of_all(flow, number, one, each)), None)
    return _Clip(norm, row, shape) if norm is not None and is_bound else None


def _numbers(flow: Dataflow, call: Call) -> tuple[TensorUse, ...]:
    """The inputs of a call on numbers, or on a row of numbers that were stacked."""
    if plain_name(call.function) not in _NUMBERS:
        return ()
    return tuple(use for use in call.inputs if len(shape_of(flow, use.tensor)) <= 1)


def _is_of_all(flow: Dataflow, row: int, call: Call, each: int) -> bool:
    """Whether a call makes one number of all elements of the gradients, or of their squares."""
    if plain_name(call.function) == "_foreach_norm":
        return any(use.tensor == each for use in call.inputs)
    if plain_name(call.function) not in _TAKES_ALL or shape_of(flow, call.outputs[0].tensor):
        return False
    tensor, before = call.inputs[0].tensor, row
    for _ in range(_MAX_MAKERS):
        if tensor == each:
            return True
        made = flow.newest_producer(tensor, before)
        maker = None if made is None else flow.log.calls[made]
        if made is None or maker is None or plain_name(maker.function) not in _BY_ELEMENT or not maker.inputs:
            return False
        tensor, before = maker.inputs[0].tensor, made
    return False
