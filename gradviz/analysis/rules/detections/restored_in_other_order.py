"""GV992."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.network_outputs import SAME_VALUES, layer_behind, told_of_targets
from gradviz.analysis.rules.bases.sources.arrays.orders_of_sizes import OtherOrder, restored_in_other_order
from gradviz.analysis.rules.bases.sources.own_files import own_files


class RestoredInOtherOrder(Rule):
    """Targets are divided by sizes in one order, and predictions are multiplied by the same sizes in another order.

    What it finds
    -------------
    A loss that compares the answers of a network with targets divided by a constant vector, such as boxes by
    ``[width, height, width, height]``, and a line that multiplies answers of the same network by the same numbers in
    another order, such as ``[height, width, height, width]``.

    Why it matters
    --------------
    The model is trained well, and its boxes are stretched when they are brought back to pixels: what is drawn and what
    is scored is wrong wherever the picture is no square.

    Example
    -------
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        boxes = torch.rand(8, 4) * torch.tensor([64.0, 32.0, 64.0, 32.0])
        targets = boxes / torch.tensor([64.0, 32.0, 64.0, 32.0])
        loss = torch.nn.functional.l1_loss(model(torch.randn(8, 6)), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(model(torch.randn(8, 6)) * torch.tensor([32.0, 64.0, 32.0, 64.0]))

    Instead
    -------
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        boxes = torch.rand(8, 4) * torch.tensor([64.0, 32.0, 64.0, 32.0])
        targets = boxes / torch.tensor([64.0, 32.0, 64.0, 32.0])
        loss = torch.nn.functional.l1_loss(model(torch.randn(8, 6)), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(model(torch.randn(8, 6)) * torch.tensor([64.0, 32.0, 64.0, 32.0]))
    """

    code = "GV992"
    name = "restored_in_other_order"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        divided = told_of_targets(flow, _division_above)
        for row, call in calls_named(flow, ("mul",)) if divided else ():
            if len(call.inputs) != _BOTH or call.call_site in told:
                continue
            for given, factor in (call.inputs, call.inputs[::-1]):
                numbers = _numbers(flow, factor.tensor, row)
                is_known = numbers is not None and _keeps_order(flow, given.tensor, row)
                layer = layer_behind(flow, given.tensor, row) if is_known else None
                sizes = None if layer is None else divided.get(layer)
                if numbers is None or sizes is None or numbers == sizes.numbers:
                    continue
                if sorted(numbers) == sorted(sizes.numbers) and _is_constant(flow, sizes):
                    told.add(call.call_site)
                    yield self._finding(flow, row, numbers, sizes)
        for file, tree in own_files(case) if not told and case.histories.reached_by else ():
            for found in restored_in_other_order(tree):
                yield self._of_arrays(file, found)

    def _of_arrays(self, file: str, found: OtherOrder) -> Finding:
        right = ", ".join(found.right)
        return self.finding(
            f"values are multiplied by ({', '.join(found.wrong)}), but line {found.divided} divides by ({right}): the "
            "same sizes in another order",
            symptom="none",
            why="each value is then in the units of another one, as a width in those of a height",
            fix=f"multiply by the sizes in the order of the division: ({right})",
            location=Location(file, found.restored),
            symptom_location=Location(file, found.divided) if found.divided != found.restored else None,
        )

    def _finding(self, flow: Dataflow, row: int, numbers: tuple[float, ...], sizes: _Sizes) -> Finding:
        location, other = location_of_call(flow, row), location_of_call(flow, sizes.row)
        return self.finding(
            f"predictions are multiplied by {_words(numbers)}, but the targets were divided{at_line(other)} by "
            f"{_words(sizes.numbers)}: the same sizes in another order",
            symptom="none",
            why="each value is then in the units of another one, as a width in those of a height",
            fix=f"multiply by the sizes in the order of the division: {_words(sizes.numbers)}",
            location=location,
            symptom_location=other if other != location else None,
        )


_BOTH = 2
_MAX_CALLS = 10
_KEEP = frozenset(
    {"getitem", "view", "reshape", "clone", "detach", "to", "float", "contiguous", "clamp", "stack", "cat"}
)


class _Sizes(Struct, frozen=True):
    """What targets were divided by."""

    row: int
    """The division."""
    numbers: tuple[float, ...]


def _is_constant(flow: Dataflow, sizes: _Sizes) -> bool:
    """Whether the line divides by the same numbers each time, not by those of the samples of a batch."""
    site = flow.log.calls[sizes.row].call_site
    rows = (row for row, call in calls_named(flow, ("div",)) if call.call_site == site and len(call.inputs) == _BOTH)
    return {_numbers(flow, flow.log.calls[row].inputs[1].tensor, row) for row in rows} == {sizes.numbers}


def _words(numbers: tuple[float, ...]) -> str:
    return f"[{', '.join(f'{each:g}' for each in numbers)}]"


def _keeps_order(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether nothing but a slice has chosen among the columns of what a layer computed, or joined them anew."""
    for _, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name not in SAME_VALUES:
            return True
        is_slice = len(call.inputs) == 1 and bool(call.scalars) and all(map(_is_of_slice, call.scalars))
        if name in ("cat", "stack", "permute", "transpose") or (name == "getitem" and not is_slice):
            return False
    return True


def _is_of_slice(place: str) -> bool:
    return place.endswith((".start", ".stop", ".step"))


def _division_above(flow: Dataflow, tensor: int, row: int) -> _Sizes | None:
    """The division by a constant vector that made some values."""
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name == "div" and len(call.inputs) == _BOTH:
            numbers = _numbers(flow, call.inputs[1].tensor, made)
            return None if numbers is None else _Sizes(made, numbers)
        if name not in _KEEP:
            return None
    return None


def _numbers(flow: Dataflow, tensor: int, row: int) -> tuple[float, ...] | None:
    """The numbers of a constant vector, as of ``torch.tensor([64, 32])``; None where they are equal, or unknown."""
    for _, call in flow.makers(tensor, row, 3):
        if plain_name(call.function) in ("tensor", "as_tensor"):
            given = {place: value for place, value in call.scalars.items() if place.startswith("0[")}
            in_order = [given.get(f"0[{place}]") for place in range(len(given))]
            known = tuple(float(each) for each in in_order if isinstance(each, (int, float)))
            return known if len(known) == len(given) and len(set(known)) > 1 else None
        if plain_name(call.function) not in ("to", "float", "view", "reshape", "unsqueeze", "getitem"):
            return None
    return None
