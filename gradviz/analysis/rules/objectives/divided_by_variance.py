"""GV635."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.mean_squares import divided_by_mean_square, divisor_of
from gradviz.analysis.rules.bases.formulas.products import is_square, product_of
from gradviz.analysis.rules.bases.losses.loss_arguments import tensor_before
from gradviz.analysis.rules.bases.losses.targets.score_targets import ScoreTarget, score_target
from gradviz.graph.call_log import Call, TensorUse


class DividedByVariance(Rule):
    """A normalization divides by the variance, where it should divide by its root.

    What it finds
    -------------
    Values from which their mean was subtracted, and which are divided by their own ``var()``, with or without a small
    number that is added to it: also by a factor that was divided by it before, as ``gamma / (var + eps)``, and where
    the factor meets the values and their mean in two products. The variance may be a mean of squares. Also results of
    a network that are divided by the mean of their own squares along an axis, without a mean that was subtracted. Also
    drawn noise as the target of a score, divided by the square of the scale with which it was added to what the network
    is asked about: ``-noise / sigma ** 2`` for ``x + sigma * noise``.

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
        for row, call in calls_named(flow, _DIVIDE):
            if call.call_site in told or not flow.has_step_after(row):
                continue
            variance = _variance_of_centered(flow, row, call)
            if variance is not None:
                told.add(call.call_site)
                yield self._finding(case, row, variance)
            elif (met := divided_by_mean_square(flow, row)) is not None:
                told.add(call.call_site)
                yield self._of_squares(case, row, met)

        for row, call in calls_named(flow, _ERRORS):
            found = score_target(flow, row) if call.call_site not in told and flow.has_step_after(row) else None
            if found is not None:
                told.add(call.call_site)
                yield self._of_score(flow, found)

    def _of_score(self, flow: Dataflow, found: ScoreTarget) -> Finding:
        here, mixed = two_lines(flow, found.made, found.mixed)
        return self.finding(
            "the target is noise divided by the square of the scale with which it was added to the data",
            symptom="grad_wrong",
            why="the score of x + sigma * noise is -noise / sigma: it is -(x - data) / sigma ** 2, and that difference "
            "is sigma * noise",
            fix="divide the noise by its scale once: -noise / sigma",
            location=here,
            symptom_location=mixed,
        )

    def _of_squares(self, case: Case, row: int, met: int) -> Finding:
        flow = case.dataflow
        here, other = two_lines(flow, row, met)
        return self.finding(
            "values are divided by the mean of their squares: that is no normalization to a mean square of 1",
            symptom="grad_wrong",
            why="the mean of squares is the square of what one divides by: what is 0.1 on average becomes 10, and what "
            "is 10 becomes 0.1",
            fix="take the root: x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()",
            location=here,
            symptom_location=other,
        )

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


_ERRORS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "sub", "add"})
_DIVIDE = frozenset({"div", "reciprocal", "pow"})
_FORMS = frozenset({"view", "reshape", "unsqueeze", "squeeze", "expand", "flatten", "unflatten", "to", "float"})
_NEAR = _FORMS | {"add", "clamp", "clamp_min", "detach", "maximum"}
_CENTER = frozenset({"mul", "view", "reshape", "to", "float"})
_VARIANCES = frozenset({"var", "var_mean", "mean"})
_MEANS = frozenset({"mean", "var_mean"})
_MOST_CALLS = 6
_MOST_FOLLOWED = 20
_BOTH = 2


