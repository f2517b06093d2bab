"""GV847."""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial, prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.signed_terms import signed_terms
from gradviz.graph.call_log import Call, TensorUse


class AssignedAsAWhole(Rule):
    """Which result belongs to which target is chosen once for a whole batch, not for each sample.

    What it finds
    -------------
    A loss that compares the same results with the same targets in several orders (the permutations of the speakers in
    a mixture, of the objects in a scene), averages each over the batch, and then takes the best of these averages.

    Why it matters
    --------------
    The order of the targets says nothing, so each sample has a best order of its own. One order for all of them is
    wrong for about half of the samples: they pull the results towards the wrong targets, and to their mean.

    Example
    -------
    model = torch.nn.Linear(6, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(16, 6), torch.randn(16, 2, 4)
        made = model(x).view(16, 2, 4)
        straight = (made - y).square().mean()
        crossed = (made.flip(1) - y).square().mean()
        loss = torch.minimum(straight, crossed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(6, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(16, 6), torch.randn(16, 2, 4)
        made = model(x).view(16, 2, 4)
        straight = (made - y).square().mean((1, 2))
        crossed = (made.flip(1) - y).square().mean((1, 2))
        loss = torch.minimum(straight, crossed).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV847"
    name = "assigned_as_a_whole"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for root in flow.log.calls[backward].roots:
                terms = list(signed_terms(flow, backward, root.tensor))
                choices = [each.row for each in terms if plain_name(flow.log.calls[each.row].function) in _CHOICES]
                sites = [flow.log.calls[row].call_site for row in choices]
                for row, site in dict(zip(choices, sites, strict=True)).items():
                    # A loop over the samples chooses for each of them.
                    is_of_batch = len({each for each, other in zip(choices, sites, strict=True) if other == site}) == 1
                    samples = _samples(flow, row) if is_of_batch and site not in told else 0
                    if samples:
                        told.add(site)
                        yield self._finding(flow, row, samples)

    def _finding(self, flow: Dataflow, row: int, samples: int) -> Finding:
        return self.finding(
            f"the best of several orders of the targets is chosen once for all {samples:,} samples: each order was "
            "averaged over the batch before",
            symptom="grad_wrong",
            why="each sample has a best order of its own; one for all of them asks many for the wrong targets",
            fix="keep a value for each sample and each order, choose, and average then: "
            "torch.stack(losses, dim=1).min(dim=1).values.mean(), with losses of shape (N,)",
            location=location_of_call(flow, row),
            evidence={"samples": samples},
        )


class _Part(Struct, frozen=True):
    """What a comparison takes, as far as it is computed for one order only."""

    sources: frozenset[int]
    """The tensors that all orders have in common."""
    chosen: tuple[str, ...]
    """What was taken of them."""
    order: tuple[str, ...]
    """How that was put into another order."""


_Comparison = tuple[_Part, _Part]

_CHOICES = frozenset({"min", "max", "amin", "amax", "minimum", "maximum"})
_COMPARES = frozenset({
    "sub", "mul", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "pairwise_distance", "cosine_similarity",
})  # fmt: skip
_SELECTS = frozenset({
    "getitem", "select", "index_select", "narrow", "unbind", "chunk", "split", "flip", "roll", "take", "take_along_dim",
})  # fmt: skip
_OF_CLASSES = frozenset({"cross_entropy", "nll_loss"})
_BOTH = 2
_MOST_ORDERS = 24


def _samples(flow: Dataflow, row: int) -> int:
    """The samples of a batch for which a call chooses one of several orders; 0 for other calls."""
    candidates = _candidates(flow, row)
    if not _BOTH <= len(candidates) <= _MOST_ORDERS:
        return 0
    since = flow.step_before(row)
    above = [frozenset(flow.ancestors(tensor, before, since)) for tensor, before in candidates]
    common = frozenset.intersection(*above)
    sizes, orders = set[int](), list[frozenset[_Comparison]]()
    for rows in above:
        found = [(each, pair) for each in rows - common if (pair := _comparison(flow, each, rows - common)) is not None]
        orders.append(frozenset(pair for _, pair in found))
        sizes |= {shape_of(flow, source)[0] for _, pair in found for source in _tables(flow, pair)}
    is_same = all(_parts(each, side) == _parts(orders[0], side) for each in orders for side in (0, 1))
    is_crossed = is_same and all(orders) and len(set(orders)) == len(orders) and len(sizes) == 1
    samples = sizes.pop() if is_crossed else 0
    return samples if samples > 1 and factorial(min(samples, _MOST_ORDERS)) != len(orders) else 0


def _candidates(flow: Dataflow, row: int) -> list[tuple[int, int]]:
    """The single numbers of which a call takes the best, each with the call that takes it."""
    live = flow.log.calls[row].live_inputs
    if len(live) == 1 and len(shape_of(flow, live[0].tensor)) == 1:
        made = flow.newest_producer(live[0].tensor, row)
        if made is None or plain_name(flow.log.calls[made].function) not in ("stack", "cat"):
            return []
        row, live = made, flow.log.calls[made].live_inputs
    return [(use.tensor, row) for use in live] if all(prod(shape_of(flow, use.tensor)) == 1 for use in live) else []


def _comparison(flow: Dataflow, row: int, own: frozenset[int]) -> _Comparison | None:
    """The result and the target that a call compares; None for another call."""
    call = flow.log.calls[row]
    if plain_name(call.function) not in _COMPARES or len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    target = next(use for use in call.inputs if not use.requires_grad)
    if plain_name(call.function) in _OF_CLASSES and _are_classes_reordered(flow, row, call):
        return None
    given, asked = _part(flow, call.live_inputs[0], row, own), _part(flow, target, row, own)
    return None if given is None or asked is None else (given, asked)


def _are_classes_reordered(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the columns of its scores were put into another order: classes have the same names in all samples."""
    scores, target = (use.tensor for use in call.inputs)
    made = flow.newest_producer(scores, row)
    if made is None or len(shape_of(flow, scores)) != _BOTH or len(shape_of(flow, target)) != 1:
        return False
    given = flow.log.calls[made].inputs
    is_whole = bool(given) and shape_of(flow, given[0].tensor) == shape_of(flow, scores)
    return is_whole and plain_name(flow.log.calls[made].function) in _SELECTS


