"""GV403."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, operation
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.refused_calls import RefusedChange, refused_changes
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule


class LeafInplace(Rule):
    """A leaf that requires grad was changed in place while autograd was recording.

    What it finds
    -------------
    An in-place change of a parameter, of another leaf with ``requires_grad=True``, or of a view of one: an update by
    hand, an initialisation, a masked entry.

    Why it matters
    --------------
    A leaf is where gradients end. If autograd recorded the change, the leaf would become the result of an operation,
    and its ``.grad`` would belong to a value that no longer exists. So torch refuses it.

    Example
    -------
    weight = torch.ones(3, requires_grad=True)
    weight.square().sum().backward()
    weight -= 0.1 * weight.grad

    Instead
    -------
    weight = torch.ones(3, requires_grad=True)
    weight.square().sum().backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    """

    code = "GV403"
    name = "leaf_inplace"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for refused in refused_changes(case.capture, flow, ["leaf Variable that requires grad"]):
            yield self._explain(flow, refused)

    def _explain(self, flow: Dataflow, refused: RefusedChange) -> Finding:
        call, base = flow.log.calls[refused.call], flow.log.tensors[refused.base]
        line = flow.line_of(refused.call)
        name = tensor_words(flow, refused.base)
        through = " through a view" if refused.views or "view of a leaf" in refused.said else ""
        is_update = self._uses_its_gradient(flow, refused)
        fix = "change it inside of `with torch.no_grad():`"
        if not is_update:
            copy = f"{name.rpartition('.')[2]}.clone()"
            fix += f" if no gradient needs the change; otherwise change a copy: {copy}"
        return self.finding(
            f"torch refuses to change {name} in place{through} by {operation(call)}{at_line(line)}: it is a leaf that "
            "requires grad",
            why="autograd would have to make the leaf a result, and then no tensor would be left to hold its .grad",
            fix=fix,
            symptom="raises",
            location=location_of_line(line),
            tensors=base.names,
            evidence={"operation": call.function, **({"computed_from": "its own gradient"} if is_update else {})},
        )

    def _uses_its_gradient(self, flow: Dataflow, refused: RefusedChange) -> bool:
        others = {use.tensor for use in flow.log.calls[refused.call].inputs[1:]}
        for tensor in tuple(others):
            rows = flow.ancestors(tensor, before=refused.call)
            others.update(use.tensor for row in rows for use in flow.log.calls[row].inputs)
        return any(flow.log.tensors[tensor].gradient_of == refused.base for tensor in others)
