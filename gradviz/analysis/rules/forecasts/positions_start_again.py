"""GV885."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sequences.part_of_inputs import slice_of
from gradviz.graph.call_log import Call


class PositionsStartAgain(Rule):
    """Each token that is generated with a cache of keys and values gets the first position.

    What it finds
    -------------
    Keys or values that grow by one token at each call of a model, to which attention looks, where the new token gets
    the row of position 0 from a table of positions each time: ``arange(x.size(1))``, or the first row of the table.

    Why it matters
    --------------
    With a cache, a model gets only the newest token, and its length is 1. All generated tokens stand at the first
    position for the model, which has never seen that in training: what it generates is worse than without the cache.

    Example
    -------
    embed, place, keys = torch.nn.Embedding(9, 4), torch.nn.Embedding(8, 4), torch.nn.Linear(4, 4)
    attend = torch.nn.functional.scaled_dot_product_attention
    optimizer = torch.optim.SGD([*embed.parameters(), *place.parameters(), *keys.parameters()], lr=0.1)
    for step in range(3):
        token, cache, loss = torch.randint(0, 9, (6, 1)), None, 0.0
        for t in range(4):
            x = embed(token) + place(torch.arange(token.size(1)))
            k = keys(x)
            cache = k if cache is None else torch.cat([cache, k], dim=1)
            scores = attend(x, cache, cache)[:, -1] @ embed.weight.T
            loss = loss + torch.nn.functional.cross_entropy(scores, (token[:, 0] + 1) % 9)
            token = scores.argmax(1, keepdim=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, place, keys = torch.nn.Embedding(9, 4), torch.nn.Embedding(8, 4), torch.nn.Linear(4, 4)
    attend = torch.nn.functional.scaled_dot_product_attention
    optimizer = torch.optim.SGD([*embed.parameters(), *place.parameters(), *keys.parameters()], lr=0.1)
    for step in range(3):
        token, cache, loss = torch.randint(0, 9, (6, 1)), None, 0.0
        for t in range(4):
            x = embed(token) + place(torch.arange(t, t + token.size(1)))
            k = keys(x)
            cache = k if cache is None else torch.cat([cache, k], dim=1)
            scores = attend(x, cache, cache)[:, -1] @ embed.weight.T
            loss = loss + torch.nn.functional.cross_entropy(scores, (token[:, 0] + 1) % 9)
            token = scores.argmax(1, keepdim=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV885"
    name = "positions_start_again"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for before, growth in _growths(flow):
            first = _first_position(flow, growth, before.row)
            site = None if first is None else flow.log.calls[first].call_site
            if first is None or site in told or not _is_attended(flow, growth):
                continue
            if _first_position(flow, before, flow.step_before(before.row)) is not None:
                told.add(site)
                yield self._finding(flow, first, growth)

    def _finding(self, flow: Dataflow, first: int, growth: _Growth) -> Finding:
        location, joined = location_of_call(flow, first), location_of_call(flow, growth.row)
        return self.finding(
            f"the new token gets position 0 at each call, though the keys and values of {growth.length:,} tokens "
            "before it are kept",
            symptom="grad_wrong",
            why="with a cache, the model gets only the newest token: positions that are counted from 0 are 0 each time",
            fix="count on from the length of the cache: torch.arange(past, past + x.size(1))",
            location=location,
            symptom_location=joined if joined != location else None,
            evidence={"kept": growth.length},
        )


class _Growth(Struct, frozen=True):
    """A call that puts one new position behind those that are kept."""

    row: int
    new: int
    length: int
    """Of those that are kept."""


_BOTH = 2
_MIN_AXES = 3
_JOINS = frozenset({"cat"})


def _growths(flow: Dataflow) -> Iterator[tuple[_Growth, _Growth]]:
    """Each two such calls of one line, of which the second one takes the result of the first."""
    made = dict[int, tuple[_Growth, int | None]]()
    for row, call in calls_named(flow, _JOINS):
        if len(call.inputs) != _BOTH or not call.outputs:
            continue
        kept, new = (shape_of(flow, use.tensor) for use in call.inputs)
        grown = [axis for axis, pair in enumerate(zip(kept, new, strict=False)) if pair[0] != pair[1]]
        dtype = flow.log.tensors[call.outputs[0].tensor].facts.dtype
        axis = call.scalars.get("1", call.scalars.get("dim", 0))
        if (
            len(kept) != len(new)
            or len(kept) < _MIN_AXES
            or type(axis) is not int
            or not dtype.startswith(("float", "bfloat"))
        ):
            continue
        axis %= len(kept)
        if grown not in ([], [axis]) or axis == 0 or new[axis] != 1:
            continue
        growth = _Growth(row, call.inputs[1].tensor, kept[axis])
        earlier, site = made.get(call.inputs[0].tensor, (None, None))
        if earlier is not None and site == call.call_site:
            yield earlier, growth
        made[call.outputs[0].tensor] = growth, call.call_site


def _first_position(flow: Dataflow, growth: _Growth, since: int) -> int | None:
    """The call that took the row of position 0 for the new token, out of a table that has more rows than are kept."""
    for row in flow.ancestors(growth.new, growth.row, since):
        call = flow.log.calls[row]
        made = _numbered_from_zero(flow, row, call)
        if made is not None and shape_of(flow, call.inputs[-1].tensor)[0] > growth.length:
            return made
        if _is_first_row(flow, row, call, growth.length):
            return row
    return None


_SHAPES = frozenset({"unsqueeze", "expand", "view", "reshape", "to", "long", "repeat", "expand_as"})


def _numbered_from_zero(flow: Dataflow, row: int, call: Call) -> int | None:
    """The ``arange()`` that begins with 0 and has one number, by which a call looks up a row of a table."""
    if plain_name(call.function) != "embedding" or len(call.inputs) != _BOTH:
        return None
    values = flow.values_of(call.inputs[0], row)
    if values is None or values.minimum != 0 or values.maximum != 0:
        return None
    for made, maker in flow.makers(call.inputs[0].tensor, row, _MIN_AXES):
        if plain_name(maker.function) == "arange":
            return made
        if plain_name(maker.function) not in _SHAPES:
            break
    return None


def _is_first_row(flow: Dataflow, row: int, call: Call, length: int) -> bool:
    """Whether a call takes the first row of a table of the model, which is then added to what has a gradient."""
    name = plain_name(call.function)
    if name not in ("getitem", "narrow") or len(call.inputs) != 1 or not call.outputs:
        return False
    if flow.log.tensors[call.inputs[0].tensor].role == "tensor":
        return False
    part = slice_of(flow, call, name, call.outputs[0].tensor)
    table = shape_of(flow, call.inputs[0].tensor)
    if part is None or part.start != 0 or part.length != 1 or table[part.axis] <= length:
        return False
    if not any(
        _is_longer(flow, other) for other in flow.users(call.inputs[0].tensor) if _site(flow, other) == _site(flow, row)
    ):
        return False  # Always one row, such as that of a kind of token.
    users = (flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row))
    return any(plain_name(each.function) == "add" and len(each.inputs) == _BOTH for each in users)


def _is_longer(flow: Dataflow, row: int) -> bool:
    call = flow.log.calls[row]
    made = call.outputs[0].tensor if call.outputs else None
    part = None if made is None else slice_of(flow, call, plain_name(call.function), made)
    return made is not None and (part is None or part.length > 1)


def _site(flow: Dataflow, row: int) -> int | None:
    return flow.log.calls[row].call_site


_TO_SCORES = frozenset({"scaled_dot_product_attention", "matmul", "bmm", "einsum", "multi_head_attention_forward"})
_ON_THE_WAY = frozenset({"transpose", "permute", "reshape", "view", "mT", "repeat_interleave", "expand", "contiguous"})
_MAX_USERS = 8


def _is_attended(flow: Dataflow, growth: _Growth) -> bool:
    """Whether attention takes what has grown as its keys or values."""
    waiting = [flow.log.calls[growth.row].outputs[0].tensor]
    for tensor in waiting:
        for user in flow.users(tensor, growth.row):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if name in _TO_SCORES and call.inputs[0].tensor != tensor:
                return True
            if name in _ON_THE_WAY and call.outputs and len(waiting) < _MAX_USERS:
                waiting.append(call.outputs[0].tensor)
    return False
