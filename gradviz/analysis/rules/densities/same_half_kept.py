"""GV948."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import callers, calls_named, class_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import tensor_before
from gradviz.graph.call_log import Call


class SameHalfKept(Rule):
    """All coupling layers of a flow keep the same half of the dimensions: nothing ever transforms it.

    What it finds
    -------------
    Two or more coupling layers one behind the other, in which a network computes, from one part of the dimensions, the
    scale ``exp(s)`` and the shift of the other part, and both are put together as they stood; where each layer keeps
    the part that the first one kept, or uses the very same mask. Layers that take turns, permutations between them, and
    what is cut off in the end, as it only conditions the rest, are left alone.

    Why it matters
    --------------
    The kept half reaches the end as it came from the data: the flow takes it for standard normal, whatever it is, and
    samples have that half wrong. The loss gets smaller all the same, as the other half is fitted.

    Example
    -------
    nets = torch.nn.ModuleList(torch.nn.Linear(2, 4) for _ in range(3))
    optimizer = torch.optim.SGD(nets.parameters(), lr=0.01)
    for step in range(3):
        x, volume = torch.randn(16, 4), 0
        for net in nets:
            kept, rest = x.chunk(2, dim=1)
            log_scale, shift = net(kept).tanh().chunk(2, dim=1)
            x = torch.cat([kept, rest * log_scale.exp() + shift], dim=1)
            volume = volume + log_scale.sum(1)
        loss = (0.5 * x.square().sum(1) - volume).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    nets = torch.nn.ModuleList(torch.nn.Linear(2, 4) for _ in range(3))
    optimizer = torch.optim.SGD(nets.parameters(), lr=0.01)
    for step in range(3):
        x, volume = torch.randn(16, 4), 0
        for net in nets:
            kept, rest = x.chunk(2, dim=1)
            log_scale, shift = net(kept).tanh().chunk(2, dim=1)
            x = torch.cat([kept, rest * log_scale.exp() + shift], dim=1).flip(1)
            volume = volume + log_scale.sum(1)
        loss = (0.5 * x.square().sum(1) - volume).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV948"
    name = "same_half_kept"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        by_step: dict[int, list[_Coupling]] = defaultdict(list)
        for row, call in calls_named(flow, frozenset({"cat", "add"})):
            found = _coupling(flow, row, call) if flow.has_step_after(row) else None
            if found is not None:
                by_step[flow.step_before(row)].append(found)
        for couplings in by_step.values():
            site = flow.log.calls[couplings[0].row].call_site
            if site not in told and _keep_the_same(flow, couplings) and not _is_left_behind(flow, couplings[-1]):
                told.add(site)
                yield self._finding(flow, couplings)

    def _finding(self, flow: Dataflow, couplings: list[_Coupling]) -> Finding:
        row = couplings[-1].row
        joined, called = location_of_call(flow, row), _line_of_layer(flow, row)
        return self.finding(
            f"all {len(couplings):,} coupling layers keep {couplings[0].what} of the dimensions, and transform the "
            "other one",
            symptom="grad_wrong",
            why="what is kept by all layers reaches the end as it came from the data, and no parameter can change it",
            fix="let the layers take turns: flip the result of each, x.flip(-1), or exchange the two parts in every "
            "second layer: 1 - mask",
            location=called or joined,
            symptom_location=joined if called not in (None, joined) else None,
            evidence={"layers": len(couplings)},
        )


class _Coupling(Struct, frozen=True):
    """A call that puts a part of what a layer got together with the other part, which it has transformed."""

    row: int
    source: int
    """What the layer got."""
    place: object
    """0 if it kept the first part, 1 for the second one; with a mask, the memory of the mask, and its row there."""
    what: str
    """The part that it kept, in words."""


_BOTH = 2
_PLACES = ("the first part", "the second part")
_CUTS = frozenset({"chunk", "split", "tensor_split", "getitem", "narrow"})
_SCALES = frozenset({"exp", "sigmoid"})
_PRODUCTS = frozenset({"linear", "matmul", "addmm", "conv1d", "conv2d"})
_BY_ELEMENT = frozenset({"add", "sub", "mul", "div", "batch_norm"})
_COPIES = frozenset({"clone", "to", "float", "detach", "contiguous"})
_MAX_BETWEEN = 4


def _coupling(flow: Dataflow, row: int, call: Call) -> _Coupling | None:
    if len(call.inputs) != _BOTH or not call.outputs or not call.outputs[0].requires_grad:
        return None
    if plain_name(call.function) == "add":
        return _masked_coupling(flow, row, call)
    for place, use in enumerate(call.inputs):
        made = flow.newest_producer(use.tensor, row)
        cut = None if made is None else flow.log.calls[made]
        other = call.inputs[1 - place]
        if made is None or cut is None or plain_name(cut.function) not in _CUTS or len(cut.inputs) != 1:
            continue
        source = cut.inputs[0].tensor
        is_whole = shape_of(flow, source) == shape_of(flow, call.outputs[0].tensor)
        is_in_place = is_whole and _place_of(flow, cut, use.tensor) == place
        if is_in_place and other.requires_grad and _is_scaled_by(flow, other.tensor, row, made, use.tensor):
            return _Coupling(row, source, place, _PLACES[place])
    return None


