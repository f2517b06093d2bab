"""GV635."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first


class DividedByVariance(Rule):
    """A normalization divides by the variance, where it should divide by its root.

    What it finds
    -------------
    Values from which their mean was subtracted, and which are divided by their own ``var()``, with or without a small
    number that is added to it.

    Why it matters
    --------------
    The result has not the standard deviation 1, but one over that of the values: what varies little becomes huge, and
    what varies much nearly zero, and so do the gradients.

    Example
    -------
    first, last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.01)
    for step in range(3):
        x = torch.randn(16, 4)
        h = first(x)
        variance = h.var(dim=1, keepdim=True)
        normal = (h - h.mean(dim=1, keepdim=True)) / (variance + 1e-5)
        loss = (last(normal) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    first, last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.01)
    for step in range(3):
        x = torch.randn(16, 4)
        h = first(x)
        variance = h.var(dim=1, keepdim=True)
        normal = (h - h.mean(dim=1, keepdim=True)) / (variance + 1e-5).sqrt()
        loss = (last(normal) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV635"
    name = "divided_by_variance"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in enumerate(flow.log.calls):
            if plain_name(call.function) != "div" or len(call.inputs) != 2 or is_number_first(call):
                continue
            if call.call_site in told or not flow.has_step_after(row):
                continue
            variance = _variance_of_centered(flow, row)
            if variance is not None:
                told.add(call.call_site)
                yield self._finding(case, row, variance)

    def _finding(self, case: Case, row: int, variance: int) -> Finding:
        flow = case.dataflow
        here, made = location_of_call(flow, row), location_of_call(flow, variance)
        return self.finding(
            "values are divided by their variance after their mean was subtracted: that is no normalization to a "
            "standard deviation of 1",
            symptom="grad_wrong",
            why="the variance is the square of the standard deviation: what varies by 0.1 becomes ten times too large",
            fix="take the root: (x - mean) / (var + eps).sqrt()",
            location=here,
            symptom_location=made if made != here else None,
        )


_NEAR = frozenset(
    {"add", "clamp", "clamp_min", "view", "reshape", "unsqueeze", "expand", "detach", "maximum", "to", "float"}
)
_CENTER = frozenset({"mul", "view", "reshape", "to", "float"})
_VARIANCES = frozenset({"var", "var_mean"})
_MOST_CALLS = 6


def _variance_of_centered(flow: Dataflow, row: int) -> int | None:
    """The call that took the variance by which another one divides what is centered around the mean of the same."""
    call = flow.log.calls[row]
    variance = _made_by(flow, call.inputs[1].tensor, row, _NEAR, _VARIANCES)
    centered = _made_by(flow, call.inputs[0].tensor, row, _CENTER, frozenset({"sub"}))
    if variance is None or centered is None:
        return None
    source = flow.log.calls[variance].inputs[0].tensor
    inputs = [use.tensor for use in flow.log.calls[centered].inputs]
    means = [flow.newest_producer(tensor, centered) for tensor in inputs[1:]]
    is_mean = any(
        made is not None
        and plain_name(flow.log.calls[made].function) in ("mean", "var_mean")
        and flow.log.calls[made].inputs[0].tensor == source
        for made in means
    )
    return variance if inputs[:1] == [source] and is_mean else None


def _made_by(flow: Dataflow, tensor: int, row: int, passed: frozenset[str], wanted: frozenset[str]) -> int | None:
    """The call with one of the wanted names that made a tensor, above calls that are passed over."""
    waiting = [(tensor, row)]
    for _ in range(_MOST_CALLS):
        if not waiting:
            return None
        tensor, row = waiting.pop()
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        name = "" if call is None else plain_name(call.function)
        if name in wanted:
            return made
        if made is not None and call is not None and name in passed:
            waiting += [(use.tensor, made) for use in call.inputs]
    return None
