"""What the rules on gradients of exactly zero share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.touched_outputs import is_only_touched
from gradviz.analysis.cuts.zero_factors import is_times_zero
from gradviz.analysis.dataflow.call_words import call_words
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.numbers.flat_branches import FlatBranch
from gradviz.analysis.numbers.value_words import values_in_words
from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.rule import Rule
from gradviz.graph.model import Attribute
from gradviz.graph.query.operation_names import autograd_name, operation_word


class ZeroGradientRule(Rule):
    """Reports every operation that sends zero for the reason that the rule is named after."""

    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        # Where a loss compares the same values, the zeros behind the comparison have no cause of their own.
        told = {case.location_of_call(term.made) for term in case.zero_terms if not term.is_held}
        alike: dict[Hashable, list[ZeroGradient]] = {}
        for zero in case.zero_gradients:
            if zero.cause == self.name and _own_line(case, zero) not in told and not _is_touched(case, zero.call):
                blamed, other = (
                    None if site is None else case.location_of_site(site)
                    for site in (zero.blamed_site, zero.other_site)
                )
                says = zero.graph, _own_line(case, zero), blamed, other, self._says(case, zero)
                alike.setdefault(says, []).append(zero)
        for zeros in alike.values():
            yield self._finding(case, _joined(zeros))
        for branch in case.flat_branches:
            if branch.cause == self.name and not _is_touched(case, branch.call):
                yield self._of_branch(case, branch)

    @abstractmethod
    def verdict(self, zero: ZeroGradient, operation: str) -> str:
        """What the operation does, and with which values: the end of the message."""

    @abstractmethod
    def why(self, zero: ZeroGradient, operation: str) -> str:
        """Why the gradient is zero."""

    @abstractmethod
    def fix(self, zero: ZeroGradient, operation: str) -> str:
        """What to do."""

    def wrong_use(self, case: Case, zero: ZeroGradient) -> tuple[Location | None, str] | None:
        """The line that uses the operation the wrong way, and what to do there, where it is known."""
        return None

    def _of_branch(self, case: Case, branch: FlatBranch) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[branch.call]
        operand = next((use for use in call.inputs if use.requires_grad), None)
        is_product = branch.cause == "masked_out"
        values = None if operand is None or is_product else flow.values_of(operand, branch.call)
        zero = ZeroGradient(
            branch.cause, branch.graph, branch.node, (), (), branch.steps, call=branch.call, operand=values
        )
        operation = _operation(case, zero)
        leaves, _ = case.histories.live_leaves((use.tensor for use in call.live_inputs), branch.call)
        trained = sorted((leaves | {use.tensor for use in call.live_inputs}) & case.histories.trained) or sorted(leaves)
        return self.finding(
            f"{self.verdict(zero, operation)}: {case.histories.together(trained)} learn from other paths only",
            severity="note" if branch.may_be_meant else self.severity,
            symptom="grad_zero",
            why=self.why(zero, operation),
            fix=self.fix(zero, operation),
            location=case.location_of_call(branch.call),
            tensors=names_of(flow, trained),
            nodes=case.nodes_in(branch.graph, (branch.node,)),
            evidence={"steps": branch.steps, "leaves": len(trained)},
        )

    def _finding(self, case: Case, zero: ZeroGradient) -> Finding:
        node, operation = case.graphs[zero.graph].nodes[zero.node], _operation(case, zero)
        own_line = _own_line(case, zero)
        location = case.location_of_site(zero.blamed_site) if zero.blamed_site is not None else own_line
        also = own_line if zero.other_site is None else case.location_of_site(zero.other_site)
        wrong_use = self.wrong_use(case, zero)
        if wrong_use is not None:
            location = wrong_use[0]
        return self.finding(
            f"{together(zero.leaves)} got a gradient of exactly zero {self._says(case, zero)}",
            severity="note" if zero.is_of_library or zero.is_start else self.severity,
            symptom="grad_zero",
            why=self.why(zero, operation),
            fix=_OF_LIBRARY
            if zero.is_of_library
            else _OF_START
            if zero.is_start
            else wrong_use[1]
            if wrong_use is not None
            else self.fix(zero, operation)
            if zero.optimizer is None
            else _SMALLER_STEPS,
            location=location,
            symptom_location=also if also != location else None,
            op=autograd_name(node),
            tensors=zero.leaves,
            nodes=case.nodes_in(zero.graph, (zero.node, *zero.leaf_nodes)),
            evidence=_evidence(zero),
        )

    def _says(self, case: Case, zero: ZeroGradient) -> str:
        return f"at {_steps(zero)}: {self.verdict(zero, _operation(case, zero))}{_since(case, zero)}"


def _is_touched(case: Case, row: int | None) -> bool:
    """Whether a call multiplies a bare sum of outputs by the number 0: what that is for is told elsewhere."""
    if row is None or not is_times_zero(call := case.dataflow.log.calls[row]):
        return False
    return is_only_touched(case.dataflow, call.inputs[0].tensor, row)


def _joined(zeros: Sequence[ZeroGradient]) -> ZeroGradient:
    """Those of one line, which may run for several modules, as one."""
    return replace(
        zeros[0],
        leaves=tuple(dict.fromkeys(leaf for zero in zeros for leaf in zero.leaves)),
        leaf_nodes=tuple(dict.fromkeys(node for zero in zeros for node in zero.leaf_nodes)),
    )


def _operation(case: Case, zero: ZeroGradient) -> str:
    """What users call the operation that sends zero."""
    if zero.call is None:
        return operation_word(case.graphs[zero.graph].nodes[zero.node].name)
    call = case.dataflow.log.calls[zero.call]
    operation, rounding = call_words(call).removesuffix("()"), call.scalars.get("rounding_mode")
    if operation == "grid_sample" and "nearest" in (call.scalars.get("mode"), call.scalars.get("2")):
        return NEAREST
    return rounding if operation == "div" and isinstance(rounding, str) else operation


NEAREST = "nearest grid_sample"
"""What ``grid_sample()`` is called where it reads single points."""


def _own_line(case: Case, zero: ZeroGradient) -> Location | None:
    return case.location_of_call(zero.call) if zero.call is not None else case.location_of(zero.graph, zero.node)


def operand_words(zero: ZeroGradient) -> str:
    """What the operation computed with."""
    return values_in_words(zero.operand) if zero.operand is not None else "what it got"


def _steps(zero: ZeroGradient) -> str:
    return "the only recorded step" if zero.steps == 1 else f"{zero.steps:,} steps"


def _since(case: Case, zero: ZeroGradient) -> str:
    if zero.optimizer is None:
        return ""
    optimizer = case.dataflow.log.optimizers[zero.optimizer]
    rates = [rate for rate in optimizer.learning_rates if rate is not None]
    with_rate = f" with a learning rate of {max(rates):g}" if rates else ""
    return f"; it was not so at first: steps of {optimizer.class_name}{with_rate} moved the weights there"


_SMALLER_STEPS = (
    "take smaller steps: a lower learning rate, a warm-up, clipped gradients, inputs and targets of scale 1"
)


_OF_LIBRARY = "nothing, if that model is meant to begin with zeros there; else it has an option, or a newer version"


_OF_START = (
    "nothing, if these zeros are only to begin a sum, as queries of a decoder do to which positions are added; else "
    "give them values"
)


def _evidence(zero: ZeroGradient) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {"steps": zero.steps, "leaves": len(zero.leaves)}
    if zero.operand is not None:
        found["operand_values"] = zero.operand.count
        found["operand_zeros"] = zero.operand.zeros
        if zero.operand.minimum is not None and zero.operand.maximum is not None:
            found |= {"operand_minimum": zero.operand.minimum, "operand_maximum": zero.operand.maximum}
    return found
