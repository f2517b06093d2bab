"""GV658."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call


class OneNormForAllSamples(Rule):
    """A gradient penalty takes one norm of the gradients of all samples together, or one of each pixel or variable.

    What it finds
    -------------
    A loss with ``(norm - 1) ** 2``, where the norm is one number of everything that
    ``autograd.grad(create_graph=True)`` or ``torch.func.grad`` returned for a whole batch of data. Also norms over one
    of several axes of each sample, such as the channels of a picture, and norms over the axis of the samples, where the
    differentiated network gives one number for each sample.

    Why it matters
    --------------
    The penalty is meant to keep the slope at every sample near 1. The norm of all of them together is much larger, by
    the root of the number of samples: the slope at each sample is pushed towards 1 / sqrt(n), and samples with steep
    slopes make up for others with flat ones. If each pixel has a norm of its own, all of them are pushed towards 1, and
    the slope of the sample towards the root of their number.

    Example
    -------
    critic = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(16, 3).requires_grad_()
        (slopes,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        penalty = (slopes.norm() - 1) ** 2
        loss = critic(torch.randn(16, 3)).mean() - critic(1 + torch.randn(16, 3)).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    critic = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(16, 3).requires_grad_()
        (slopes,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        penalty = ((slopes.norm(dim=1) - 1) ** 2).mean()
        loss = critic(torch.randn(16, 3)).mean() - critic(1 + torch.randn(16, 3)).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV658"
    name = "one_norm_for_all_samples"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row in flow.rows_of_kind("backward"):
            call = flow.log.calls[row]
            if not call.scalars.get("create_graph") or not call.outputs or not flow.has_step_after(row):
                continue
            for result, asked in zip(call.outputs, call.asked, strict=False):
                is_data = flow.log.tensors[asked.tensor].role == "tensor"
                norm = _norm_of_all(flow, result.tensor, row) if is_data else None
                if norm is not None and flow.log.calls[norm].call_site not in told:
                    told.add(flow.log.calls[norm].call_site)
                    yield self._finding(flow, norm, row, shape_of(flow, result.tensor)[0])
                part = _norm_of_parts(flow, result.tensor, row) if is_data and norm is None else None
                if part is not None and flow.log.calls[part].call_site not in told:
                    told.add(flow.log.calls[part].call_site)
                    yield self._of_parts(flow, part, row)
                over = _norm_over_samples(flow, result.tensor, row) if is_data and norm is None else None
                if over is not None and flow.log.calls[over].call_site not in told:
                    told.add(flow.log.calls[over].call_site)
                    yield self._over_samples(flow, over, row)

        for row, call in enumerate(flow.log.calls):
            if call.call_site not in told and _is_of_rows(flow, row, call):
                told.add(call.call_site)
                # Of norm(p=1), which says what it means, the log has the same.
                if ".norm(1)" in (case.source_line(location_of_call(flow, row)) or "").replace(" ", ""):
                    yield self._of_order(flow, row)

    def _of_parts(self, flow: Dataflow, norm: int, row: int) -> Finding:
        call = flow.log.calls[norm]
        location, grad = two_lines(flow, norm, row)
        shape, norms = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
        count = prod(norms) // shape[0]
        return self.finding(
            f"the penalty compares {count:,} norms of each sample with a number: of gradients with the shape {shape}, "
            f"norms over one axis have the shape {norms}",
            symptom="grad_wrong",
            why="the critic gives one number for each sample, whose slope is the norm of all gradients of that sample: "
            f"norms of 1 for all parts make it {count**0.5:.3g}",
            fix="take one norm for each sample: g.flatten(1).norm(dim=1)",
            location=location,
            symptom_location=grad,
            evidence={"parts": count},
        )

    def _over_samples(self, flow: Dataflow, norm: int, row: int) -> Finding:
        shape = shape_of(flow, flow.log.calls[norm].inputs[0].tensor)
        location, grad = two_lines(flow, norm, row)
        return self.finding(
            f"the penalty compares {prod(shape[1:]):,} norms over all {shape[0]:,} samples with a number, one for each "
            f"variable: of gradients with the shape {shape}, the first axis is that of the samples",
            symptom="grad_wrong",
            why="the slope of the critic at a sample is the norm over the variables of that sample; the norms over the "
            "samples grow with the batch",
            fix="take one norm for each sample: g.flatten(1).norm(dim=1)",
            location=location,
            symptom_location=grad,
            evidence={"samples": shape[0]},
        )

    def _of_order(self, flow: Dataflow, row: int) -> Finding:
        shape = shape_of(flow, flow.log.calls[row].inputs[0].tensor)
        return self.finding(
            f"norm(1) of {shape} is one number, the sum of the absolute values of all {shape[0]:,} samples: its 1 is "
            "the order of the norm, and not the axis",
            symptom="grad_wrong",
            why="the samples were laid out as rows, which have a norm each only if the axis is named",
            fix="name the axis: norm(dim=1)",
            location=location_of_call(flow, row),
            evidence={"samples": shape[0]},
        )

    def _finding(self, flow: Dataflow, norm: int, row: int, samples: int) -> Finding:
        location, grad = location_of_call(flow, norm), location_of_call(flow, row)
        return self.finding(
            f"the penalty compares one norm of the gradients of all {samples:,} samples with a number"
            f"{', of what autograd.grad() returned' + at_line(grad) if grad != location else ''}",
            symptom="grad_wrong",
            why="the norm of all samples together is the root of the sum of their squares: the slope at each is pushed "
            f"towards {samples**-0.5:.2g} of the number",
            fix="take the norm of each sample, and average the penalties: ((g.flatten(1).norm(dim=1) - 1) ** 2).mean()",
            location=location,
            symptom_location=grad if grad != location else None,
            evidence={"samples": samples},
        )


_SAMPLES = 2
_MOST_USERS = 8
_NORMS = frozenset({"norm", "vector_norm"})
_SHAPES = frozenset({"view", "reshape", "flatten", "contiguous", "squeeze"})
_DIMS = ("dim", "axis")
_AXES = ("dim", "dim[0]", "axis", "2")


def _is_of_rows(flow: Dataflow, row: int, call: Call) -> bool:
    """``g.flatten(1).norm(1)``: rows for the samples are made, and then a norm of order 1 of all of them is taken."""
    if plain_name(call.function) != "norm" or call.scalars.get("p", call.scalars.get("1")) != 1:
        return False
    if not call.outputs or shape_of(flow, call.outputs[0].tensor) != ():
        return False
    made = flow.newest_producer(call.inputs[0].tensor, row)
    maker = None if made is None else flow.log.calls[made]
    shape = shape_of(flow, call.inputs[0].tensor)
    return (
        maker is not None
        and plain_name(maker.function) in _SHAPES
        and len(shape) == _SAMPLES
        and shape[0] >= _SAMPLES
        and shape_of(flow, maker.inputs[0].tensor)[:1] == shape[:1]
    )


def _norm_of_parts(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that takes norms over one of several axes of each sample, where the network gave one number for each."""
    shape = shape_of(flow, tensor)
    if len(shape) <= _SAMPLES or shape[0] < _SAMPLES or not _is_of_numbers(flow, row, shape[0]):
        return None
    for user in flow.users(tensor, row)[:_MOST_USERS]:
        call = flow.log.calls[user]
        if plain_name(call.function) not in _NORMS or not call.outputs or call.inputs[0].tensor != tensor:
            continue
        norms = call.outputs[0].tensor
        is_of_each = shape_of(flow, norms)[:1] == shape[:1] and prod(shape_of(flow, norms)) > shape[0]
        if is_of_each and _is_compared(flow, norms, user):
            return user
    return None


def _norm_over_samples(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that takes norms over the axis of the samples, where the network gave one number for each of them."""
    shape = shape_of(flow, tensor)
    if len(shape) < _SAMPLES or shape[0] < _SAMPLES or not _is_of_numbers(flow, row, shape[0]):
        return None
    for user in flow.users(tensor, row)[:_MOST_USERS]:
        call = flow.log.calls[user]
        if not call.outputs or call.kind != "operation" or call.inputs[0].tensor != tensor:
            continue
        name, result = plain_name(call.function), call.outputs[0].tensor
        if name in _SHAPES and shape_of(flow, result)[:1] == shape[:1] and len(shape_of(flow, result)) > 1:
            # The derivative itself says how many numbers the network gave.
            shaped = next((each for each in flow.users(result, user)[:_MOST_USERS] if _is_over_first(flow, each)), None)
        else:
            shaped = user if _is_over_first(flow, user) else None
        if shaped is not None and _is_compared(flow, flow.log.calls[shaped].outputs[0].tensor, shaped):
            return shaped
    return None


def _is_over_first(flow: Dataflow, row: int) -> bool:
    call = flow.log.calls[row]
    if plain_name(call.function) not in _NORMS or not call.outputs:
        return False
    rank = len(shape_of(flow, call.inputs[0].tensor))
    named = [number for place in _AXES if type(number := call.scalars.get(place)) is int]
    return rank > 1 and bool(named) and all(number in (0, -rank) for number in named)


def _is_of_numbers(flow: Dataflow, row: int, samples: int) -> bool:
    """Whether a derivative is that of one number for each sample, or of their sum."""
    roots = flow.log.calls[row].roots
    if len(roots) != 1:
        return False
    tensor = roots[0].tensor
    if shape_of(flow, tensor) == ():
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in ("sum", "mean"):
            return False
        tensor = call.inputs[0].tensor
    return prod(shape_of(flow, tensor)) == samples


def _norm_of_all(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that makes a single number of the gradients of several samples, if it is then compared with another."""
    shape = shape_of(flow, tensor)
    if len(shape) < _SAMPLES or shape[0] < _SAMPLES:
        return None
    for user in flow.users(tensor, row)[:_MOST_USERS]:
        call = flow.log.calls[user]
        if not call.outputs or call.kind != "operation":
            continue
        name, result = plain_name(call.function), call.outputs[0].tensor
        if name in _SHAPES:
            found = _norm_of_all(flow, result, user) if shape_of(flow, result)[:1] == shape[:1] else None
        else:
            found = user if _is_of_all(flow, call, name) and _is_compared(flow, result, user) else None
        if found is not None:
            return found
    return None


def _is_of_all(flow: Dataflow, call: Call, name: str) -> bool:
    is_scalar = shape_of(flow, call.outputs[0].tensor) == ()
    return name in _NORMS and is_scalar and not any(place.startswith(_DIMS) for place in call.scalars)


def _is_compared(flow: Dataflow, norm: int, row: int) -> bool:
    """Whether a number is subtracted from a norm, or the norm from it, and the difference squared."""
    for user in flow.users(norm, row)[:_MOST_USERS]:
        call = flow.log.calls[user]
        is_difference = plain_name(call.function) == "sub" and len(call.inputs) == 1 and bool(call.outputs)
        if is_difference and number_of(call, *OPERAND, missing=0.0):
            return any(is_squared(flow.log.calls[each]) for each in flow.users(call.outputs[0].tensor, user))
    return False
