"""GV755."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import Term, is_number_first, signed_terms
from gradviz.graph.call_log import Call, TensorUse


class EntropyWithoutLog(Rule):
    """A cross entropy with soft targets multiplies them by probabilities, and not by their logarithms.

    What it finds
    -------------
    A loss that subtracts ``target * softmax(scores)``, where the target is the softmax of something without a gradient,
    counts that were divided by their sum, or smoothed or mixed labels, and nothing else in the loss takes a logarithm
    of probabilities.
    ``1 - (target * p).sum()`` is left alone: it may be meant as an agreement.

    Why it matters
    --------------
    The sum of such products is largest if the likeliest class of the target gets the probability 1. So the network
    never learns the other classes of the target, and where it is sure of a wrong class it gets hardly any gradient.

    Example
    -------
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, target = torch.randn(8, 6), torch.softmax(torch.randn(8, 4), dim=1)
        loss = -(target * torch.softmax(model(x), dim=1)).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, target = torch.randn(8, 6), torch.softmax(torch.randn(8, 4), dim=1)
        loss = -(target * torch.log_softmax(model(x), dim=1)).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV755"
    name = "entropy_without_log"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for root in flow.log.calls[backward].roots:
                terms = list(signed_terms(flow, backward, root.tensor))
                if any(plain_name(flow.log.calls[term.row].function) in _WITH_LOG for term in terms):
                    continue
                for term in terms:
                    softmax = _probabilities_times_target(flow, term)
                    if softmax is not None and flow.log.calls[term.row].call_site not in told:
                        told.add(flow.log.calls[term.row].call_site)
                        yield self._finding(flow, term.row, softmax)

    def _finding(self, flow: Dataflow, row: int, softmax: int) -> Finding:
        location, made = two_lines(flow, row, softmax)
        at = at_line(made)
        return self.finding(
            f"the cross entropy multiplies soft targets by the probabilities of a softmax{at}, not by their logarithms",
            symptom="grad_wrong",
            why="the largest sum of such products gives all probability to one class, whatever the target has for the "
            "others",
            fix="take log_softmax() of the scores: -(target * torch.log_softmax(scores, dim=-1)).sum(-1)",
            location=location,
            symptom_location=made,
        )


_WITH_LOG = frozenset({
    "log", "log_softmax", "logsumexp", "cross_entropy", "nll_loss", "kl_div", "binary_cross_entropy", "xlogy",
    "binary_cross_entropy_with_logits", "log2", "entr",
})  # fmt: skip
_BOTH = 2
_KEEPS_PROBABILITIES = frozenset({"clamp", "clamp_min", "add", "detach", "neg"})
_MIXES = frozenset({
    "add", "sub", "mul", "div", "full_like", "full", "zeros", "zeros_like", "fill", "index_select", "roll", "flip",
    "lerp",
    *SHAPE_ONLY,
})  # fmt: skip
_MAX_CALLS = 30


def _probabilities_times_target(flow: Dataflow, term: Term) -> int | None:
    """The softmax whose probabilities a loss multiplies by a soft target, and subtracts."""
    call = flow.log.calls[term.row]
    if not _is_product(flow, call) or len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    live, dead = sorted(call.inputs, key=lambda use: not use.requires_grad)
    made = flow.newest_producer(dead.tensor, term.row)
    is_negated = made is not None and plain_name(flow.log.calls[made].function) == "neg"
    is_subtracted = term.sign * (-1 if is_negated else 1) < 0
    if not term.is_sure or not is_subtracted or _is_of_one(flow, term):
        return None
    softmax = value_maker(flow, live.tensor, term.row, through=_KEEPS_PROBABILITIES)
    if softmax is None or plain_name(softmax[1].function) != "softmax" or not _is_soft_target(flow, dead, term.row):
        return None
    return softmax[0]


def _is_product(flow: Dataflow, call: Call) -> bool:
    """Whether a call multiplies element by element, or adds such products up over the classes as well."""
    name = plain_name(call.function)
    if name == "einsum":
        equation = equation_of(call)
        is_same = len(equation.terms) == _BOTH and equation.terms[0] == equation.terms[1]
        return is_same and len(equation.result) < len(equation.terms[0])
    if name == "tensordot":
        return not shape_of(flow, call.outputs[0].tensor)
    return name in ("mul", "vecdot", "vdot", "dot", "inner")


def _is_of_one(flow: Dataflow, term: Term) -> bool:
    """Whether a number minus the term is taken: ``1 - agreement``."""
    calls = [flow.log.calls[row] for row in term.path]
    return any(plain_name(call.function) == "sub" and is_number_first(call) for call in calls)


def _is_soft_target(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether a tensor is a softmax, or labels of classes of which none has the probability 1."""
    made = value_maker(flow, use.tensor, row, through=_KEEPS_PROBABILITIES)
    if made is not None and plain_name(made[1].function) == "softmax":
        return True
    values = flow.values_of(use, row)
    if values is None or values.minimum is None or values.maximum is None:
        return False
    lowest, highest = sorted((abs(values.minimum), abs(values.maximum)))
    is_smoothed = 0 < lowest < highest < 1 and values.minimum * values.maximum > 0
    if is_smoothed and _is_of_classes(flow, use.tensor, row):
        return True
    if values.minimum >= 0 and highest <= 1 and _is_divided_by_its_sum(flow, use.tensor, row):
        return True
    return highest <= 1 and made is not None and _mixes_classes(flow, *made)


def _is_divided_by_its_sum(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether the numbers of each sample were divided by their sum, as counts of votes are; also if smoothed then."""
    for made, call in flow.makers(tensor, row, _MAX_MAKERS):
        name, shape = plain_name(call.function), shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
        is_by_sum = name == "normalize" and call.scalars.get("p", call.scalars.get("1")) == 1
        if is_by_sum or call.function.endswith(_DIRICHLET):
            return True
        if name == "div" and len(call.inputs) == _BOTH and len(shape) > 1 and shape[-1] > 1:
            whole, total = call.inputs
            summing = value_maker(flow, total.tensor, made, through=_KEEPS_PROBABILITIES)
            is_sum = summing is not None and plain_name(summing[1].function) == "sum"
            is_of_each = shape_of(flow, total.tensor) == (*shape[:-1], 1)
            return is_sum and is_of_each and summing is not None and summing[1].inputs[0].tensor == whole.tensor
        if name not in _SMOOTHS or not call.inputs:
            return False
    return False


_DIRICHLET = ("_Dirichlet.apply", "_sample_dirichlet")
_SMOOTHS = _KEEPS_PROBABILITIES | SHAPE_ONLY | {"lerp", "mul", "add", "index_select"}
_MAX_MAKERS = 8


def _mixes_classes(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether labels of classes are mixed with those of other samples."""
    dead = [use for use in call.inputs if not use.requires_grad and shape_of(flow, use.tensor)]
    is_mixture = plain_name(call.function) in ("lerp", "add") and len({use.tensor for use in dead}) >= _BOTH
    return is_mixture and all(_is_of_classes(flow, use.tensor, row) for use in dead[:_BOTH])


def _is_of_classes(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor was made of ``one_hot()``, ``scatter()`` or the rows of ``eye()``, and of numbers."""
    makers = flow.makers_above(
        tensor, row, _MAX_CALLS, lambda call: call.inputs if plain_name(call.function) in _MIXES else ()
    )
    return any(plain_name(call.function) in ("one_hot", "scatter", "eye") for _, call in makers)
