"""GV962."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, calls_named, operation, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.distances import distances_behind
from gradviz.graph.call_log import Call


class FarthestAsNearest(Rule):
    """An evaluation takes the labels of the farthest samples for those of the nearest ones.

    What it finds
    -------------
    ``topk()``, ``argmax()`` or a descending sort of distances: of ``cdist()``, of norms of differences, or of sums of
    their squares. The labels of what it finds are compared with the right ones, as for recall or the nearest
    neighbours. ``topk()`` takes the largest values unless ``largest=False`` is given.

    Why it matters
    --------------
    The score tells how often the farthest sample has the same label. It falls as the model gets better, and a
    checkpoint that is kept by it is the worst one.

    Example
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    x, labels = torch.randn(30, 6), torch.arange(3).repeat(10)
    for step in range(3):
        z = encoder(x)
        loss = torch.nn.functional.triplet_margin_loss(z[:10], z[3:13], z[1:11])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        distances = torch.cdist(encoder(x[:10]), encoder(x[10:]))
        found = distances.topk(3, dim=1).indices
        print((labels[10:][found] == labels[:10, None]).any(dim=1).float().mean())

    Instead
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    x, labels = torch.randn(30, 6), torch.arange(3).repeat(10)
    for step in range(3):
        z = encoder(x)
        loss = torch.nn.functional.triplet_margin_loss(z[:10], z[3:13], z[1:11])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        distances = torch.cdist(encoder(x[:10]), encoder(x[10:]))
        found = distances.topk(3, dim=1, largest=False).indices
        print((labels[10:][found] == labels[:10, None]).any(dim=1).float().mean())
    """

    code = "GV962"
    name = "farthest_as_nearest"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        seen: set[int | None] = set()
        for row, call in calls_named(flow, _INSTEAD):
            if call.call_site in seen or not _takes_largest(call):
                continue
            found = distances_behind(flow, call.inputs[0].tensor, row)
            if found is not None and _are_labels_compared(flow, row, call):
                seen.add(call.call_site)
                yield self._finding(flow, row, found[0])

    def _finding(self, flow: Dataflow, row: int, made: int) -> Finding:
        location, distances = two_lines(flow, row, made)
        name = plain_name(flow.log.calls[row].function)
        return self.finding(
            f"{name}() takes the largest of the distances of {operation(flow.log.calls[made])}(){at_line(distances)}, "
            "and the labels that it finds there are compared with the right ones: those of the farthest samples",
            symptom="none",
            why="the score tells how often the farthest sample has the same label, and falls as the model gets better",
            fix=f"take the smallest distances: {_INSTEAD[name]}",
            location=location,
            symptom_location=distances,
        )


_INSTEAD = {
    "topk": "topk(k, largest=False)",
    "argmax": "argmin()",
    "max": "min()",
    "argsort": "argsort() without descending",
    "sort": "sort() without descending",
}
_MAX_FOLLOWED = 8
_BOTH = 2


def _takes_largest(call: Call) -> bool:
    name, told = plain_name(call.function), call.scalars
    if not call.outputs or len(call.inputs) != 1:
        return False
    if name == "topk":
        return told.get("largest", told.get("3", True)) is not False
    is_sorted = name in ("argsort", "sort")
    return not is_sorted or told.get("descending", told.get("2", False)) is True


def _are_labels_compared(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the places that a call found look up whole numbers, one for each sample, and these are compared with
    other ones."""
    places = _followed(flow, call.outputs[-1].tensor, row, _TAKE)
    return any(
        plain_name(flow.log.calls[each].function) == "eq" and len(flow.log.calls[each].inputs) == _BOTH
        for tensor, made in places
        for user in flow.users(tensor, made)
        if _looks_up_labels(flow, flow.log.calls[user], tensor)
        for labels, taken in _followed(flow, flow.log.calls[user].outputs[0].tensor, user, _KEEP_LABELS)
        for each in flow.users(labels, taken)
    )


_TAKE = frozenset({"getitem", "squeeze", "flatten", "view", "reshape", "t"})
_KEEP_LABELS = _TAKE | {"mode"}
_LOOK_UP = frozenset({"getitem", "index_select", "take"})
_WHOLE = frozenset({"int64", "int32", "uint8"})


def _looks_up_labels(flow: Dataflow, call: Call, places: int) -> bool:
    given = [use.tensor for use in call.inputs]
    is_look_up = plain_name(call.function) in _LOOK_UP and len(given) == _BOTH and given[1] == places
    facts = flow.log.tensors[given[0]].facts if is_look_up else None
    return facts is not None and facts.dtype in _WHOLE and len(facts.shape) == 1


def _followed(flow: Dataflow, tensor: int, made: int, through: frozenset[str]) -> list[tuple[int, int]]:
    """A tensor, and what calls of these names make of it alone, each with the call that made it."""
    found = [(tensor, made)]
    for each, row in found:
        for user in flow.users(each, row):
            call = flow.log.calls[user]
            if plain_name(call.function) in through and len(call.inputs) == 1 and len(found) < _MAX_FOLLOWED:
                found.append((call.outputs[0].tensor, user))
    return found