def _part(flow: Dataflow, use: TensorUse, row: int, own: frozenset[int]) -> _Part | None:
    rows = [each for each in flow.ancestors(use.tensor, row, flow.step_before(row)) if each in own]
    made = {each.tensor for inner in rows for each in flow.log.calls[inner].outputs}
    taken = [use, *(each for inner in rows for each in flow.log.calls[inner].inputs)]
    sources = frozenset(each.tensor for each in taken if each.tensor not in made)
    if any(flow.log.tensors[each].role == "parameter" for each in sources) or len(sources) != 1:
        return None
    chosen, order = list[str](), list[str]()
    for inner in rows:
        call = flow.log.calls[inner]
        if plain_name(call.function) in _SELECTS and call.outputs:
            if _moves_samples(call):
                return None
            is_whole = shape_of(flow, call.outputs[0].tensor) == shape_of(flow, call.inputs[0].tensor)
            # A list of places is not recorded: two of them are taken for two orders.
            places = sorted(map(str, call.scalars.items())) or [str(inner)]
            (order if is_whole else chosen).append(f"{plain_name(call.function)} {' '.join(places)}")
    return _Part(sources, tuple(chosen), tuple(order))


def _moves_samples(call: Call) -> bool:
    """Whether a call puts the samples, along the first axis, into another order: they are points of one thing then."""
    name, numbers = plain_name(call.function), set(call.scalars.values())
    if name == "getitem":
        return not call.scalars and len(call.inputs) == _BOTH
    return name in _ORDERS and numbers == {0}


_ORDERS = frozenset({"flip", "index_select", "take_along_dim"})


def _parts(order: frozenset[_Comparison], side: int) -> frozenset[tuple[frozenset[int], tuple[str, ...]]]:
    """All that is compared in one order, on one side."""
    return frozenset((pair[side].sources, pair[side].chosen) for pair in order)


def _tables(flow: Dataflow, pair: _Comparison) -> Iterator[int]:
    """The tensors that a comparison takes, if they have samples and values of each."""
    return (source for part in pair for source in part.sources if len(shape_of(flow, source)) > 1)
