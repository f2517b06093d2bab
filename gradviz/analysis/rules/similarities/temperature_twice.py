"""GV966."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, calls_in_training
from gradviz.analysis.rules.bases.losses.scales.unit_vectors import are_normalized, leaves_out
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse


class TemperatureTwice(Rule):
    """Cosines are divided by the same temperature twice before a softmax.

    What it finds
    -------------
    Products of normalized vectors that are divided by a number, and divided by the same number again on another line,
    or multiplied by the same scale on two lines, also by the same trained one, before a cross entropy, a softmax or an
    exponential.

    Why it matters
    --------------
    A temperature of 0.07 becomes one of 0.005. The softmax is then sure of the nearest vector, whichever that is: only
    the hardest negative of each sample gets a gradient, and that is large.

    Example
    -------
    normalize = torch.nn.functional.normalize
    encoder = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    def similarities(a, b):
        return normalize(a, dim=1) @ normalize(b, dim=1).T / 0.1
    for step in range(3):
        x = torch.randn(16, 8)
        scores = similarities(encoder(x), encoder(x + 0.1 * torch.randn_like(x)))
        loss = torch.nn.functional.cross_entropy(scores / 0.1, torch.arange(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    normalize = torch.nn.functional.normalize
    encoder = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    def similarities(a, b):
        return normalize(a, dim=1) @ normalize(b, dim=1).T / 0.1
    for step in range(3):
        x = torch.randn(16, 8)
        scores = similarities(encoder(x), encoder(x + 0.1 * torch.randn_like(x)))
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV966"
    name = "temperature_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for rows in calls_in_training(flow, _ENDS):
            found = [_scaled_twice(flow, row) for row in rows]
            last = found[-1]
            if last is not None and all(found) and flow.log.calls[last.second].call_site not in told:
                told.add(flow.log.calls[last.second].call_site)
                yield self._finding(flow, rows[-1], last)

    def _finding(self, flow: Dataflow, row: int, twice: _Twice) -> Finding:
        location, first = two_lines(flow, twice.second, twice.first)
        by = "the same trained number" if twice.number is None else f"{twice.number:g}"
        is_division = plain_name(flow.log.calls[twice.first].function) == "div"
        how = "divided by" if is_division else "multiplied by"
        whole = "" if twice.number is None else f", together {twice.number**2:.3g}"
        return self.finding(
            f"cosines are {how} {by} twice{whole}, before {call_words(flow.log.calls[row])} takes them",
            symptom="grad_wrong",
            why="the softmax becomes sure of the nearest vector, whichever that is: all others hardly get a gradient",
            fix="apply the temperature once: leave out this line, or the other one",
            location=location,
            symptom_location=first,
        )


class _Twice(Struct, frozen=True):
    """Two calls that scale with the same number."""

    first: int
    second: int
    number: float | None
    """None for a trained one."""


_ENDS = frozenset({"cross_entropy", "log_softmax", "softmax", "logsumexp", "exp"})
_SCALES = frozenset({"mul", "div"})
_SHIFTS = frozenset({"sub", "add"})
_PRODUCTS = frozenset({"matmul", "mm", "einsum", "bmm", "linear", "cosine_similarity"})
_JOINS = frozenset({"cat", "concat"})
_MAX_STEPS = 12
_BOTH = 2


def _scaled_twice(flow: Dataflow, row: int) -> _Twice | None:
    """Two calls that scale cosines with the same number, before a call takes them."""
    if not flow.log.calls[row].inputs:
        return None
    scaled: dict[tuple[str, float | None, int], list[int]] = {}
    tensor, before = flow.log.calls[row].inputs[0].tensor, row
    for _ in range(_MAX_STEPS):
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.live_inputs:
            return None
        name = plain_name(call.function)
        if name in _PRODUCTS:
            is_unit = name == "cosine_similarity" or are_normalized(flow, made, call)
            pairs = ((key, rows) for key, rows in scaled.items() if len(rows) > 1) if is_unit else ()
            return next((_Twice(rows[-1], rows[0], number) for (_, number, _), rows in pairs), None)
        given = call.live_inputs[0]
        if name in _SCALES:
            scale = _scale(flow, made, call)
            if scale is None:
                return None
            given = scale.given
            rows = scaled.setdefault((name, scale.number, scale.trained), [])
            if not rows or flow.log.calls[rows[0]].call_site != call.call_site:
                rows.append(made)
        elif name not in SHAPE_ONLY | _SHIFTS | _JOINS and not leaves_out(call):
            return None
        tensor, before = given.tensor, made
    return None


class _Scale(Struct, frozen=True):
    """What a call multiplies or divides by."""

    given: TensorUse
    """What it scales."""
    number: float | None
    trained: int = -1
    """The tensor from which a trained one is computed, perhaps by ``exp()``."""


def _scale(flow: Dataflow, row: int, call: Call) -> _Scale | None:
    """None where it is 1, or no single number."""
    if len(call.inputs) == 1:
        factor = number_of(call, *OPERAND, missing=1.0)
        return _Scale(call.inputs[0], factor) if factor > 0 and factor != 1 else None
    single = [use for use in call.inputs if set(shape_of(flow, use.tensor)) <= {1}]
    if len(single) != 1 or len(call.inputs) != _BOTH:
        return None
    given = next(use for use in call.inputs if use is not single[0])
    if single[0].requires_grad:
        made = flow.newest_producer(single[0].tensor, row)
        maker = None if made is None else flow.log.calls[made]
        is_exp = maker is not None and plain_name(maker.function) == "exp"
        return _Scale(given, None, maker.inputs[0].tensor if maker is not None and is_exp else single[0].tensor)
    values = flow.values_of(single[0], row)
    number = None if values is None else values.minimum
    return _Scale(given, number) if number is not None and number > 0 and number != 1 else None
