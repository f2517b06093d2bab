"""GV670."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import signed_terms


class SameTermTwice(Rule):
    """Two terms of a loss compare the same prediction with the same target.

    What it finds
    -------------
    A loss that adds two calls of one loss function whose prediction and target are the same tensors, where another
    target was probably meant: ``lam * f(out, y_a) + (1 - lam) * f(out, y_a)``.

    Why it matters
    --------------
    The second term adds nothing of its own: it only makes the first one larger. What it was to stand for, the other
    labels of a mixture or another output, is not trained.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    error = torch.nn.functional.cross_entropy
    for step in range(3):
        x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
        other = torch.randperm(8)
        out = model(0.7 * x + 0.3 * x[other])
        loss = 0.7 * error(out, y) + 0.3 * error(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    error = torch.nn.functional.cross_entropy
    for step in range(3):
        x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
        other = torch.randperm(8)
        out = model(0.7 * x + 0.3 * x[other])
        loss = 0.7 * error(out, y) + 0.3 * error(out, y[other])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV670"
    name = "same_term_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            seen: dict[tuple[str, int, int, tuple[object, ...]], int] = {}
            roots = (use.tensor for use in flow.log.calls[backward].roots)
            rows = sorted({term.row for root in roots for term in signed_terms(flow, backward, root)})
            for row in rows:
                key = _compared(flow, row)
                first = row if key is None else seen.setdefault(key, row)
                if first != row and flow.log.calls[row].call_site not in told:
                    told.add(flow.log.calls[row].call_site)
                    yield self._finding(flow, first, row)

    def _finding(self, flow: Dataflow, first: int, second: int) -> Finding:
        call = flow.log.calls[second]
        location, other = location_of_call(flow, second), location_of_call(flow, first)
        predicted, target = (tensor_words(flow, use.tensor) for use in call.inputs[:_BOTH])
        return self.finding(
            f"{call_words(call)} compares {predicted} with {target} twice in one loss"
            f"{', the first time' + at_line(other) if other != location else ''}",
            symptom="grad_wrong",
            why="the second term only makes the first one larger; what it was to compare is not trained",
            fix="give the second call the prediction or the target that it was meant for, or leave it out",
            location=location,
            symptom_location=other if other != location else None,
        )


_BOTH = 2
_LOSSES = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "cosine_similarity",
})  # fmt: skip
_OTHER_ORDER = frozenset({"getitem", "transpose", "permute", "T", "t", "swapaxes"})
"""Parts and exchanged axes are something else to compare: rows of a table of similarities, and then its columns."""


def _compared(flow: Dataflow, row: int) -> tuple[str, int, int, tuple[object, ...]] | None:
    """What a call of a loss function compares, and how; None for other calls."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    if name not in _LOSSES or len(call.inputs) != _BOTH or not call.live_inputs:
        return None
    if not shape_of(flow, call.inputs[0].tensor):
        return None
    first, second = (tensor_before(flow, use.tensor, row, SHAPE_ONLY - _OTHER_ORDER) for use in call.inputs)
    return name, first, second, tuple(sorted(map(str, call.scalars.items())))
