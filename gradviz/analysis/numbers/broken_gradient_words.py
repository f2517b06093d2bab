"""The facts of one gradient that became NaN or Inf, as words and figures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words
from gradviz.analysis.dataflow.tensor_words import together
from gradviz.analysis.dataflow.values.rounded_bounds import RoundedBound, rounded_bound
from gradviz.analysis.finding import Location, Symptom
from gradviz.analysis.numbers.broken_gradients import BrokenGradient
from gradviz.analysis.numbers.lost_epsilon import LostEpsilon, lost_epsilon
from gradviz.analysis.numbers.means_of_nothing import mean_of_nothing
from gradviz.analysis.numbers.singularities import Singularity, singularity_of
from gradviz.analysis.numbers.value_words import values_in_words
from gradviz.graph.call_log import Call, ValueFacts
from gradviz.graph.model import Attribute, Node
from gradviz.graph.query.operation_names import autograd_name, operation_word


class BrokenGradientFacts:
    """One broken gradient, in the words of findings."""

    def __init__(self, case: Case, broken: BrokenGradient) -> None:
        self._case = case
        self._broken = broken
        self._graph = case.graphs[broken.graph]
        self.call: Call | None = None if broken.call is None else case.dataflow.log.calls[broken.call]

    @property
    def _is_compiled(self) -> bool:
        return self.call is not None and self.call.kind == "compiled" and not self._broken.in_forward

    @property
    def kind(self) -> str:
        """NaN, or Inf."""
        return "NaN" if self._broken.is_nan else "Inf"

    @property
    def operation(self) -> str:
        """The function to blame, by its public name."""
        if self._is_compiled:
            inner = self._graph.nodes[self._broken.gradient_origin].attributes.get("broken_by")
            return f"compiled code ({inner})" if inner else "compiled code"
        if self.call is not None:
            return call_words(self.call)
        node = self._broken.blamed if self._broken.blamed is not None else self._broken.gradient_origin
        return operation_word(self._graph.nodes[node].name)

    @property
    def operation_with_operands(self) -> str:
        """``sqrt() of 32 values from 0 to 4.2``; the operation alone if its operands were not read."""
        return f"{self.operation} of {self.operands}" if self.operands else self.operation

    @property
    def in_forward(self) -> bool:
        """Whether its values are broken, not only its slope."""
        return self._broken.in_forward

    @property
    def is_inside(self) -> bool:
        """Whether it began inside compiled code, where no values are known."""
        return self._broken.is_inside

    @property
    def is_unseen(self) -> bool:
        """Whether the call only received values that were broken already."""
        return self._broken.is_unseen

    @property
    def symptom(self) -> Symptom:
        """What the user notices."""
        if not self._broken.leaves:
            return "raises" if self._case.capture.error is not None else "none"
        return "grad_nan" if self._broken.is_nan else "grad_inf"

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the leaves that got NaN or Inf."""
        return tuple(name for leaf in self._broken.leaves for name in self._graph.nodes[leaf].names[:1])

    @property
    def effect(self) -> str:
        """The result: ``the gradient of net.0.weight and 3 more is NaN``."""
        if not self._broken.leaves:
            return "the loss is NaN or Inf" if self._broken.in_forward else f"backward computes {self.kind}"
        return f"the gradient of {together(self.tensors) or 'a tensor without a name'} is {self.kind}"

    @property
    def location(self) -> Location | None:
        """The line to blame."""
        if self.lost_epsilon is not None and self.lost_epsilon.made is not None:
            return self._case.location_of_call(self.lost_epsilon.made)
        if self.rounded_bound is not None:
            return self._case.location_of_call(self.rounded_bound.row)
        row = self._broken.call
        # The node of compiled code has the line inside that code, if it was found.
        if row is not None and (self.is_inside or not self._is_compiled):
            return self._case.location_of_call(row)
        return self._case.location_of(self._broken.graph, self._broken.gradient_origin)

    @property
    def symptom_location(self) -> Location | None:
        """The line of what hid it, or of the node that first sent it, if that is another line."""
        hider = self._broken.hider
        is_earlier = self.lost_epsilon is not None or self.rounded_bound is not None
        if is_earlier and self._broken.call is not None:
            location = self._case.location_of_call(self._broken.call)
        elif hider is not None:
            location = self._case.location_of_call(hider)
        elif self._is_compiled and self._broken.call is not None:
            location = self._case.location_of_call(self._broken.call)
        else:
            location = self._case.location_of(self._broken.graph, self._broken.gradient_origin)
        return None if location == self.location else location

    @property
    def hider(self) -> str:
        """The function that selected other values."""
        row = self._broken.hider
        return "a mask" if row is None else call_words(self._case.dataflow.log.calls[row])

    @property
    def reason(self) -> str:
        """Why the function has no finite value or slope at these operands."""
        if self.rounded_bound is not None:
            return self.rounded_bound.reason
        return self._singularity.reason if self._singularity is not None else ""

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.rounded_bound is not None:
            return self.rounded_bound.remedy
        return self._singularity.remedy if self._singularity is not None else ""

    @property
    def needs_whole_rows(self) -> bool:
        """Whether a result depends on more than one element of the input, as that of a softmax does."""
        return self._singularity is not None and not self._singularity.is_elementwise

    @cached_property
    def lost_epsilon(self) -> LostEpsilon | None:
        """For the step of an optimizer, an ``eps`` that is 0 in the dtype of its parameters."""
        row = self._broken.call
        return None if row is None else lost_epsilon(self._case.dataflow, row)

    @cached_property
    def rounded_bound(self) -> RoundedBound | None:
        """The number above the call that the dtype rounded away, so that the call is singular at what it got."""
        row = self._broken.call
        return None if row is None or self.is_inside or self.is_unseen else rounded_bound(self._case.dataflow, row)

    @property
    def rounding(self) -> str:
        """The same in words, behind a message: ``: the bound 0.99999999 of clamp() is 1 in float32``; or empty."""
        return "" if self.rounded_bound is None else f": {self.rounded_bound.in_words}"

    @cached_property
    def _singularity(self) -> Singularity | None:
        row = self._broken.call
        if self.call is None or row is None:
            return None
        return mean_of_nothing(self._case.dataflow, row) or singularity_of(self.call)

    @property
    def operands(self) -> str:
        """What it computed with: ``32 values from 0 to 4.2, 1 of them 0``; empty if that was not read."""
        facts = [values_in_words(values) for _, values in self._given()]
        return " and ".join(facts[:2])

    @property
    def results(self) -> str:
        """What it returned."""
        outputs = () if self.call is None else self.call.outputs
        return next((values_in_words(use.values) for use in outputs if use.values is not None), "")

    @property
    def broken_results(self) -> str:
        """The same, of the first result with NaN or Inf."""
        outputs = () if self.call is None else self.call.outputs
        broken = (use.values for use in outputs if use.values is not None and not use.values.is_finite)
        return next(map(values_in_words, broken), self.kind)

    @property
    def path(self) -> tuple[str, ...]:
        """From the node where NaN or Inf began to a leaf, without the middle of a long path."""
        nodes = [self._node_name(self._graph.nodes[node]) for node in self._broken.path]
        return tuple(nodes if len(nodes) <= 7 else [*nodes[:3], "...", *nodes[-3:]])

    @property
    def evidence(self) -> dict[str, Attribute]:
        """Figures."""
        found: dict[str, Attribute] = {"backward": self._number()}
        for operand, values in islice(self._given(), _MAX_OPERANDS):
            for what, figure in _figures(values).items():
                found[f"operand_{operand}_{what}"] = figure
        for use in self.call.outputs[:1] if self.call is not None else ():
            for what, figure in _figures(use.values).items() if use.values is not None else ():
                found[f"result_{what}"] = figure
        origin = self._graph.nodes[self._broken.gradient_origin]
        found["gradient_zeros_in"] = sum(each.zeros for each in origin.arrived if each is not None)
        found["gradient_nans_out"] = sum(each.nans for each in origin.gradients if each is not None)
        found["gradient_infs_out"] = sum(each.infs for each in origin.gradients if each is not None)
        return found

    def _number(self) -> int:
        return self._graph.backward.number if self._graph.backward is not None else 1

    def _given(self) -> Iterator[tuple[str, ValueFacts]]:
        flow, row = self._case.dataflow, self._broken.call
        if row is None:
            return
        for use in flow.log.calls[row].inputs:
            values = flow.values_of(use, row)
            if values is not None:
                yield use.place, values

    def _node_name(self, node: Node) -> str:
        return node.names[0] if node.is_leaf and node.names else autograd_name(node)


_MAX_OPERANDS = 4
"""A step has as many as there are parameters."""


def _figures(values: ValueFacts) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    if values.minimum is not None and values.maximum is not None:
        found |= {"minimum": values.minimum, "maximum": values.maximum}
    counts = (("zeros", values.zeros), ("nans", values.nans), ("infs", values.infs))
    return found | {what: count for what, count in counts if count}