def _masked_coupling(flow: Dataflow, row: int, call: Call) -> _Coupling | None:
    """``x * mask + (1 - mask) * (x * exp(s) + t)``, where a network computes both from ``x * mask``."""
    for use, other in (call.inputs, call.inputs[::-1]):
        made = flow.newest_producer(use.tensor, row)
        product = None if made is None else flow.log.calls[made]
        if made is None or product is None or plain_name(product.function) != "mul" or len(product.inputs) != _BOTH:
            continue
        source, mask = sorted(product.inputs, key=lambda each: -len(shape_of(flow, each.tensor)))
        values, shape = flow.values_of(mask, made), shape_of(flow, mask.tensor)
        is_mask = values is not None and (values.minimum, values.maximum) == (0, 1) and not mask.requires_grad
        is_for_all = shape_of(flow, source.tensor)[1:] == shape
        is_coupling = is_mask and is_for_all and other.requires_grad
        if is_coupling and _is_scaled_by(flow, other.tensor, row, made, use.tensor):
            return _Coupling(row, source.tensor, _row_of_table(flow, mask.tensor, made), "what one mask leaves")
    return None


def _row_of_table(flow: Dataflow, copied: int, before: int) -> tuple[object, ...]:
    """What tells masks apart that are rows of one table: the memory of a mask, or of the one of which it is a copy, and
    its row there."""
    mask = tensor_before(flow, copied, before, _COPIES)
    made = flow.newest_producer(mask, before)
    call = None if made is None else flow.log.calls[made]
    is_row = call is not None and plain_name(call.function) in ("getitem", "select", "unbind")
    rows = (
        () if call is None or not is_row else (*call.scalars.items(), [use.tensor for use in call.outputs].index(mask))
    )
    return (flow.memory_of(mask), *rows)


def _place_of(flow: Dataflow, cut: Call, part: int) -> int | None:
    """Whether a part of a tensor that was cut in two is the first or the second one."""
    if len(cut.outputs) == _BOTH:
        return [use.tensor for use in cut.outputs].index(part)
    if plain_name(cut.function) != "getitem" or len(cut.outputs) != 1:
        return None
    starts = [value for place, value in cut.scalars.items() if place.endswith(".start")]
    stops = [value for place, value in cut.scalars.items() if place.endswith(".stop")]
    if len(starts) + len(stops) != 1:
        return None
    return 0 if stops else 1


def _is_scaled_by(flow: Dataflow, tensor: int, before: int, since: int, kept: int) -> bool:
    """Whether a tensor is a product with an exponential that a network computed from what is kept."""
    until = flow.descendants(kept, since, before, live=False)
    below = {each for each in flow.ancestors(tensor, before, since) if each in until}
    names = {plain_name(flow.log.calls[each].function) for each in below}
    return bool(names & _SCALES) and bool(names & _PRODUCTS) and "mul" in names


def _keep_the_same(flow: Dataflow, couplings: list[_Coupling]) -> bool:
    """Whether each layer gets what the one before has put together, and they all keep the same part."""
    if len(couplings) < _BOTH or len({each.place for each in couplings}) > 1:
        return False
    pairs = pairwise(couplings)
    return all(_comes_from(flow, later.source, later.row, earlier.row) for earlier, later in pairs)


def _is_left_behind(flow: Dataflow, last: _Coupling) -> bool:
    """Whether the kept part is cut off in the end, and nothing uses it: it is what the other part is conditioned on."""
    joined = flow.log.calls[last.row].outputs[0].tensor
    users = [(row, flow.log.calls[row]) for row in flow.users(joined, last.row)]
    return bool(users) and all(
        plain_name(call.function) in _CUTS
        and not any(
            _place_of(flow, call, use.tensor) == last.place and flow.users(use.tensor, row) for use in call.outputs
        )
        and all(_place_of(flow, call, use.tensor) is not None for use in call.outputs)
        for row, call in users
    )


def _comes_from(flow: Dataflow, tensor: int, before: int, maker: int) -> bool:
    """Whether a call made a tensor, or what was only scaled and moved since, dimension by dimension."""
    for _ in range(_MAX_BETWEEN):
        row = flow.newest_producer(tensor, before)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or row == maker or plain_name(call.function) not in _BY_ELEMENT:
            return row == maker
        tensor, before = call.inputs[0].tensor, row
    return False


def _line_of_layer(flow: Dataflow, row: int) -> Location | None:
    """The line that called the layer in which a call was made."""
    scope = flow.log.calls[row].scope
    name = None if scope is None else flow.log.scopes[scope].class_name
    outside = (line for line in callers(flow, row) if class_of(line) != name)
    return None if name is None else location_of_line(next(outside, None))
