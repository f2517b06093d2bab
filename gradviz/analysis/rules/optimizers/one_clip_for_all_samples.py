"""GV769."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse


class OneClipForAllSamples(Rule):
    """Gradients of single samples are clipped with one norm of all of them together.

    What it finds
    -------------
    A tensor with a gradient of a parameter for each sample, as of ``vmap(grad(...))``, that is multiplied by one number
    before its samples are added up, where a bound keeps the number small and it was computed from the norm of the
    whole tensor.

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
            if not _is_over_samples(flow, call, shapes) or not (flow.has_step_after(row) or _is_applied(flow, row)):
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
_REDUCES = frozenset({"sum", "mean"})
_TAKES_ALL = frozenset({"norm", "vector_norm", "matrix_norm", "sum", "dot"})
_BOUNDS = frozenset({"clamp", "clip", "minimum", "min", "where", "clamp_max", "maximum", "max", "clamp_min"})
_NUMBERS = _TAKES_ALL | _BOUNDS | {"add", "mul", "div", "sqrt", "rsqrt", "reciprocal", "stack", "pow", "square", "cat"}
_BY_ELEMENT = frozenset(
    {"view", "reshape", "flatten", "square", "pow", "abs", "mul", "detach", "float", "clone", "cat"}
)


def _is_over_samples(flow: Dataflow, call: Call, shapes: set[Shape]) -> bool:
    """Whether a call adds up the first axis of something without a history, and what is left is as a parameter."""
    if plain_name(call.function) not in _REDUCES or call.kind != "operation" or call.live_inputs or not call.outputs:
        return False
    shape, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    return len(shape) >= _BOTH and shape[0] > 1 and shape[1:] == made in shapes and axes_of(call, len(shape)) == [0]


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
    made = flow.newest_producer(call.inputs[0].tensor, row)
    scaled = None if made is None else flow.lists.single(made, call.inputs[0].tensor)
    if made is None or scaled is None or plain_name(scaled.function) not in ("mul", "div"):
        return None
    shape, factors = shape_of(flow, call.inputs[0].tensor), scaled.inputs if len(scaled.inputs) == _BOTH else ()
    each = next((use for use in factors if shape_of(flow, use.tensor) == shape), None)
    factor = next((use for use in factors if shape_of(flow, use.tensor) == ()), None)
    if each is None or factor is None:
        return None
    above = list(flow.makers_above(factor.tensor, made, _MAX_MAKERS, lambda one: _numbers(flow, one)))
    is_bound = any(plain_name(one.function) in _BOUNDS for _, one in above)
    norm = next((number for number, one in above if _is_of_all(flow, number, one, each)), None)
    return _Clip(norm, made, shape) if norm is not None and is_bound else None


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
    tensor, before = call.inputs[0].tensor, row
    for _ in range(_MAX_MAKERS):
        if tensor == each.tensor:
            return True
        made = flow.newest_producer(tensor, before)
        maker = None if made is None else flow.log.calls[made]
        if made is None or maker is None or plain_name(maker.function) not in _BY_ELEMENT or not maker.inputs:
            return False
        tensor, before = maker.inputs[0].tensor, made
    return False
