"""GV692."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.objectives import backward_calls_by_kind, named_call
from gradviz.analysis.rules.bases.sequences.positions.position_masks import (
    Hidden,
    Mask,
    hidden_by,
    is_drawn_anew,
    masks_in,
    source_of,
)


class VisiblePositionsAsked(Rule):
    """Masked modelling asks for the positions that the model can see.

    What it finds
    -------------
    A mask that is drawn at every step hides positions of the data from the model (``masked_fill``, ``where``,
    ``x[mask] = token``, a product with ``1 - mask``), and the loss only counts the positions that it did not hide,
    where the target is that data.

    Why it matters
    --------------
    The model only has to copy what it was given. What was hidden, from which it should learn, has no gradient at all.

    Example
    -------
    embed, layer, head = torch.nn.Embedding(10, 8), torch.nn.GRU(8, 8, batch_first=True), torch.nn.Linear(8, 9)
    parameters = [*embed.parameters(), *layer.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(3):
        tokens = torch.randint(0, 9, (8, 6))
        mask = torch.rand(8, 6) < 0.3
        logits = head(layer(embed(tokens.masked_fill(mask, 9)))[0])
        loss = torch.nn.functional.cross_entropy(logits[~mask], tokens[~mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, layer, head = torch.nn.Embedding(10, 8), torch.nn.GRU(8, 8, batch_first=True), torch.nn.Linear(8, 9)
    parameters = [*embed.parameters(), *layer.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(3):
        tokens = torch.randint(0, 9, (8, 6))
        mask = torch.rand(8, 6) < 0.3
        logits = head(layer(embed(tokens.masked_fill(mask, 9)))[0])
        loss = torch.nn.functional.cross_entropy(logits[mask], tokens[mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV692"
    name = "visible_positions_asked"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for rows in backward_calls_by_kind(case.histories):
            last = [row for row in rows if case.dataflow.has_step_after(row)][-_EXAMINED:]
            named = named_call(case.dataflow, rows)  # only there the names of masks are known
            found = [_selected_visible(case.dataflow, row) for row in (*last, *([] if named is None else [named]))]
            if len(last) < _EXAMINED or any(each is None for each in found) or found[-1] is None:
                continue
            yield self._finding(case, *found[-1])

    def _finding(self, case: Case, selects: int, hidden: Hidden) -> Finding:
        flow = case.dataflow
        loss, hides = location_of_call(flow, selects), location_of_call(flow, hidden.row)
        mask = case.tensor_name(hidden.mask.tensor)
        return self.finding(
            "the loss only counts the positions that the model can see: those that the mask hides from it are left out",
            symptom="grad_wrong",
            why="the visible positions only have to be copied; the hidden ones, to be found, have no gradient",
            fix=f"select the hidden positions, without turning {mask} around",
            location=loss,
            symptom_location=hides if hides != loss else None,
        )


_EXAMINED = 2
_OBSERVED = re.compile(r"obs|valid|pad|miss|avail|known|present|exist|length|nan|keep_prob", re.IGNORECASE)


def _selected_visible(flow: Dataflow, backward: int) -> tuple[int, Hidden] | None:
    """The call that selects visible positions for the loss, if all that select any do so."""
    rows = [
        row
        for use in flow.log.calls[backward].roots
        for row in flow.ancestors(use.tensor, backward, flow.step_before(backward))
    ]
    hiding = [each for row in rows if (each := hidden_by(flow, row)) is not None]
    for hidden in hiding:
        found: tuple[int, Hidden] | None = None
        for base, is_turned in hidden.positions(flow):
            if not is_drawn_anew(flow, base, hidden.row) or _is_named_as_observed(flow, hidden, base):
                continue
            if _is_behind_the_model(flow, hidden.row, backward):
                continue
            selects = dict(_selections(flow, rows, hiding, backward, base))
            is_visible = [turned != is_turned for turned in selects.values()]
            if is_visible and not any(is_visible):
                # Another mask, such as that of what was measured at all, may be in both.
                found = None
                break
            if found is None and is_visible and all(is_visible) and _is_of_same_data(flow, rows, hidden, selects):
                found = max(selects), hidden
        if found is not None:
            return found
    return None


def _is_named_as_observed(flow: Dataflow, hidden: Hidden, base: int) -> bool:
    """Whether names say that the mask tells which values are known, or are no padding."""
    tensors = [hidden.mask.tensor, base]
    for _, call in flow.makers(hidden.mask.tensor, hidden.row, _MAX_NAMED):
        if base in (use.tensor for use in call.outputs) or not call.inputs:
            break
        tensors.append(call.inputs[0].tensor)
    return any(_OBSERVED.search(name) for each in tensors for name in flow.log.tensors[each].names)


_MAX_NAMED = 8


def _selections(
    flow: Dataflow, rows: list[int], hiding: list[Hidden], backward: int, base: int
) -> Iterator[tuple[int, bool]]:
    """The calls that select positions by a mask for the loss, with whether they select where it is false."""
    for row in rows:
        call = flow.log.calls[row]
        is_selection = plain_name(call.function) in _SELECT and len(call.inputs) == _TWO
        if is_selection and any(use.requires_grad for use in call.inputs):
            mask = next((use for use in call.inputs[::-1] if not use.requires_grad), None)
            found = None if mask is None else _turned(masks_in(flow, mask.tensor, row), base)
            if found is not None and _is_behind_the_model(flow, row, backward):
                yield row, found
    for hidden in hiding:
        is_ignored = isinstance(hidden.value, (int, float)) and hidden.value < 0
        kept = masks_in(flow, hidden.mask.tensor, hidden.row, is_turned=hidden.is_where_true)
        found = _turned(kept, base) if is_ignored else None
        if found is not None and _is_behind_the_model(flow, hidden.row, backward):
            yield hidden.row, found


_SELECT = frozenset({"getitem", "masked_select", "mul"})
_TWO = 2


def _turned(masks: Iterator[Mask], base: int) -> bool | None:
    return next((is_turned for mask, is_turned in masks if mask == base), None)


def _is_behind_the_model(flow: Dataflow, row: int, backward: int) -> bool:
    """Whether nothing with parameters uses what a call returns."""
    made = [use.tensor for use in flow.log.calls[row].outputs]
    below = (flow.log.calls[each] for tensor in made for each in flow.descendants(tensor, row, backward))
    return not any(flow.log.tensors[use.tensor].role == "parameter" for call in below for use in call.inputs)


def _is_of_same_data(flow: Dataflow, rows: list[int], hidden: Hidden, selects: dict[int, bool]) -> bool:
    """Whether the target is the data whose positions were hidden, and no other loss takes all of it."""
    data = source_of(flow, hidden.data, hidden.row)
    above = flow.ancestors(data, hidden.row, flow.step_before(hidden.row))
    sources = {data, *(use.tensor for row in (*above, hidden.row) for use in flow.log.calls[row].inputs)}
    met = [row for row in rows if row > hidden.row and _meets(flow, row, sources)]
    under = set(_users_in_any_shape(flow, selects))
    before = {each for row in selects for use in flow.log.calls[row].inputs for each in flow.ancestors(use.tensor, row)}
    before |= {each for row in under for use in flow.log.calls[row].inputs for each in flow.ancestors(use.tensor, row)}
    return bool(met) and all(row in before or row in under or row in selects for row in met)


def _users_in_any_shape(flow: Dataflow, rows: Iterable[int]) -> Iterator[int]:
    """The calls that use what some calls return, also after its shape was changed."""
    waiting, seen = list(rows), set[int]()
    while waiting and len(seen) < _MAX_USERS:
        row = waiting.pop()
        for use in flow.log.calls[row].outputs:
            for user in flow.users(use.tensor, row):
                if user not in seen:
                    seen.add(user)
                    yield user
                    if plain_name(flow.log.calls[user].function) in SHAPE_ONLY:
                        waiting.append(user)


_MAX_USERS = 40


def _meets(flow: Dataflow, row: int, sources: set[int]) -> bool:
    """Whether a call compares results of the model with the data."""
    call = flow.log.calls[row]
    if not call.live_inputs or any(flow.log.tensors[use.tensor].role == "parameter" for use in call.inputs):
        return False
    return any(not use.requires_grad and source_of(flow, use.tensor, row) in sources for use in call.inputs)
