"""GV752."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.log_densities import is_log_density
from gradviz.analysis.rules.bases.losses.loss_arguments import PARTS, SHAPE_ONLY, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import Term, signed_terms
from gradviz.graph.call_log import TensorUse


class WeightsNotNormalized(Rule):
    """The weights of a mixture are numbers of any size in its likelihood, and not logarithms of probabilities.

    What it finds
    -------------
    A loss that subtracts ``logsumexp(w + log_density)``, or the same from ``logaddexp()`` of the components, where the
    density compares data with what the model predicts, and ``w`` is a parameter or the result of a linear layer that no
    ``log_softmax()`` has normalized; or that of a ``softmax()``, whose logarithm was forgotten. Also weights of each
    sample that add up to 1 over the components, where ``logsumexp()`` adds up over the samples.

    Why it matters
    --------------
    Without ``log_softmax()`` the weights of a mixture do not add up to 1. The loss falls without end when all of them
    grow, whatever the data are, and soon nothing else is trained.

    Example
    -------
    model = torch.nn.Linear(2, 9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(16, 2), torch.randn(16, 1)
        w, mean, logstd = model(x).chunk(3, dim=-1)
        density = -0.5 * ((y - mean) / logstd.exp()) ** 2 - logstd
        loss = -torch.logsumexp(w + density, dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(2, 9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(16, 2), torch.randn(16, 1)
        w, mean, logstd = model(x).chunk(3, dim=-1)
        density = -0.5 * ((y - mean) / logstd.exp()) ** 2 - logstd
        loss = -torch.logsumexp(w.log_softmax(-1) + density, dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV752"
    name = "weights_not_normalized"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for root in flow.log.calls[backward].roots:
                for term in signed_terms(flow, backward, root.tensor):
                    found = _mixture(flow, term)
                    if found is not None and flow.log.calls[found.row].call_site not in told:
                        told.add(flow.log.calls[found.row].call_site)
                        yield self._over_samples(flow, found) if found.is_over_samples else self._finding(flow, found)

    def _over_samples(self, flow: Dataflow, found: _Mixture) -> Finding:
        made = None if found.made is None else location_of_call(flow, found.made)
        location = location_of_call(flow, found.row)
        return self.finding(
            f"the likelihood of a mixture adds up over axis 0, and its weights{at_line(made)} add up to 1 over axis 1",
            symptom="grad_wrong",
            why="the components lie along axis 1: over axis 0 the samples are mixed with each other, and a sample that "
            "no component explains costs nothing",
            fix="add up over the components: torch.logsumexp(log_weights + log_density, dim=1)",
            location=location,
            symptom_location=made if made != location else None,
        )

    def _finding(self, flow: Dataflow, found: _Mixture) -> Finding:
        location = location_of_call(flow, found.row)
        made = None if found.made is None else location_of_call(flow, found.made)
        if found.is_probability:
            what = "the probabilities of a softmax are added to log-densities, without their logarithm"
            location, made = made, location
        else:
            at = at_line(made) if made != location else ""
            what = f"the weights of a mixture{at} are added to log-densities as they are, and nothing normalizes them"
        return self.finding(
            what,
            symptom="grad_wrong",
            why="the mixture is no distribution: its weights do not add up to 1"
            + ("" if found.is_probability else ", and the loss falls without end when all of them grow"),
            fix="take log_softmax() instead of softmax()"
            if found.is_probability
            else "normalize them over the components: torch.log_softmax(w, dim=-1) + log_density",
            location=location,
            symptom_location=made if made != location else None,
        )


class _Mixture(Struct, frozen=True):
    row: int
    """The sum of weights and densities."""
    made: int | None
    """What made the weights; None for a parameter."""
    is_probability: bool
    is_over_samples: bool = False
    """Whether the likelihood adds up over the samples, and the weights of each sample add up to 1."""


_LINEAR = frozenset({"linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "conv1d", "conv2d", "einsum"})
_PARTS = frozenset({"chunk", "split", "unbind", "select", "narrow"})
_OF_DENSITIES = frozenset({"add", "sub", "mul", "div", "neg", "sum", *SHAPE_ONLY})
_MAX_SUMMANDS = 12
_MAX_CALLS = 40
_TWO = 2
_NORMALIZERS = frozenset({"log_softmax", "softmax"})


def _mixture(flow: Dataflow, term: Term) -> _Mixture | None:
    """The sum under ``logsumexp()``, or under ``log(sum(exp()))``, in a term that the loss subtracts."""
    call = flow.log.calls[term.row]
    name = plain_name(call.function)
    if term.sign > 0 or not call.live_inputs or name not in ("logsumexp", "log", "logaddexp"):
        return None
    before, tensor, summing = term.row, call.live_inputs[0].tensor, term.row
    if name == "logaddexp":
        tensor, before = _first_component(flow, tensor, before)
    for expected in ("sum", "exp") if name == "log" else ():
        made = flow.newest_producer(tensor, before)
        if made is None or plain_name(flow.log.calls[made].function) != expected:
            return None
        before, tensor = made, flow.log.calls[made].inputs[0].tensor
        summing = made if expected == "sum" else summing
    summands = list(_summands(flow, tensor, before))
    if not any(is_log_density(flow, use, row) for use, row in summands):
        return None
    found = (_weights(flow, use, row) or _over_samples(flow, use, row, summing) for use, row in summands)
    return next((each for each in found if each is not None), None)


def _over_samples(flow: Dataflow, use: TensorUse, row: int, summing: int) -> _Mixture | None:
    """Weights of each sample that are normalized over the second axis, where the mixture adds up over the first."""
    call = flow.log.calls[summing]
    shape = shape_of(flow, use.tensor)
    made = flow.newest_producer(use.tensor, row)
    if made is not None and plain_name(flow.log.calls[made].function) == "log":
        made = flow.newest_producer(flow.log.calls[made].inputs[0].tensor, made)
    is_table = len(shape) == _TWO and shape_of(flow, call.inputs[0].tensor) == shape
    if made is None or not is_table or plain_name(flow.log.calls[made].function) not in _NORMALIZERS:
        return None
    maker = flow.log.calls[made]
    axes = axis_of(call, _TWO), axis_of(maker, _TWO)
    is_of_samples = value_maker(flow, maker.inputs[0].tensor, made, through=_PARTS) is not None
    return _Mixture(summing, made, False, True) if axes == (0, 1) and is_of_samples else None


def _first_component(flow: Dataflow, tensor: int, before: int) -> tuple[int, int]:
    """The first component of what several ``logaddexp()`` add up, one after the other; and the call that takes it."""
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, before)
        if made is None or plain_name(flow.log.calls[made].function) != "logaddexp":
            break
        tensor, before = flow.log.calls[made].inputs[0].tensor, made
    return tensor, before


def _summands(flow: Dataflow, tensor: int, before: int) -> Iterator[tuple[TensorUse, int]]:
    """What a sum adds, each with the call that takes it."""
    waiting, count = [(tensor, before)], 0
    while waiting and count < _MAX_SUMMANDS:
        count += 1
        tensor, before = waiting.pop()
        made = value_maker(flow, tensor, before, through=_PARTS)
        if made is None or plain_name(made[1].function) not in ("add", "sub"):
            continue
        row, call = made
        added = call.inputs if plain_name(call.function) == "add" else call.inputs[:1]
        for use in added:
            yield use, row
            waiting.append((use.tensor, row))


def _weights(flow: Dataflow, use: TensorUse, row: int) -> _Mixture | None:
    """Weights that nothing has normalized, and that only this sum uses."""
    if not use.requires_grad or len(flow.log.calls[row].inputs) != _TWO:
        return None
    made = value_maker(flow, use.tensor, row, through=_PARTS)
    name = "" if made is None else plain_name(made[1].function)
    if name == "softmax":
        return _Mixture(row, made[0] if made else None, True)
    is_raw = name in _LINEAR or _is_leaf(flow, use.tensor, row)
    if not is_raw or not _is_only_added(flow, use.tensor, row):
        return None
    return _Mixture(row, made[0] if made is not None and name in _LINEAR else None, False)


def _is_leaf(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor is a parameter, perhaps in another shape."""
    for _, call in flow.makers(tensor, row, _MAX_SUMMANDS):
        if flow.log.tensors[tensor].is_leaf or plain_name(call.function) not in SHAPE_ONLY or not call.inputs:
            break
        tensor = call.inputs[0].tensor
    return flow.log.tensors[tensor].is_leaf


def _is_only_added(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether the loss reads neither the tensor nor what it was before its shape was changed in another way."""
    since, until = flow.step_before(row), flow.next_of_kind("backward", row)
    while True:
        users = [flow.log.calls[user] for user in flow.users(tensor, since) if user < until and user != row]
        if any(user.kind == "operation" and plain_name(user.function) not in SHAPE_ONLY for user in users):
            return False
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in SHAPE_ONLY - PARTS:
            return True
        tensor, row = call.inputs[0].tensor, made
