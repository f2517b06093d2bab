"""GV750."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.graph.call_log import Call


class GumbelNoise(Rule):
    """The noise of a Gumbel softmax has one logarithm only, or the wrong sign.

    What it finds
    -------------
    Trained scores to which a logarithm of numbers from 0 to 1 is added on their way to a softmax, as in
    ``softmax(scores - log(u))``; and scores with the double logarithm of the other sign, ``scores + log(-log(u))``.
    The noise of the Gumbel distribution is ``-log(-log(u))``. Differences of two logarithms, which are noise of the
    logistic distribution, are left alone.

    Why it matters
    --------------
    Only with Gumbel noise is each class the largest with the probability that the softmax of the scores gives it. Other
    noise draws from other probabilities than those that the loss, or a later ``argmax`` or ``multinomial``, takes.

    Example
    -------
    model, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(4, 6)
    optimizer = torch.optim.SGD([*model.parameters(), *decoder.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(8, 6)
        scores = model(x)
        noise = -torch.log(torch.rand_like(scores) + 1e-9)
        loss = (decoder(torch.softmax((scores + noise) / 0.5, dim=-1)) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(4, 6)
    optimizer = torch.optim.SGD([*model.parameters(), *decoder.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(8, 6)
        scores = model(x)
        noise = -torch.log(-torch.log(torch.rand_like(scores) + 1e-9) + 1e-9)
        loss = (decoder(torch.softmax((scores + noise) / 0.5, dim=-1)) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV750"
    name = "gumbel_noise"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _SOFTMAX):
            if not call.live_inputs or not flow.has_step_after(row):
                continue
            noise = _noise_before(flow, row, call.inputs[0].tensor)
            site = None if noise is None else flow.log.calls[noise.row].call_site
            if noise is not None and not noise.is_gumbel and site not in told:
                told.add(site)
                yield self._finding(flow, noise, row)

    def _finding(self, flow: Dataflow, noise: _Noise, row: int) -> Finding:
        location, used = two_lines(flow, noise.row, row)
        if noise.logarithms == 1:
            what = "one logarithm of numbers from 0 to 1: this is noise of the exponential distribution"
        else:
            what = "a double logarithm with the wrong sign: this is Gumbel noise turned around"
        return self.finding(
            f"scores get {what}, before the softmax{at_line(used)}",
            symptom="grad_wrong",
            why="only with Gumbel noise is each class the largest as often as the softmax of the scores says",
            fix="add -torch.log(-torch.log(u)) to the scores, or call torch.nn.functional.gumbel_softmax(scores)",
            location=location,
            symptom_location=used,
        )


class _Noise(Struct, frozen=True):
    row: int
    """The last logarithm, or the draw of an exponential distribution."""
    logarithms: int
    is_taken_away: bool
    """Whether the last logarithm has a minus before it when it meets the scores."""

    @property
    def is_gumbel(self) -> bool:
        return self.logarithms == _TWO and self.is_taken_away


_TWO = 2
_MAX_STEPS = 8
_SOFTMAX = frozenset({"softmax", "log_softmax"})
_UNIFORM = frozenset({"rand", "rand_like", "uniform"})


def _noise_before(flow: Dataflow, row: int, tensor: int) -> _Noise | None:
    """The noise that a sum adds to trained scores, of which only a temperature may be taken afterwards."""
    for made, call in flow.makers(tensor, row, _MAX_STEPS):
        name = plain_name(call.function)
        if name in ("add", "sub") and len(call.inputs) == _TWO:
            dead = [use for use in call.inputs if not use.requires_grad]
            if len(dead) != 1:
                return None
            is_taken_away = name == "sub" and dead[0].place in ("1", "other")
            return _noise(flow, made, dead[0].tensor, is_taken_away=is_taken_away)
        if name not in SHAPE_ONLY and not (name in ("div", "mul") and len(call.live_inputs) == 1):
            return None
    return None


def _noise(flow: Dataflow, row: int, tensor: int, *, is_taken_away: bool) -> _Noise | None:
    """What a tensor is, if it is nothing but logarithms of a draw: signs, and small numbers that are added."""
    last, logarithms = 0, 0
    for made, call in flow.makers(tensor, row, _MAX_STEPS):
        name = plain_name(call.function)
        if name == "log":
            last, logarithms = last or made, logarithms + 1
        elif name == "exponential" or name in _UNIFORM:
            logarithms += name == "exponential"
            return _Noise(last or made, logarithms, is_taken_away) if _is_known(call, logarithms) else None
        elif turned := _turns(call, name):
            is_taken_away ^= turned < 0 and not logarithms
        elif name not in SHAPE_ONLY and name not in ("clamp", "empty_like", "zeros_like"):
            return None
    return None


def _is_known(call: Call, logarithms: int) -> bool:
    values = call.outputs[0].values if call.outputs else None
    lowest = None if values is None else values.minimum
    return logarithms in (1, _TWO) and lowest is not None and lowest >= 0


def _turns(call: Call, name: str) -> int:
    """-1 for a minus, 1 for a positive factor or a number that is added; 0 for anything else."""
    if len(call.inputs) != 1:
        return 0
    if name in ("neg", "negative"):
        return -1
    if name == "sub" and is_number_first(call):
        return 0  # 1 - u is a draw as well, but its logarithm is half of a logistic one
    if name == "mul":
        factor = number_of(call, "1", "0", "other", missing=0.0)
        return (factor > 0) - (factor < 0)
    return int(name in ("add", "sub"))
