"""GV683."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import argument, calls_in_training


class FocalFactorOfTheMean(Rule):
    """A focal loss weighs the average loss of a batch, not the loss of each sample.

    What it finds
    -------------
    A loss that is averaged over several samples, and is multiplied by a factor of its own exponential:
    ``pt = exp(-ce)`` and ``(1 - pt) ** gamma * ce``, where ``ce`` is one number: what a loss function returns, or the
    program's own average of the losses of samples, weighted or not.

    Why it matters
    --------------
    The focal loss (Lin et al. 2017, https://arxiv.org/abs/1708.02002) weighs each sample by how hard it is. With one
    factor for the whole batch, easy samples weigh as much against hard ones as without it.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        ce = torch.nn.functional.cross_entropy(model(x), x.argmax(1) % 3)
        loss = ((1 - torch.exp(-ce)) ** 2 * ce).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        ce = torch.nn.functional.cross_entropy(model(x), x.argmax(1) % 3, reduction="none")
        loss = ((1 - torch.exp(-ce)) ** 2 * ce).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV683"
    name = "focal_factor_of_the_mean"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in (*calls_in_training(flow, _LOSSES), *_own_averages(flow)):
            found = [_weighing(flow, row) for row in rows if _samples(flow, row) > 1]
            if len(found) >= _MIN_CALLS and None not in found and found[-1] is not None:
                yield self._finding(flow, rows[-1], found[-1])

    def _finding(self, flow: Dataflow, row: int, weighing: int) -> Finding:
        location, used = two_lines(flow, row, weighing)
        name = call_words(flow.log.calls[row])
        return self.finding(
            f"the focal factor{at_line(used)} is computed from one number, the loss of all "
            f"{_samples(flow, row):,} samples: every sample gets the same factor",
            symptom="grad_wrong",
            why="a focal loss weighs each sample by its own probability, this one weighs all of them alike",
            fix='keep the loss of each sample and average at the end: reduction="none", then '
            "((1 - pt) ** gamma * ce).mean()"
            if plain_name(flow.log.calls[row].function) in _LOSSES
            else f"leave {name} to the end: ((1 - pt) ** gamma * ce).mean()",
            location=location,
            symptom_location=used,
            evidence={"samples": _samples(flow, row)},
        )


_LOSSES = frozenset({"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"})
_AVERAGES = frozenset({"mean", "sum", "nanmean"})
_LOG = frozenset({
    "log", "log_softmax", "logsigmoid", "softplus", "gather", "take_along_dim", "neg", "squeeze", "add", "mul", "view",
    "reshape", "flatten",
})  # fmt: skip
_MIN_CALLS = 2
_MAX_FOLLOWED = 16
_MAX_MAKERS = 6
_BOTH = 2
_NUMBERS = frozenset({
    "neg", "mul", "sub", "rsub", "pow", "exp", "add", "div", "clamp", "clip", "detach", "clone", "square", "mean",
    "sum", "view", "reshape", "to", "float", "squeeze", "expm1", "clamp_min", "clamp_max",
})  # fmt: skip
"""What a factor may be computed with."""


def _own_averages(flow: Dataflow) -> Iterator[list[int]]:
    """By line: averages of the losses of several samples."""
    lines: dict[int | None, list[int]] = defaultdict(list)
    for row, call in calls_named(flow, _AVERAGES):
        if call.kind != "operation" or not call.live_inputs:
            continue
        if shape_of(flow, call.outputs[0].tensor) == () and flow.has_step_after(row) and _is_of_losses(flow, row):
            lines[call.call_site].append(row)
    yield from lines.values()


def _is_of_losses(flow: Dataflow, row: int) -> bool:
    """Whether an average is one of losses that a loss function returned for each sample, or of log-probabilities."""
    given = flow.log.calls[row].live_inputs[0].tensor
    # Weights of the samples are beside the way: they are given without a gradient.
    for _, call in flow.makers_above(given, row, _MAX_MAKERS, lambda call: call.live_inputs[:1]):
        name = plain_name(call.function)
        if name in _LOSSES or name in ("log", "log_softmax", "logsigmoid", "softplus"):
            return True
        if name not in _LOG and name != "getitem":
            return False
    return False


def _samples(flow: Dataflow, row: int) -> int:
    """Over how many losses a call averages; 1 where it returns one for each sample."""
    call = flow.log.calls[row]
    if plain_name(call.function) in _AVERAGES:
        return prod(shape_of(flow, call.inputs[0].tensor))
    target = argument(call, 1, "target")
    is_one = target is not None and shape_of(flow, call.outputs[0].tensor) == ()
    return prod(shape_of(flow, target.tensor)) if target is not None and is_one else 1


def _weighing(flow: Dataflow, row: int) -> int | None:
    """The call that multiplies a loss, or its negative, by a factor of its own exponential."""
    made = flow.log.calls[row].outputs[0].tensor
    own, factors = _computed(flow, made, row, _SAME), set[int]()
    for tensor in own:
        for user in flow.users(tensor, row):
            call = flow.log.calls[user]
            if plain_name(call.function) in ("exp", "expm1") and call.outputs:
                factors |= _computed(flow, call.outputs[0].tensor, user, _NUMBERS)
    factors -= own
    for tensor in own if factors else ():
        for user in flow.users(tensor, row):
            call = flow.log.calls[user]
            others = [use.tensor for use in call.inputs if use.tensor not in own]
            if plain_name(call.function) == "mul" and len(call.inputs) == _BOTH and factors.intersection(others):
                return user if _is_one_minus(flow, others[0], user) else None
    return None


_SAME = frozenset(
    {"neg", "mean", "mul", "div", "clone", "detach", "to", "float", "squeeze", "view", "reshape", "clamp", "clip"}
)


def _computed(flow: Dataflow, tensor: int, row: int, names: frozenset[str]) -> set[int]:
    """What is computed from a number, and itself, with some operations of it and of what has no gradient."""
    found, waiting = {tensor}, [(tensor, row)]
    while waiting and len(found) < _MAX_FOLLOWED:
        given, after = waiting.pop()
        for user in flow.users(given, after):
            call = flow.log.calls[user]
            if plain_name(call.function) not in names or call.kind != "operation" or not call.outputs:
                continue
            result = call.outputs[0].tensor
            is_alone = all(use.tensor in found or not use.requires_grad for use in call.inputs)
            # Weights of samples or classes, which have no gradient, may make many values of the one number.
            is_new = result not in found and (len(call.inputs) > 1 or shape_of(flow, result) == shape_of(flow, tensor))
            if is_alone and is_new:
                found.add(result)
                waiting.append((result, user))
    return found


def _is_one_minus(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a factor contains ``1 - p``, as focal losses have it."""
    for _, call in flow.makers_above(tensor, row, _MAX_MAKERS, lambda call: call.live_inputs[:1] or call.inputs[:1]):
        name = plain_name(call.function)
        if name == "expm1" or (name in ("sub", "rsub", "add") and 1 in call.scalars.values()):
            return True
        if name not in _NUMBERS:
            return False
    return False
