"""What the rules on vanishing and exploding gradients have in common: many changes in one direction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding
from gradviz.analysis.gradient_flow import STEEP, FlowRow
from gradviz.analysis.growth import Descent, Growth, descent, growths
from gradviz.analysis.rule import Rule


class SteepChain(Rule):
    """Speaks once: of the first backward in which the gradient changes by a factor of `STEEP` from end to end."""

    severity = "warning"
    symptom: ClassVar[Literal["vanishing", "exploding"]]
    why: ClassVar[str]
    fix: ClassVar[str]

    def check(self, case: Case) -> Iterator[Finding]:
        for number in case.measured_graphs:
            whole = descent(case.graphs[number])
            if whole is not None and self._is_steep(whole):
                culprit = self._culprit(growths(case.graphs[number]))
                if culprit is not None:
                    yield self._finding(case, number, whole, culprit)
                    return

    @abstractmethod
    def verdict(self, culprit: Growth, whole: Descent) -> str:
        """The message: what one node of the culprit does, and what that makes of the gradient."""

    def _is_steep(self, whole: Descent) -> bool:
        return whole.factor < 1 / STEEP if self.symptom == "vanishing" else whole.factor > STEEP

    def _culprit(self, ordered: Sequence[Growth]) -> Growth | None:
        if not ordered:
            return None
        if self.symptom == "vanishing":
            return ordered[0] if ordered[0].decades < 0 else None
        return ordered[-1] if ordered[-1].decades > 0 else None

    def _finding(self, case: Case, number: int, whole: Descent, culprit: Growth) -> Finding:
        rows = self._from_the_steepest(case.flow_of(number).rows)
        return self.finding(
            self.verdict(culprit, whole),
            symptom=self.symptom,
            why=self.why,
            fix=self.fix,
            place=case.place_of(number, culprit.nodes[0]),
            op=culprit.operation,
            tensors=tuple(row.name for row in rows[: max(1, len(rows) // 3)]),
            nodes=case.marks(number, culprit.nodes),
            evidence={
                "norm_near_loss": whole.near_loss,
                "norm_near_input": whole.near_input,
                "factor_of_each": culprit.factor,
                "nodes": len(culprit.nodes),
            },
        )

    def _from_the_steepest(self, rows: Sequence[FlowRow]) -> list[FlowRow]:
        sign = 1 if self.symptom == "vanishing" else -1
        return sorted((row for row in rows if row.size), key=lambda row: sign * (row.size or 0.0))
