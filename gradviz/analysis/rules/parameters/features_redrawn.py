"""GV757."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, value_maker
from gradviz.graph.call_log import Call, TensorUse, ValueFacts


class FeaturesRedrawn(Rule):
    """The frequencies of Fourier features are drawn anew in every forward.

    What it finds
    -------------
    Data times a random matrix, of which a trained layer gets the sines and cosines, where each step draws another
    matrix. Random features of which only statistics are computed are left alone, and those that a fixed seed draws
    again.

    Why it matters
    --------------
    The layer learns what each frequency means. With other frequencies in every step, nothing that it has learned fits
    the next one, and in evaluation it gets features that it has never seen.

    Example
    -------
    layer = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(8, 2)
        frequencies = torch.randn(2, 8)
        angles = x @ frequencies
        loss = (layer(torch.cat([angles.sin(), angles.cos()], dim=1)) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    layer = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    frequencies = torch.randn(2, 8)
    for step in range(4):
        x = torch.randn(8, 2)
        angles = x @ frequencies
        loss = (layer(torch.cat([angles.sin(), angles.cos()], dim=1)) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV757"
    name = "features_redrawn"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[_Features]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            found = _features(flow, row) if plain_name(call.function) == "sin" and flow.has_step_after(row) else None
            if found is not None:
                lines[call.call_site].append(found)
        for of_line in lines.values():
            steps = {flow.step_before(each.product) for each in of_line}
            drawn = {each.draw for each in of_line}
            values = {each.values for each in of_line}
            if len(steps) >= _MIN_STEPS and len(drawn) >= len(steps) and len(values) == len(drawn):
                yield self._finding(flow, of_line[-1])

    def _finding(self, flow: Dataflow, found: _Features) -> Finding:
        location, product = two_lines(flow, found.draw, found.product)
        at = at_line(product)
        return self.finding(
            f"every step draws new frequencies for the sines and cosines of its data{at}, which a trained layer gets",
            symptom="grad_wrong",
            why="what the layer has learned for the frequencies of one step is wrong for those of the next",
            fix="draw them once, where the model is made: self.register_buffer('frequencies', torch.randn(...))",
            location=location,
            symptom_location=product,
        )


class _Features(Struct, frozen=True):
    """Data times a random matrix."""

    product: int
    draw: int
    values: tuple[float | None, float | None] | None
    """The smallest and the largest number that was drawn."""


_MIN_STEPS = 3
_BOTH = 2
_DRAWS = frozenset({"randn", "normal", "rand", "randn_like", "rand_like", "uniform", "cauchy"})
_PRODUCTS = frozenset({"matmul", "mm", "linear", "einsum", "tensordot", "inner", "addmm"})
_SCALES = frozenset({"mul", "div"})
_ARRANGES = frozenset({"cat", "stack", *_SCALES, *SHAPE_ONLY})
_LAYERS = frozenset({"linear", "matmul", "mm", "addmm", "conv1d", "conv2d"})
_MAX_USERS = 20


def _features(flow: Dataflow, row: int) -> _Features | None:
    """What a sine was taken of, if its step drew the frequencies and a trained layer gets it and the cosine."""
    angles = flow.log.calls[row].inputs[0]
    users = (flow.log.calls[user] for user in flow.users(angles.tensor, flow.step_before(row)))
    if angles.requires_grad or all(plain_name(user.function) != "cos" for user in users):
        return None
    product = value_maker(flow, angles.tensor, row, through=_SCALES)
    if product is not None and plain_name(product[1].function) == "add":  # a phase beside the product
        sides = (value_maker(flow, use.tensor, product[0], through=_SCALES) for use in product[1].inputs)
        product = next((each for each in sides if each is not None and _sides(each[1])), None)
    if product is None:
        return None
    for use in _sides(product[1]):
        draw = value_maker(flow, use.tensor, product[0], through=_SCALES)
        is_drawn = draw is not None and plain_name(draw[1].function) in _DRAWS and draw[0] >= flow.step_before(row)
        if draw is not None and is_drawn and len(shape_of(flow, use.tensor)) == _BOTH and _goes_into_layer(flow, row):
            return _Features(product[0], draw[0], _bounds(flow.values(use.tensor, product[0])))
    return None


def _sides(call: Call) -> tuple[TensorUse, ...]:
    """The matrix of a product with data: the second factor; of ``einsum()``, the one that has no axis of samples."""
    name = plain_name(call.function)
    if name not in _PRODUCTS or len(call.inputs) < _BOTH:
        return ()
    if name != "einsum":
        return call.inputs[-1:]
    equation = equation_of(call)
    first, last = equation.result[:1], equation.result[-1:]
    pairs = zip(call.inputs, equation.terms, strict=False)
    return tuple(use for use, term in pairs if last in term and first not in term)


def _goes_into_layer(flow: Dataflow, row: int) -> bool:
    """Whether a layer with weights that need a gradient gets a result, perhaps beside others."""
    waiting, count = [(flow.log.calls[row].outputs[0].tensor, row)], 0
    while waiting and count < _MAX_USERS:
        count += 1
        tensor, after = waiting.pop()
        for user in flow.users(tensor, after)[:_MAX_USERS]:
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if name in _LAYERS and call.live_inputs and call.inputs[0].tensor == tensor:
                return True
            if name in _ARRANGES and call.outputs and not call.live_inputs:
                waiting.append((call.outputs[0].tensor, user))
    return False


def _bounds(values: ValueFacts | None) -> tuple[float | None, float | None] | None:
    return None if values is None else (values.minimum, values.maximum)
