"""GV769."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import summed_axes
from gradviz.graph.call_log import Call, TensorUse


class OneClipForAllSamples(Rule):
    """Gradients of single samples are clipped with one norm of all of them together.

    What it finds
    -------------
    A tensor with a gradient of a parameter for each sample, as of ``vmap(grad(...))``, that is multiplied by one number
    before or after its samples are added up, where a bound keeps the number small and it was computed from the norm of
    the whole tensor.

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
            each = _samples_added_up(flow, call, shapes)
            if each is None or not (flow.has_step_after(row) or _is_applied(flow, row)):
                continue
            clip = _clip(flow, row, call, each)
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
_MAX_USERS = 4
_REDUCES = frozenset({"sum", "mean", "einsum"})
_TAKES_ALL = frozenset({"norm", "vector_norm", "matrix_norm", "sum", "dot"})
_BOUNDS = frozenset({"clamp", "clip", "minimum", "min", "where", "clamp_max", "maximum", "max", "clamp_min"})
_NUMBERS = _TAKES_ALL | _BOUNDS | {"add", "mul", "div", "sqrt", "rsqrt", "reciprocal", "stack", "pow", "square", "cat"}
_BY_ELEMENT = frozenset({
    "view", "reshape", "flatten", "ravel", "square", "pow", "abs", "mul", "detach", "float", "clone", "cat", "norm",
    "vector_norm", "stack",
})  # fmt: skip


def _samples_added_up(flow: Dataflow, call: Call, shapes: set[Shape]) -> TensorUse | None:
    """What a call adds up over its first axis, without a history, if what is left is as a parameter."""
    if plain_name(call.function) not in _REDUCES or call.kind != "operation" or call.live_inputs or not call.outputs:
        return None
    made = shape_of(flow, call.outputs[0].tensor)
    given = [use for use in call.inputs if shape_of(flow, use.tensor) != ()]
    shape = shape_of(flow, given[0].tensor) if len(given) == 1 else ()
    if len(shape) < _BOTH or shape[0] < _BOTH or shape[1:] != made or made not in shapes:
        return None
    return given[0] if summed_axes(call, given[0], len(shape)) == frozenset({0}) else None


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


def _clip(flow: Dataflow, row: int, call: Call, each: TensorUse) -> _Clip | None:
    """The clip of the gradients that a call adds up: one number that they are multiplied with before or after it."""
    shape = shape_of(flow, each.tensor)
    for made, scaled in _scaled(flow, row, call, each):
        factor = next((use for use in scaled.inputs if shape_of(flow, use.tensor) == ()), None)
        stacked = next((use for use in scaled.inputs if shape_of(flow, use.tensor) == shape), each)
        if factor is None or len(scaled.inputs) != _BOTH:
            continue
        above = list(flow.makers_above(factor.tensor, made, _MAX_MAKERS, lambda one: _numbers(flow, one)))
        is_bound = any(plain_name(one.function) in _BOUNDS for _, one in above)
        norm = min((number for number, one in above if _is_of_all(flow, number, one, stacked)), default=None)
        if norm is not None and is_bound:
            return _Clip(norm, made, shape)
    return None


def _scaled(flow: Dataflow, row: int, call: Call, each: TensorUse) -> Iterator[tuple[int, Call]]:
    """The products that the gradients of the samples, or their sum, go through next to it."""
    if len(call.inputs) == _BOTH:  # einsum("nij,->ij", each, factor)
        yield row, call
    made = flow.newest_producer(each.tensor, row)
    nearby = [made] if made is not None else []
    nearby += flow.users(call.outputs[0].tensor, row)[:_MAX_USERS] if call.outputs else ()
    for near in nearby:
        tensor = each.tensor if near == made else call.outputs[0].tensor
        scaled = flow.lists.single(near, tensor)
        if plain_name(scaled.function) in ("mul", "div"):
            yield near, scaled


def _numbers(flow: Dataflow, call: Call) -> tuple[TensorUse, ...]:
    """The inputs of a call on numbers, or on a row of numbers that were stacked."""
    if plain_name(call.function) not in _NUMBERS:
        return ()
    return tuple(use for use in call.inputs if len(shape_of(flow, use.tensor)) <= 1)


def _is_of_all(flow: Dataflow, row: int, call: Call, each: TensorUse) -> bool:
    """Whether a call makes one number of all elements of the gradients, or of their squares."""
    if plain_name(call.function) == "_foreach_norm":
        return any(use.tensor == each.tensor for use in call.inputs)
    if plain_name(call.function) not in _TAKES_ALL or shape_of(flow, call.outputs[0].tensor):
        return False
    given = list(call.inputs)
    for use in call.inputs:
        for _, one in flow.makers_above(use.tensor, row, _MAX_MAKERS, _elements):
            given += _elements(one)
    return any(use.tensor == each.tensor for use in given)


def _elements(call: Call) -> tuple[TensorUse, ...]:
    """What a call takes of which it returns each element, or its square, or the norms of some of them."""
    return call.inputs if plain_name(call.function) in _BY_ELEMENT else ()
