"""GV608."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Crossing, Shape, crossings_in_scores, crossings_into, is_only_averaged
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above, name_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import TensorUse


class BroadcastMismatch(Rule):
    """Predictions of shape (N, 1) and targets of shape (N,) were broadcast, so each was compared with all others.

    What it finds
    -------------
    Two tensors with equally many elements but different numbers of axes, which broadcasting combined into a table
    instead of pairs, before a loss that is the sum or mean of everything, or before the score of predictions without
    gradients: the share of equal classes, a mean error. It does not report tables that are used as tables (distances of
    all pairs, kernels).

    Why it matters
    --------------
    ``(N, 1) - (N,)`` is ``(N, N)``: each prediction is pulled towards the mean of all targets. torch raises nothing,
    the loss goes down for a while, and the model learns to predict the mean.

    Example
    -------
    x, y = torch.randn(50, 3), torch.randn(50)
    layer = torch.nn.Linear(3, 1)
    (layer(x) - y).square().mean().backward()

    Instead
    -------
    x, y = torch.randn(50, 3), torch.randn(50)
    layer = torch.nn.Linear(3, 1)
    (layer(x).squeeze(1) - y).square().mean().backward()
    """

    code = "GV608"
    name = "broadcast_mismatch"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        reported = set()
        for backward, root in flow.roots():
            for crossing in crossings_into(flow, root, backward, since=flow.step_before(backward)):
                location = case.location_of_call(crossing.call)
                if location not in reported:
                    reported.add(location)
                    yield self._finding(case, flow, crossing, is_right=is_only_averaged(flow, crossing, backward))

        for crossing in crossings_in_scores(flow):
            location = case.location_of_call(crossing.call)
            if location not in reported:
                reported.add(location)
                yield self._score(case, flow, crossing)

    def _score(self, case: Case, flow: Dataflow, crossing: Crossing) -> Finding:
        return self.finding(
            _message(flow, crossing),
            symptom="none",
            why="the score is an average over all combinations of a prediction with a target, so it says nothing about "
            "the model, and what is kept or stopped by it is left to chance",
            fix=_fix(flow, crossing),
            location=case.location_of_call(crossing.call),
            evidence=_evidence(crossing),
        )

    def _finding(self, case: Case, flow: Dataflow, crossing: Crossing, *, is_right: bool) -> Finding:
        live = [use for use in (crossing.one, crossing.other) if use.requires_grad]
        return self.finding(
            _message(flow, crossing),
            severity="note" if is_right else self.severity,
            symptom="none" if is_right else "grad_wrong",
            why="only the mean is taken, which is the same for all combinations as for the pairs: the gradient is "
            "right, at the cost of a larger table"
            if is_right
            else "the loss is an average over all combinations, so its gradient pulls every prediction towards the "
            "mean",
            fix=_fix(flow, crossing),
            location=case.location_of_call(crossing.call),
            tensors=tuple(dict.fromkeys(name for use in live for name in leaf_names_above(flow, use.tensor))),
            evidence=_evidence(crossing),
        )


def _message(flow: Dataflow, crossing: Crossing) -> str:
    one, other = _names(flow, crossing)
    return (
        f"{one} and {other} were broadcast to {_words(crossing.result)}: each element met every element of the other, "
        f"{crossing.times:,} times as many as there are pairs"
    )


def _fix(flow: Dataflow, crossing: Crossing) -> str:
    one, other = crossing.shapes
    names = _names(flow, crossing)
    long, short = names if len(one) > len(other) else reversed(names)
    return f"give both the same shape before this line: squeeze {long}, or unsqueeze {short}"


def _evidence(crossing: Crossing) -> dict[str, Any]:
    return {"shapes": [_words(shape) for shape in crossing.shapes], "result": _words(crossing.result)}


def _names(flow: Dataflow, crossing: Crossing) -> list[str]:
    both = zip((crossing.one, crossing.other), crossing.shapes, strict=True)
    return [_name(flow, use, shape) for use, shape in both]


def _name(flow: Dataflow, use: TensorUse, shape: Shape) -> str:
    return f"{name_of(flow.log.tensors[use.tensor]) or 'the result'} {_words(shape)}"


def _words(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