def _variance_of_centered(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that took the variance by which another one divides what is centered around the mean of the same."""
    divisor = divisor_of(call)
    variance = None if divisor is None else _made_by(flow, divisor.tensor, row, _NEAR, _VARIANCES)
    source = None if variance is None else _source_of_variance(flow, variance)
    if variance is None or source is None:
        return None
    is_quotient = len(call.inputs) == _BOTH and _is_centered(flow, call.inputs[0].tensor, row, source)
    met = row if is_quotient else _product_with_values(flow, row, call, source)
    return variance if met is not None and not _is_squared_later(flow, met) else None


def _source_of_variance(flow: Dataflow, row: int) -> int | None:
    """What a variance was taken of, also of ``(x - x.mean()).square().mean()``."""
    call = flow.log.calls[row]
    if not call.inputs or plain_name(call.function) != "mean":
        return call.inputs[0].tensor if call.inputs else None
    made = flow.newest_producer(call.inputs[0].tensor, row)
    if made is None or not is_square(flow.log.calls[made]):
        return None
    taken = _made_by(flow, flow.log.calls[made].inputs[0].tensor, made, frozenset(), frozenset({"sub"}))
    values = None if taken is None else flow.log.calls[taken].inputs[0].tensor
    return values if values is not None and _is_difference(flow, taken, values) else None


def _is_centered(flow: Dataflow, tensor: int, row: int, source: int) -> bool:
    """Whether a tensor is what is left of the values after their mean was subtracted, perhaps times factors."""
    return _is_difference(flow, _made_by(flow, tensor, row, _CENTER, frozenset({"sub"})), source)


def _is_difference(flow: Dataflow, row: int | None, source: int) -> bool:
    inputs = () if row is None else flow.log.calls[row].inputs
    if row is None or [use.tensor for use in inputs[:1]] != [source]:
        return False
    return any(_is_mean(flow, use.tensor, row, source) for use in inputs[1:])


def _is_mean(flow: Dataflow, tensor: int, row: int, source: int) -> bool:
    made = _made_by(flow, tensor, row, _FORMS, _MEANS)
    return made is not None and flow.log.calls[made].inputs[0].tensor == source


def _product_with_values(flow: Dataflow, row: int, call: Call, source: int) -> int | None:
    """The call that multiplies a factor, which was divided by the variance, with the centered values; or with the
    values, where their mean is multiplied with it as well."""
    waiting, seen = [(use.tensor, row) for use in call.outputs[:1]], set[int]()
    values, has_mean = None, False
    while waiting and len(seen) < _MOST_FOLLOWED:
        factor, after = waiting.pop()
        for user in flow.users(factor, after)[:_MOST_FOLLOWED]:
            using = flow.log.calls[user]
            others = _multiplied_with(using, factor)
            if others is None or user in seen or not using.outputs:
                continue
            seen.add(user)
            if any(_is_centered(flow, each.tensor, user, source) for each in others):
                return user
            is_of_values = any(_is_of(flow, each.tensor, user, source) for each in others)
            is_of_mean = any(_is_mean(flow, each.tensor, user, source) for each in others)
            values, has_mean = user if is_of_values else values, has_mean or is_of_mean
            if not is_of_values and not is_of_mean and plain_name(using.function) != "addcmul":
                waiting.append((using.outputs[0].tensor, user))
    return values if has_mean else None


def _multiplied_with(call: Call, factor: int) -> list[TensorUse] | None:
    """What a call multiplies with a factor, if anything; None for calls that do something else with it."""
    name = plain_name(call.function)
    given = call.inputs[1:] if name == "addcmul" else call.inputs
    if name in _FORMS or (name in ("mul", "addcmul") and any(use.tensor == factor for use in given)):
        return [use for use in given if use.tensor != factor]
    return None


def _is_of(flow: Dataflow, tensor: int, row: int, source: int) -> bool:
    return tensor_before(flow, tensor, row, _FORMS) in (source, tensor_before(flow, source, row, _FORMS))


def _is_squared_later(flow: Dataflow, row: int) -> bool:
    """Whether the centered values are multiplied with the result once more: a square over a variance, or a slope."""
    result = flow.log.calls[row].outputs[0].tensor
    for user in flow.users(result, row)[:_MOST_FOLLOWED]:
        pair = product_of(flow.log.calls[user])
        other = [use for use in pair or () if use.tensor != result]
        if any(_made_by(flow, use.tensor, user, _CENTER, frozenset({"sub"})) is not None for use in other):
            return True
    return False


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
