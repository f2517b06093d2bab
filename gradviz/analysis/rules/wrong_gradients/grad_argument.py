"""GV607."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.clipping import is_clipping
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.gradients.given_gradients import WrongGradient, name_or_pronoun, scaled_gradient, wrong_gradient
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse

_NOT_SCALAR = "grad can be implicitly created only for scalar outputs"
_WRONG_SHAPE = "Mismatch in shape: grad_output"
_ASK_FOR_GRADIENTS = frozenset({"torch.Tensor.backward", "torch.autograd.backward", "torch.autograd.grad"})


class GradArgument(Rule):
    """backward() started from something that is not a loss, or with a gradient that is probably not meant.

    What it finds
    -------------
    ``backward()`` on a tensor of many elements without a gradient (torch raises), with a gradient of the wrong shape,
    with ones for a loss of each sample while an optimizer trains on it, with zeros, with random numbers, or with the
    loss itself.

    Why it matters
    --------------
    The argument of ``backward`` multiplies every gradient. Ones for N losses make their sum: N times the gradient of
    their mean, as if the learning rate were N times as large, and different with every batch size.

    Example
    -------
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = (layer(torch.randn(8, 3)) - 1).square()
    losses.backward(torch.ones_like(losses))
    optimizer.step()

    Instead
    -------
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = (layer(torch.randn(8, 3)) - 1).square()
    losses.mean().backward()
    optimizer.step()
    """

    code = "GV607"
    name = "grad_argument"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        reported = set()
        for row, call in enumerate(flow.log.calls):
            finding = self._refused(case, flow, row, call) or self._given(case, flow, row, call)
            if finding is not None and finding.location not in reported:
                reported.add(finding.location)
                yield finding

    # -- what torch refuses --------------------------------------------------------------------------------------

    def _refused(self, case: Case, flow: Dataflow, row: int, call: Call) -> Finding | None:
        if call.raised is None or call.function not in _ASK_FOR_GRADIENTS:
            return None
        outputs = [use for use in call.inputs if use.place.partition("[")[0] in ("0", "tensors", "outputs")]
        if _NOT_SCALAR in call.raised:
            output = next((use for use in outputs if prod(shape_of(flow, use.tensor)) != 1), None)
            return None if output is None else self._not_reduced(case, flow, row, output)
        if _WRONG_SHAPE in call.raised and outputs:
            return self._wrong_shape(case, flow, row, outputs[0])
        return None

    def _not_reduced(self, case: Case, flow: Dataflow, row: int, output: TensorUse) -> Finding:
        shape = list(shape_of(flow, output.tensor))
        name = name_or_pronoun(flow, output.tensor)
        made = flow.producers(output.tensor, before=row)
        where = case.location_of_call(made[-1]) if made else None
        term = _term_not_reduced(flow, row, output.tensor)
        if term is not None:
            where = case.location_of_call(term)
            name = f"{name}, in which a term of {prod(shape):,} elements is added to single numbers"
        line = f" (made on line {where.line})" if where is not None else ""
        said = WrongGradient(
            f"backward starts from {name}, which has {prod(shape):,} elements {shape}: a loss is one number"
            if term is None
            else f"backward starts from {name}: a loss is one number",
            "torch cannot know how much each element counts; mean() or sum() decides it",
            f"reduce it with mean() or sum(){line}; or pass gradient=, which says how much each element counts",
        )
        return self._raised(case, row, output, said, where if term is not None else None)

    def _wrong_shape(self, case: Case, flow: Dataflow, row: int, output: TensorUse) -> Finding:
        shape = list(shape_of(flow, output.tensor))
        said = WrongGradient(
            f"the gradient given to backward does not have the shape {shape} of {name_or_pronoun(flow, output.tensor)}",
            "it has a weight for each element, so it must have as many elements",
            f"pass a tensor of shape {shape}, or reduce to one number first and pass none",
        )
        return self._raised(case, row, output, said)

    def _raised(
        self, case: Case, row: int, output: TensorUse, said: WrongGradient, where: Location | None = None
    ) -> Finding:
        shape = str(list(shape_of(case.dataflow, output.tensor)))
        here = case.location_of_call(row)
        return self._finding(
            case, row, output.tensor, said, severity="error", symptom="raises", evidence={"shape": shape},
            location=where or here, symptom_location=here if where not in (None, here) else None,
        )  # fmt: skip

    # -- what torch takes ----------------------------------------------------------------------------------------

    def _given(self, case: Case, flow: Dataflow, row: int, call: Call) -> Finding | None:
        is_inside_another = call.inside is not None and flow.log.calls[call.inside].kind != "step"
        if call.kind != "backward" or is_inside_another or call.raised is not None:
            return None
        by_argument = {use.place: use for use in call.inputs}
        for use in call.roots:
            gradient = by_argument.get(use.place.replace("root", "gradient"))
            if gradient is None:
                continue
            said = wrong_gradient(flow, row, use.tensor, gradient)
            if said is None:
                said = scaled_gradient(flow, row, use.tensor, gradient)
                said = None if said is not None and _is_rescaled(case, row) else said
            if said is not None and _is_trained_on(case, row):
                elements = prod(shape_of(flow, use.tensor))
                return self._finding(case, row, use.tensor, said, symptom="grad_wrong", evidence={"elements": elements})
        return None

    def _finding(self, case: Case, row: int, tensor: int, said: WrongGradient, **facts: Any) -> Finding:
        flow = case.dataflow
        return self.finding(
            said.verdict,
            why=said.why,
            fix=said.fix,
            tensors=leaf_names_above(flow, tensor, row, flow.step_before(row)),
            **{"location": case.location_of_call(row), **facts},
        )


def _term_not_reduced(flow: Dataflow, backward: int, root: int) -> int | None:
    """The call that made the only term of a sum that is more than one number, if the other terms are single numbers."""
    tensor, before = root, backward
    has_numbers = False
    while (row := flow.newest_producer(tensor, before)) is not None:
        call = flow.log.calls[row]
        large = [use for use in call.inputs if prod(shape_of(flow, use.tensor)) > 1]
        if plain_name(call.function) not in ("add", "sub", "mul", "div", "neg") or len(large) != 1:
            return row if has_numbers and call.live_inputs else None
        is_sum = plain_name(call.function) in ("add", "sub")
        has_numbers |= is_sum and any(use.has_grad_fn and use not in large for use in call.inputs)
        tensor, before = large[0].tensor, row
    return None


def _is_trained_on(case: Case, row: int) -> bool:
    """Whether an optimizer steps with what this call added to ``.grad``; False for calls of ``grad``."""
    flow, histories = case.dataflow, case.histories
    call = flow.log.calls[row]
    if not call.function.endswith("backward") or (call.inside is None and not flow.has_step_after(row)):
        return False
    leaves = histories.reached_by.get(row)
    return leaves is None or not leaves.isdisjoint(histories.trained)


def _is_rescaled(case: Case, row: int) -> bool:
    """Whether the program changes the gradients between a backward call and the next step, and not only clips them."""
    flow, leaves = case.dataflow, case.histories.reached_by.get(row, frozenset())
    end = next((step for step in case.histories.steps if step > row), len(flow.log.calls))
    return any(
        flow.log.tensors[use.tensor].gradient_of in leaves and not is_clipping(flow, later)
        for later in range(row + 1, end)
        for use in flow.log.calls[later].changed
    )
