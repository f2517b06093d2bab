"""GV933."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.graph.call_log import Call


class StandardizedAcross(Rule):
    """A correlation of features over the batch is made of values that were standardized within each sample.

    What it finds
    -------------
    A product ``a.T @ b`` of two results of a network, which adds up over the samples and whose diagonal is compared
    with 1, where both factors have mean 0 and deviation 1 over the features of each sample, and not over the batch.

    Why it matters
    --------------
    The product is a matrix of correlations only if each feature has mean 0 and deviation 1 over what is added up
    (Barlow Twins: ``(z - z.mean(0)) / z.std(0)``). Standardized the other way, a feature that is large in each sample
    looks like one that agrees, and the loss asks for values that have nothing to do with agreement.

    Example
    -------
    model = torch.nn.Linear(6, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(32, 6)
        a, b = model(x + 0.1 * torch.randn(32, 6)), model(x + 0.1 * torch.randn(32, 6))
        a = (a - a.mean(1, keepdim=True)) / a.std(1, keepdim=True)
        b = (b - b.mean(1, keepdim=True)) / b.std(1, keepdim=True)
        loss = (a.T @ b / 32 - torch.eye(5)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(6, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(32, 6)
        a, b = model(x + 0.1 * torch.randn(32, 6)), model(x + 0.1 * torch.randn(32, 6))
        a = (a - a.mean(0)) / a.std(0)
        b = (b - b.mean(0)) / b.std(0)
        loss = (a.T @ b / 32 - torch.eye(5)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV933"
    name = "standardized_across"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _PRODUCTS):
            if call.call_site in told or len(call.live_inputs) != _BOTH or not flow.has_step_after(row):
                continue
            factors = _factors(flow, row, call)
            # The covariance of one result with itself may well be brought to a unit matrix, whatever its deviation is.
            is_of_two = factors is not None and factors[0] != factors[1]
            scaled = [_standardized(flow, each, row) for each in factors] if factors is not None and is_of_two else []
            found = [each for each in scaled if each is not None]
            if len(found) == _BOTH and _meets_one(flow, row, call):
                told.add(call.call_site)
                yield self._finding(flow, found[0], row)

    def _finding(self, flow: Dataflow, standardized: int, row: int) -> Finding:
        location, product = two_lines(flow, standardized, row)
        count, features = shape_of(flow, flow.log.calls[standardized].outputs[0].tensor)
        return self.finding(
            f"values are standardized over the {features} features of each sample, and then correlated"
            f"{at_line(product)} "
            f"over the {count} samples",
            symptom="grad_wrong",
            why="a mean of products is a correlation only if the mean is 0 and the deviation 1 over what is averaged",
            fix="standardize over the batch: (z - z.mean(0)) / z.std(0)",
            location=location,
            symptom_location=product,
            evidence={"samples": count, "features": features},
        )


_BOTH = 2
_PRODUCTS = frozenset({"matmul", "mm", "einsum"})
_TURNS = frozenset({"T", "t", "mT", "transpose", "permute", "swapaxes", "adjoint"})
_SPREADS = frozenset({"std", "var", "norm", "vector_norm"})
_ON_THE_WAY = frozenset({"add", "clamp", "clamp_min", "sqrt", "rsqrt", "div", "mul"})
_MAX_CALLS = 6


def _factors(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """The two matrices of a product that adds up over the first axis of both."""
    one, other = call.inputs[0].tensor, call.inputs[1].tensor
    if any(len(shape_of(flow, each)) != _BOTH for each in (one, other)):
        return None
    if plain_name(call.function) == "einsum":
        equation = equation_of(call)
        first, second = (*equation.terms, "")[:_BOTH]
        is_over_samples = equation.is_plain and first[:1] == second[:1] and equation.result == first[1:] + second[1:]
        return (one, other) if is_over_samples else None
    made = flow.newest_producer(one, row)
    turned = None if made is None else flow.log.calls[made]
    is_turned = turned is not None and plain_name(turned.function) in _TURNS
    return (turned.inputs[0].tensor, other) if is_turned and turned is not None else None


def _standardized(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call by which a matrix got the mean 0 and the deviation 1 over the features of each row."""
    made = value_maker(flow, tensor, row)
    if made is not None and plain_name(made[1].function) == "layer_norm":
        return made[0]
    if made is None or plain_name(made[1].function) != "div" or len(made[1].inputs) != _BOTH:
        return None
    number, call = made
    centred = value_maker(flow, call.inputs[0].tensor, number)
    spread = value_maker(flow, call.inputs[1].tensor, number, through=_ON_THE_WAY)
    if centred is None or spread is None or plain_name(centred[1].function) != "sub" or len(centred[1].inputs) != _BOTH:
        return None
    mean = value_maker(flow, centred[1].inputs[1].tensor, centred[0])
    if mean is None or plain_name(mean[1].function) != "mean" or plain_name(spread[1].function) not in _SPREADS:
        return None
    return number if all(axis_of(each[1], _BOTH) == 1 for each in (mean, spread)) else None


def _meets_one(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether 1 is subtracted from the diagonal of a product, or a unit matrix from all of it."""
    waiting = [(call.outputs[0].tensor, row, _MAX_CALLS, False)]
    while waiting:
        tensor, at, left, is_diagonal = waiting.pop()
        for user in flow.users(tensor, at) if left else ():
            used = flow.log.calls[user]
            name = plain_name(used.function)
            if name in ("sub", "add", "mse_loss") and _takes_one(flow, used, tensor, user, is_diagonal=is_diagonal):
                return True
            if used.outputs and name in ("div", "mul", "diagonal", "diag", "clone"):
                waiting.append((used.outputs[0].tensor, user, left - 1, is_diagonal or name in ("diagonal", "diag")))
    return False


def _takes_one(flow: Dataflow, call: Call, tensor: int, row: int, *, is_diagonal: bool) -> bool:
    if is_diagonal and len(call.inputs) == 1:
        return any(type(value) in (int, float) and abs(float(value)) == 1 for value in call.scalars.values())  # type: ignore[arg-type]
    others = [use.tensor for use in call.inputs if use.tensor != tensor]
    made = flow.newest_producer(others[0], row) if others else None
    name = "" if made is None else plain_name(flow.log.calls[made].function)
    return name == "eye" or (is_diagonal and name in ("ones", "ones_like"))
