"""GV946."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class MaskTokenOverwritten(Rule):
    """Random tokens are written over many of the mask tokens that a line before has put in.

    What it finds
    -------------
    Ids of which some were selected; a part of these becomes one token, and then a part of the selected ones, drawn anew
    and not from those that are left, becomes random tokens: where a quarter or more of the first are hit. Parts that
    exclude each other, and parts of one draw, are left alone.

    Why it matters
    --------------
    Of the tokens that a masked language model is to restore, 80 % should be masked and 10 % random. Drawn over all
    that are selected, half of them are random: the model learns to distrust every token that it reads.

    Example
    -------
    embed, head = torch.nn.Embedding(30, 8), torch.nn.Linear(8, 30)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        labels = torch.randint(0, 29, (16, 12))
        ids, selected = labels.clone(), torch.rand(16, 12) < 0.3
        masked = (torch.rand(16, 12) < 0.8) & selected
        ids[masked] = 29
        random = (torch.rand(16, 12) < 0.5) & selected
        ids[random] = torch.randint(0, 29, (16, 12))[random]
        loss = torch.nn.functional.cross_entropy(head(embed(ids))[selected], labels[selected])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, head = torch.nn.Embedding(30, 8), torch.nn.Linear(8, 30)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        labels = torch.randint(0, 29, (16, 12))
        ids, selected = labels.clone(), torch.rand(16, 12) < 0.3
        masked = (torch.rand(16, 12) < 0.8) & selected
        ids[masked] = 29
        random = (torch.rand(16, 12) < 0.5) & selected & ~masked
        ids[random] = torch.randint(0, 29, (16, 12))[random]
        loss = torch.nn.functional.cross_entropy(head(embed(ids))[selected], labels[selected])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV946"
    name = "mask_token_overwritten"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[_Write]] = defaultdict(list)
        for write in _writes(flow):
            lines[flow.log.calls[write.row].call_site].append(write)
        for found in lines.values():
            before = [_overwritten(flow, each) for each in found]
            is_each_time = len(found) >= _MIN_TIMES and None not in before
            if is_each_time and before[-1] is not None and _is_looked_up(flow, found[-1]):
                yield self._finding(flow, found[-1], before[-1])

    def _finding(self, flow: Dataflow, write: _Write, before: _Write) -> Finding:
        made = flow.newest_producer(write.mask, write.row)
        location, first = two_lines(flow, write.row if made is None else made, before.row)
        return self.finding(
            "random tokens are put where a part of the selected ones is drawn anew, and not a part of those that are "
            f"left: they replace many of the mask tokens, {before.constant}, that were put in before",
            symptom="grad_wrong",
            why="most of what is selected should be masked, and few tokens be random: here about as many are random",
            fix="exclude what is masked: random = (...) & selected & ~masked",
            location=location,
            symptom_location=first,
        )


class _Write(Struct, frozen=True):
    """A call that gives other values to a part of some ids."""

    row: int
    ids: int
    """As it got them."""
    result: int
    mask: int
    constant: object = None
    """The number that it writes, if it is one for all."""


_MIN_TIMES = 2
_MANY = 4
_WITH_VALUES = 3
"""The tensors of a call: ids, a mask, and what it writes."""
_DRAWS = frozenset({"bernoulli", "rand", "rand_like", "uniform", "multinomial"})
_RANDOM = frozenset({"randint", "randint_like", "random"})
_SETS = frozenset({"setitem", "masked_fill", "where"})


def _writes(flow: Dataflow) -> Iterator[_Write]:
    """Those of random numbers."""
    for row, call in calls_named(flow, frozenset({"setitem", "where"})):
        write = _write(flow, row, call)
        if write is not None and write.constant is None and len(call.inputs) == _WITH_VALUES:
            value = call.inputs[2 if plain_name(call.function) == "setitem" else 1].tensor
            names = {plain_name(flow.log.calls[each].function) for each in flow.ancestors(value, row)}
            if names & _RANDOM:
                yield write


def _write(flow: Dataflow, row: int, call: Call) -> _Write | None:
    name, given = plain_name(call.function), [use.tensor for use in call.inputs]
    if name == "where":
        if [use.place for use in call.inputs] == ["0", "2"]:
            mask, ids = given
        elif len(given) == _WITH_VALUES:
            mask, _, ids = given
        else:
            return None
    elif len(given) > 1 and call.inputs[1].place == "1":
        ids, mask = given[:2]
    else:
        return None
    is_mask = flow.log.tensors[mask].facts.dtype == "bool" and shape_of(flow, mask) == shape_of(flow, ids)
    if not is_mask or not call.outputs or "int" not in flow.log.tensors[ids].facts.dtype:
        return None
    place = "1" if name == "where" else "2" if name == "setitem" else "value"
    constant = call.scalars.get(place, call.scalars.get("2") if name == "masked_fill" else None)
    return _Write(row, ids, call.outputs[0].tensor, mask, constant)


def _overwritten(flow: Dataflow, write: _Write) -> _Write | None:
    """The write of one token before, of which this one replaces a quarter or more by chance."""
    row = flow.newest_producer(write.ids, write.row)
    call = None if row is None else flow.log.calls[row]
    before = _write(flow, row, call) if row is not None and call is not None else None
    if before is None or plain_name(flow.log.calls[before.row].function) not in _SETS or before.constant is None:
        return None
    above = [set(flow.ancestors(each.mask, each.row)) for each in (before, write)]
    first, second = ({each for each in rows if plain_name(flow.log.calls[each].function) in _DRAWS} for rows in above)
    makers = flow.producers(before.mask, before.row)
    is_drawn_anew = bool(first & second) and bool(first - second) and bool(second - first)
    if not is_drawn_anew or not makers or makers[-1] in above[1]:
        return None
    masked, random = (_ones(flow, each.mask, each.row) for each in (before, write))
    # Of the masked ones, about as many are hit as of all that both were chosen from.
    selected = max(
        (_ones(flow, each, write.row) for each in _masks(flow, above[0]) & _masks(flow, above[1])), default=0
    )
    return before if masked and _MANY * random >= max(masked, selected) else None


def _masks(flow: Dataflow, rows: set[int]) -> set[int]:
    """The masks that some calls got, or made."""
    used = {use.tensor for row in rows for use in (*flow.log.calls[row].inputs, *flow.log.calls[row].outputs)}
    return {each for each in used if flow.log.tensors[each].facts.dtype == "bool"}


def _ones(flow: Dataflow, mask: int, row: int) -> int:
    values = flow.values(mask, row)
    return 0 if values is None else values.count - values.zeros


def _is_looked_up(flow: Dataflow, write: _Write) -> bool:
    until = flow.next_of_kind("step", write.row)
    below = flow.descendants(write.result, write.row, until)
    calls = (flow.log.calls[each] for each in below)
    return until < len(flow.log.calls) and any(
        plain_name(call.function) == "embedding" and bool(call.live_inputs) for call in calls
    )
