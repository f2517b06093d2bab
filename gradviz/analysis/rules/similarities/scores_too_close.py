"""GV657."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log

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
from gradviz.graph.call_log import Call


class ScoresTooClose(Rule):
    """Cosines are made so small before a softmax that no answer can be sure.

    What it finds
    -------------
    A cross entropy of products of normalized vectors, multiplied by a number below 1, where even the best possible
    scores, 1 for the right class and -1 for all others, give the right class a share of less than a half. If they are
    used as they are, without any factor, that is a note. So it is with scores that are made of the distances between
    normalized vectors.

    Why it matters
    --------------
    Softmax looks at differences: scores between -0.07 and 0.07 are nearly equal for it. The loss stays near the
    logarithm of the number of classes, and all gradients are small. A temperature is what scores are divided by.

    Example
    -------
    normalize = torch.nn.functional.normalize
    encoder = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 8)
        a = normalize(encoder(x), dim=1)
        b = normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1)
        loss = torch.nn.functional.cross_entropy(a @ b.T * 0.1, torch.arange(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    normalize = torch.nn.functional.normalize
    encoder = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 8)
        a = normalize(encoder(x), dim=1)
        b = normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1)
        loss = torch.nn.functional.cross_entropy(a @ b.T / 0.1, torch.arange(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV657"
    name = "scores_too_close"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, frozenset({"cross_entropy", "log_softmax"})):
            found = [_cosines(flow, row) for row in rows]
            last = found[-1]
            if last is not None and all(each is not None and each.best_share < _HALF for each in found):
                yield self._finding(flow, rows[-1], last)

    def _finding(self, flow: Dataflow, row: int, cosines: _Cosines) -> Finding:
        factor, classes = cosines.factor, cosines.classes
        location, loss = two_lines(flow, cosines.scaled, row)
        best = log(1 + (classes - 1) * exp(-2 * factor))
        given = (
            f"cosines times {factor:.3g}, from {-factor:.3g} to {factor:.3g}"
            if cosines.are_products
            else f"scores that are made of distances between unit vectors, within a range of {2 * factor:.3g}"
        )
        return self.finding(
            f"{call_words(flow.log.calls[row])} gets {given}: "
            f"of {classes:,} classes, the right one cannot get more than {cosines.best_share:.0%}",
            severity="warning" if factor < 1 else "note",
            symptom="grad_wrong",
            why=f"the softmax of scores so close to each other is nearly uniform: the loss cannot fall below "
            f"{best:.3g}, and chance is {log(classes):.3g}",
            fix="divide cosines by a temperature below 1, such as 0.07; do not multiply them by it"
            if factor <= 1
            else f"divide cosines by a smaller temperature than {1 / factor:.3g}, such as 0.07",
            location=location,
            symptom_location=loss,
            evidence={"factor": factor, "classes": classes},
        )


class _Cosines(Struct, frozen=True):
    """Logits that are products of normalized vectors, or made of the distances between them."""

    factor: float
    """Half of the range in which they lie."""
    scaled: int
    """The call that multiplied them by it, or the product."""
    classes: int
    are_products: bool = True
    """Whether they are products, and not made of distances."""

    @property
    def best_share(self) -> float:
        """What softmax gives the right class at most."""
        return 1 / (1 + (self.classes - 1) * exp(-2 * self.factor))


_HALF = 0.5
_BOTH = 2
_MAX_STEPS = 10
_SCALES = frozenset({"mul", "div"})
_PRODUCTS = frozenset({"matmul", "mm", "einsum", "bmm", "linear", "cosine_similarity"})
_MOVES = frozenset({"add", "sub", "neg", "square", "pow"})


def _cosines(flow: Dataflow, row: int) -> _Cosines | None:
    use = flow.log.calls[row].inputs[0]
    shape = shape_of(flow, use.tensor)
    if len(shape) < _BOTH:
        return None
    steps: list[tuple[Call, float]] = []
    scaled, tensor, before = None, use.tensor, row
    for _ in range(_MAX_STEPS):
        before = -1 if (made := flow.newest_producer(tensor, before)) is None else made
        call = flow.log.calls[before]
        name = plain_name(call.function)
        if before < 0 or not call.inputs:
            return None
        if name in _PRODUCTS or name == "cdist":
            is_unit = name == "cosine_similarity" or are_normalized(flow, before, call)
            half = _half_of_range(steps, is_product=name != "cdist") if is_unit else None
            place = before if scaled is None else scaled
            return None if half is None else _Cosines(half, place, shape[1], name != "cdist")
        if name in _SCALES | _MOVES:
            number = _number(flow, before, call)
            if number is None:
                return None
            steps.append((call, number))
            scaled = before if scaled is None and name in _SCALES else scaled
        elif name not in SHAPE_ONLY and not leaves_out(call):
            return None
        tensor = call.live_inputs[0].tensor if call.live_inputs else call.inputs[0].tensor
    return None


def _number(flow: Dataflow, row: int, call: Call) -> float | None:
    """The single number with which a call computes; None if it is learned, or there are several."""
    if plain_name(call.function) in ("neg", "square"):
        return 0.0
    if len(call.inputs) == _BOTH and len(call.live_inputs) == 1:
        other = next(use for use in call.inputs if not use.requires_grad)
        values = flow.values_of(other, row)
        return values.minimum if values is not None and values.count == 1 else None
    is_known = len(call.inputs) == 1 and any(place in call.scalars for place in (*OPERAND, "0", "exponent"))
    return number_of(call, *OPERAND, "0", "exponent", missing=0.0) if is_known else None


def _half_of_range(steps: list[tuple[Call, float]], *, is_product: bool) -> float | None:
    """Half of the range of scores that are computed from cosines, or from distances of unit vectors, in these steps,
    of which the last is the first here; None where close vectors do not have the higher scores."""
    low, high, sign = (-1.0, 1.0, 1) if is_product else (0.0, 2.0, -1)
    for call, number in reversed(steps):
        name, is_turned = plain_name(call.function), _is_turned(call)
        if name in ("square", "pow"):
            if low < 0 or (name == "pow" and number != _BOTH):
                return None
            low, high = low**2, high**2
        elif name in _SCALES:
            if not number or (name == "div" and is_turned):
                return None
            ends = [end * number if name == "mul" else end / number for end in (low, high)]
            low, high, sign = min(ends), max(ends), sign if number > 0 else -sign
        elif name == "neg" or is_turned:
            low, high, sign = number - high, number - low, -sign
        else:
            move = number if name == "add" else -number
            low, high = low + move, high + move
    return (high - low) / 2 if sign > 0 else None


def _is_turned(call: Call) -> bool:
    """Whether a call takes its argument away from a number, or divides the number by it."""
    name = call.function.rpartition(".")[2]
    return name.startswith(("__rsub", "__rdiv", "__rtruediv")) or name == "rsub" or "0" in call.scalars
