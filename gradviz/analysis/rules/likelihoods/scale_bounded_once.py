"""GV745."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.scales.bounded_scales import (
    BOUNDS,
    CLAMPS,
    Bounded,
    bounds_of,
    changes_values,
    common_key,
    is_factor_of_values,
    up_to_bound,
)
from gradviz.analysis.rules.bases.losses.scales.noise_scales import (
    NOISE_PRODUCTS,
    scales_of_noise,
    variances_of_divergence,
)
from gradviz.analysis.rules.bases.losses.scales.scale_logarithms import logarithms_in, terms_of_sum
from gradviz.analysis.rules.bases.losses.scales.scale_powers import Key, Power, powers_of
from gradviz.analysis.rules.bases.losses.scales.scale_products import powers_in_product
from gradviz.analysis.rules.bases.losses.signed_terms import Term


class ScaleBoundedOnce(Rule):
    """A scale is bounded where it is used, and its logarithm in the loss is that of another scale.

    What it finds
    -------------
    A loss with the square of what was multiplied with ``exp(c * tanh(s))``, and with the sum of ``s`` itself for the
    log-determinant: also with other functions that bound, with ``sigmoid(s)`` and ``softplus(s)`` as scales, with
    ``exp(s)`` and the sum of ``tanh(s)``, and with the divergence of a sample whose noise has a bounded scale. A clamp
    counts only if it changes values, in the direction to which the sum moves them.

    Why it matters
    --------------
    The two terms no longer hold each other. The sum of ``s`` moves without limit where the bound keeps the scale, the
    loss falls, and it is no likelihood.

    Example
    -------
    net = torch.nn.Linear(2, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(3):
        a, b = torch.randn(16, 4).chunk(2, dim=1)
        s, t = net(a).chunk(2, dim=1)
        z = b * torch.exp(2 * torch.tanh(s)) + t
        log_det = s.sum(1)
        loss = (z.square().sum(1) / 2 - log_det).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    net = torch.nn.Linear(2, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(3):
        a, b = torch.randn(16, 4).chunk(2, dim=1)
        s, t = net(a).chunk(2, dim=1)
        s = 2 * torch.tanh(s)
        z = b * torch.exp(s) + t
        log_det = s.sum(1)
        loss = (z.square().sum(1) / 2 - log_det).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV745"
    name = "scale_bounded_once"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for use in flow.log.calls[backward].roots:
                terms = terms_of_sum(flow, backward, use.tensor)
                for found in (*_apart(flow, terms), *_noise_apart(flow, backward, use.tensor, terms)):
                    site = flow.log.calls[found.edited].call_site
                    if site not in told:
                        told.add(site)
                        yield self._finding(case, found)

    def _finding(self, case: Case, found: _Apart) -> Finding:
        flow = case.dataflow
        location, other = two_lines(flow, found.edited, found.bound)
        name, elsewhere = call_words(flow.log.calls[found.bound]), at_line(other)
        if other is not None and _is_given_elsewhere(flow, found):
            location, other, elsewhere = other, location, ""
        return self.finding(
            found.words.format(f"{name}{elsewhere}", name),
            symptom="grad_wrong",
            why="both have to be of one scale: here the part without the bound grows on where the scale itself cannot",
            fix=f"bound it once, and use the result for both: s = {name.removesuffix('()')}(s) before it is used",
            location=location,
            symptom_location=other,
            tensors=leaf_names_above(flow, found.tensor, found.bound, flow.step_before(found.bound)),
        )


class _Apart(Struct, frozen=True):
    """A scale and a logarithm of which only one is bounded."""

    edited: int
    """The call that takes the one that is not bounded; where both are in one place, that bounds the other."""
    bound: int
    tensor: int
    """What the function that bounds takes."""
    words: str


def _is_given_elsewhere(flow: Dataflow, found: _Apart) -> bool:
    """Whether the function that bounds a tensor has made it, and another function only gets it from that one."""
    made = flow.newest_producer(found.tensor, found.bound)
    lines = [None if row is None else flow.line_of(row) for row in (made, found.bound, found.edited)]
    own, bounding, elsewhere = [None if line is None else (line.file, line.function) for line in lines]
    return own is not None and own == bounding != elsewhere


def _apart(flow: Dataflow, terms: list[Term]) -> Iterator[_Apart]:
    """The scales of products of which the loss has the logarithm of another scale, made of the same tensor."""
    signs, first = logarithms_in(flow, terms)
    logarithms = [term for term in terms if plain_name(flow.log.calls[term.row].function) in BOUNDS and term.is_sure]
    added = {term.row: None for term in terms if term.sign > 0 and term.is_sure} if signs else {}
    others = _other_logarithms(flow, terms)
    powers = dict.fromkeys(power for row in added for power in powers_in_product(flow, row))
    for bounded in bounds_of(flow, powers):
        if any(power.key in others for power in bounded.above):
            continue
        found = _raw_logarithm(flow, bounded, signs)
        is_clamp = plain_name(flow.log.calls[bounded.row].function) in CLAMPS
        # An estimate of mutual information may clamp its exponentials on purpose: they are scales of nothing.
        if found is not None and (not is_clamp or is_factor_of_values(flow, bounded, powers)):
            yield _Apart(first[found].row, bounded.row, bounded.given.tensor, _RAW_LOGARITHM)
    yield from _bounded_logarithms(flow, logarithms, powers, signs)


def _raw_logarithm(flow: Dataflow, bounded: Bounded, signs: dict[Key, set[int]]) -> Key | None:
    """What a function bounds, if the loss has that itself as the logarithm of the scale."""
    if any(key in signs for key in bounded.power.key.and_wholes()):
        return None
    met = common_key(bounded.above, signs)
    if met is None:
        return None
    key, above = met
    grows = 1 if bounded.power.power * above.power > 0 else -1
    moves = 1 if bounded.power.power > 0 else -1
    return key if signs[key] == {-grows} and changes_values(flow, bounded, (moves,)) else None


def _other_logarithms(flow: Dataflow, terms: list[Term]) -> set[Key]:
    """What goes into terms that may be the logarithm of a scale, or a part of it: ``s - softplus(s)``."""
    calls = ((term.row, flow.log.calls[term.row]) for term in terms)
    return {
        power.key
        for row, call in calls
        if (name := plain_name(call.function)) in _LOGARITHMS and call.live_inputs
        for power in powers_of(flow, call.live_inputs[0].tensor, row, 1.0, is_log=name != "log1p")
    }


_LOGARITHMS = frozenset({"softplus", "logsigmoid", "log1p"})


def _bounded_logarithms(
    flow: Dataflow, terms: list[Term], powers: Iterable[Power], signs: dict[Key, set[int]]
) -> Iterator[_Apart]:
    """The logarithms that only the loss bounds: ``exp(s)``, and the sum of ``tanh(s)``."""
    own = {power.key: power for power in powers if power.key.is_log}
    for term in terms:
        call = flow.log.calls[term.row]
        if not call.live_inputs:
            continue
        given = call.live_inputs[0]
        above = powers_of(flow, given.tensor, term.row, 1.0, is_log=True)
        met = common_key(above, own)
        bounded = Key(call.outputs[0].tensor, (), is_log=True)
        if met is None or met[0] in signs or bounded in own:
            continue
        key, made = met
        if term.sign * own[key].power * made.power < 0:
            yield _Apart(own[key].row, term.row, given.tensor, _BOUNDED_LOGARITHM)


def _noise_apart(flow: Dataflow, backward: int, root: int, terms: list[Term]) -> Iterator[_Apart]:
    """The scales of noise beside the divergence of another variance, made of the same tensor."""
    variances = list(variances_of_divergence(flow, terms))
    above = flow.ancestors(root, backward, flow.step_before(backward)) if variances else ()
    for row in above:
        if plain_name(flow.log.calls[row].function) not in NOISE_PRODUCTS:
            continue
        noise = list(up_to_bound(flow, scales_of_noise(flow, row)))
        for variance in variances:
            yield from _sides_apart(flow, noise, list(up_to_bound(flow, variance)))


def _sides_apart(flow: Dataflow, noise: list[Power], variance: list[Power]) -> Iterator[_Apart]:
    if not noise or common_key(noise, (power.key for power in variance)) is not None:
        return
    for one, other, words in ((noise, variance, _NOISE), (variance, noise, _VARIANCE)):
        for bounded in bounds_of(flow, one):
            met = common_key(bounded.above, (power.key for power in other))
            if met is not None and changes_values(flow, bounded, (-1, 1)):
                free = next(power for power in other if met[0] in power.key.and_wholes())
                yield _Apart(free.row, bounded.row, bounded.given.tensor, words)


_RAW_LOGARITHM = "a scale is bounded by {0}, but the loss takes for its logarithm what goes into {1}, without the bound"
_BOUNDED_LOGARITHM = (
    "a scale is made of what goes into {0}, without its bound, but the loss takes for its logarithm what {1} returns"
)
_NOISE = "noise has a scale that {0} bounds, but the divergence takes what goes into {1}, without the bound"
_VARIANCE = "noise has a scale made of what goes into {0}, without its bound, but the divergence takes what {1} returns"
