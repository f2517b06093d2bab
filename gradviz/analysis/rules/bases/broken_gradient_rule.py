"""What the rules on NaN and Inf share: the facts of one explained gradient, as words and figures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words
from gradviz.analysis.dataflow.values.rounded_bounds import rounded_bound
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.numbers.broken_gradient_words import BrokenGradientFacts
from gradviz.analysis.numbers.broken_gradients import BrokenGradient
from gradviz.analysis.numbers.means_of_nothing import mean_of_nothing
from gradviz.analysis.numbers.singularities import singularity_of
from gradviz.analysis.numbers.value_words import values_in_words
from gradviz.analysis.rule import Rule
from gradviz.graph.query.operation_names import autograd_name


class BrokenGradientRule(Rule):
    """Reports the first gradient that became NaN or Inf, if its cause has the name of the rule."""

    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        broken = case.broken_gradient
        if broken is not None and broken.cause == self.name:
            yield self._finding(case, broken)
        refused = case.refused_values
        if refused is not None and refused.cause == self.name:
            yield self._of_refused(case, refused.call)

    def _of_refused(self, case: Case, row: int) -> Finding:
        flow, error = case.dataflow, case.capture.error
        call = flow.log.calls[row]
        taken = next((values for use in call.inputs if (values := flow.values_of(use, row)) is not None), None)
        operands = "" if taken is None else f" of {values_in_words(taken)}"
        bound = rounded_bound(flow, row)
        kind = bound or mean_of_nothing(flow, row) or singularity_of(call)
        where = None if error is None or error.call_site is None else Location(*error.call_site)
        location = case.location_of_call(row if bound is None else bound.row)
        rounding = "" if bound is None else f": {bound.in_words}"
        return self.finding(
            f"the program ended because of NaN or Inf: {call_words(call)}{operands} made the first{rounding}",
            symptom="raises",
            why="everything that is computed from NaN is NaN" if kind is None else kind.reason,
            fix="bound its input, or use a stable form (softplus, log_softmax, logsumexp, a loss that takes logits)"
            if kind is None
            else kind.remedy,
            location=location,
            symptom_location=where if where != location else None,
            evidence={"call": call.function},
        )

    @abstractmethod
    def verdict(self, facts: BrokenGradientFacts) -> str:
        """The message."""

    @abstractmethod
    def why(self, facts: BrokenGradientFacts) -> str:
        """How the cause leads to NaN or Inf."""

    @abstractmethod
    def fix(self, facts: BrokenGradientFacts) -> str:
        """What to do."""

    def _finding(self, case: Case, broken: BrokenGradient) -> Finding:
        facts = BrokenGradientFacts(case, broken)
        graph = case.graphs[broken.graph]
        return self.finding(
            self.verdict(facts),
            symptom=facts.symptom,
            why=self.why(facts),
            fix=self.fix(facts),
            location=facts.location,
            symptom_location=facts.symptom_location,
            op=autograd_name(graph.nodes[broken.blamed]) if broken.blamed is not None else None,
            tensors=facts.tensors,
            nodes=case.nodes_in(broken.graph, tuple(dict.fromkeys((broken.gradient_origin, *broken.leaves)))),
            path=facts.path,
            evidence=facts.evidence,
        )
