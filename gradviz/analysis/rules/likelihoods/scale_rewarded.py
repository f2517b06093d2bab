"""GV652."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.scales.scale_logarithms import logarithms_in, terms_of_sum
from gradviz.analysis.rules.bases.losses.scales.scale_powers import Power
from gradviz.analysis.rules.bases.losses.scales.scale_products import powers_in_product
from gradviz.analysis.rules.bases.losses.signed_terms import Term


class ScaleRewarded(Rule):
    """The logarithm of a scale has the wrong sign in the loss.

    What it finds
    -------------
    A loss that adds something never negative times ``exp(c * s)``, or the square of what was multiplied with it, or
    divides by ``exp(s)``, ``softplus(r)`` or ``sigma``; and that has ``s`` or ``log(sigma)`` as a term of its own,
    with the sign that gets smaller in the same direction: ``exp(-logvar) * (y - mu)**2 - logvar``,
    ``exp(-s) * task_loss - s``, ``z**2 / 2 + logdet`` of a flow.

    Why it matters
    --------------
    In a likelihood the two terms hold each other: a large scale makes the error cheap, and costs its logarithm. With
    this sign nothing holds the scale, it moves in one direction without end, and the loss falls with it: it looks like
    training.

    Example
    -------
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        x, y = torch.randn(16, 4), torch.randn(16, 1)
        mu, logvar = model(x).chunk(2, dim=1)
        loss = (0.5 * torch.exp(-logvar) * (y - mu) ** 2 - 0.5 * logvar).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        x, y = torch.randn(16, 4), torch.randn(16, 1)
        mu, logvar = model(x).chunk(2, dim=1)
        loss = (0.5 * torch.exp(-logvar) * (y - mu) ** 2 + 0.5 * logvar).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV652"
    name = "scale_rewarded"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for use in flow.log.calls[backward].roots:
                terms = terms_of_sum(flow, backward, use.tensor)
                found = next(_rewarded(case, terms), None)
                site = None if found is None else flow.log.calls[found.linear.row].call_site
                if found is not None and site not in told:
                    told.add(site)
                    yield self._finding(case, found, terms)

    def _finding(self, case: Case, found: _Rewarded, terms: list[Term]) -> Finding:
        flow = case.dataflow
        meeting, edited = _lines(found, terms)
        here, used = location_of_call(flow, edited), location_of_call(flow, meeting)
        if used == here:
            used = location_of_call(flow, found.power.row)
        sign, verb = ("-", "subtracts") if found.sign < 0 else ("+", "adds")
        other = "+" if sign == "-" else "-"
        term = f"{'divided by' if found.power.power < 0 else 'multiplied with'} a scale"
        return self.finding(
            f"the loss adds what is {term}, and {verb} the logarithm of that scale: both get smaller in the same "
            "direction, and nothing holds the scale",
            symptom="grad_wrong",
            why="the loss has no lower bound, so the scale grows or shrinks without end and the loss falls with it",
            fix=f"turn the sign of the logarithm around: {other} instead of {sign} before logvar, log(sigma) or logdet",
            location=here,
            symptom_location=used if used != here else None,
            tensors=names_of(flow, sorted(found.leaves)),
        )


class _Rewarded(Struct, frozen=True):
    linear: Term
    """The call that takes the logarithm, as a term of the loss."""
    sign: int
    product: Term
    """The term that grows with the scale."""
    power: Power
    leaves: frozenset[int]


def _rewarded(case: Case, terms: list[Term]) -> Iterator[_Rewarded]:
    """The scales that a loss takes as a factor and as a logarithm, where both get smaller in the same direction."""
    flow = case.dataflow
    signs, first = logarithms_in(flow, terms)
    for term in terms if signs else ():
        if term.sign < 0 or not term.is_sure:
            continue
        for power in powers_in_product(flow, term.row):
            sign = 1 if power.power > 0 else -1
            key = next((key for key in power.key.and_wholes() if key in signs), None)
            if key is not None and signs[key] == {sign}:
                leaves, _ = case.histories.live_leaves((power.key.tensor,), power.row)
                leaves = (leaves | {power.key.tensor}) & case.histories.trained
                if leaves and _is_free(flow, power):
                    yield _Rewarded(first[key], sign, term, power, leaves)


# -- whether a scale is free to move -----------------------------------------------------------------------------------

_POSITIVE = frozenset({"exp", "softplus", "sigmoid"})
_ELEMENTWISE = frozenset({
    "tanh", "clamp", "mul", "div", "add", "sub", "neg", "view", "reshape", "squeeze", "unsqueeze", "float", "to",
    "expand", "expand_as", "getitem", "chunk", "split", "select", "hardtanh", "softplus", "sigmoid", "exp", "sum",
    "mean", "broadcast_tensors", "permute", "transpose", "clone", "contiguous", "flatten", "abs", "unbind", "relu",
    "clamp_min",
})  # fmt: skip
_LAYERS = frozenset({"linear", "addmm", "matmul", "conv1d", "conv2d", "conv3d", "embedding", "bmm", "baddbmm"})
_MAX_MAKERS = 12


def _is_free(flow: Dataflow, power: Power) -> bool:
    """Whether a scale is made from a parameter or a layer's output element by element.

    A norm or a variance of features is not: what is divided by it does not change with it. A factor that is a bare
    parameter may be kept small by the logarithm on purpose.
    """
    key, tensor, before, names = power.key, power.key.tensor, power.row, list[str]()
    for _ in range(_MAX_MAKERS):
        row = flow.newest_producer(tensor, before)
        call, is_leaf = None if row is None else flow.log.calls[row], tensor in flow.log.parameters
        if row is None or call is None or is_leaf or plain_name(call.function) in _LAYERS:
            is_scale = key.is_log or power.power < 0 or not _POSITIVE.isdisjoint(names)
            return is_scale and (is_leaf or row is not None)
        live = call.live_inputs
        names.append(plain_name(call.function))
        if names[-1] not in _ELEMENTWISE or not live:
            return False
        tensor, before = live[0].tensor, row
    return False


# -- lines -------------------------------------------------------------------------------------------------------------


def _lines(found: _Rewarded, terms: list[Term]) -> tuple[int, int]:
    """The call where the two terms meet, and the one to edit."""
    linear, product = found.linear, found.product
    shared = [row for row, other in zip(linear.path, product.path, strict=False) if row == other]
    meeting, start = shared[-1], len(shared)
    if start == len(linear.path):
        return meeting, meeting
    by_path = {term.path: term.sign for term in terms}
    signs = [by_path[linear.path[: end + 1]] for end in range(start, len(linear.path))] + [found.sign]
    turns = [row for row, own, below in zip(linear.path[start:], signs, signs[1:], strict=False) if own != below]
    if found.power.is_squared:  # as of a flow: its layers return what is subtracted
        return meeting, meeting if signs[0] > 0 else (turns or linear.path)[-1]
    return meeting, meeting if signs[0] < 0 or not turns else turns[-1]
