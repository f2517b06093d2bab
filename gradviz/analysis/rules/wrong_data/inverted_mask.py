"""GV621."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class InvertedMask(Rule):
    """A mask hides what is real, and shows the padding.

    What it finds
    -------------
    Attention whose mask was made from token numbers or from lengths, and is the wrong way round: ``tokens != pad``, or
    ``positions < lengths``, where True hides (``key_padding_mask``, ``masked_fill(mask, -inf)``); ``tokens == pad``
    where True shows (``scaled_dot_product_attention``).

    Why it matters
    --------------
    All real tokens are hidden from each other: what attention returns is made of padding only, the same for each input,
    and nothing raises. The rest of the model hides it, since it still learns something.

    Example
    -------
    embed, score = torch.nn.Embedding(9, 4, padding_idx=0), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*embed.parameters(), *score.parameters()], lr=0.1)
    for step in range(3):
        tokens = torch.tensor([[3, 5, 2, 0], [1, 4, 0, 0]])
        h = embed(tokens)
        scores = score(h).squeeze(2).masked_fill(tokens != 0, float("-inf"))
        loss = ((scores.softmax(1).unsqueeze(2) * h).sum(1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, score = torch.nn.Embedding(9, 4, padding_idx=0), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*embed.parameters(), *score.parameters()], lr=0.1)
    for step in range(3):
        tokens = torch.tensor([[3, 5, 2, 0], [1, 4, 0, 0]])
        h = embed(tokens)
        scores = score(h).squeeze(2).masked_fill(tokens == 0, float("-inf"))
        loss = ((scores.softmax(1).unsqueeze(2) * h).sum(1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV621"
    name = "inverted_mask"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[int | None] = set()
        for row, call in enumerate(flow.log.calls):
            name = plain_name(call.function)
            if name not in ("masked_fill", "scaled_dot_product_attention") or not flow.has_step_after(row):
                continue
            hides = name == "masked_fill"
            mask = _hiding_mask(call) if hides else _showing_mask(case, call)
            origin = None if mask is None else _origin(case, row, mask)
            if origin is None or origin[1] != hides or call.call_site in told:
                continue
            told.add(call.call_site)
            yield self._finding(case, row, origin[0], hides)

    def _finding(self, case: Case, row: int, origin: int, hides: bool) -> Finding:
        flow = case.dataflow
        location, made = location_of_call(flow, row), location_of_call(flow, origin)
        named = _COMPARED[plain_name(flow.log.calls[origin].function)]
        return self.finding(
            f"the mask{at_line(made) if made != location else ''} is the wrong way round: it is True for "
            f"{'real positions' if hides else 'padding'} ({named}), and True {'hides' if hides else 'shows'} a "
            "position here",
            symptom="grad_wrong",
            why="what is left to attend to is the padding, so the result hardly depends on the input",
            fix="invert the mask here: ~mask; True means hidden in masked_fill() and key_padding_mask, and shown in "
            "scaled_dot_product_attention()",
            location=location,
            symptom_location=made if made != location else None,
        )


_COMPARED = {"ne": "!=", "eq": "==", "lt": "<", "gt": ">", "le": "<=", "ge": ">="}
_SHAPE_ONLY = frozenset({
    "view", "reshape", "getitem", "unsqueeze", "squeeze", "expand", "expand_as", "to", "bool", "repeat", "clone",
    "transpose", "contiguous", "logical_and",
})  # fmt: skip
_NOT = frozenset({"logical_not", "bitwise_not", "invert"})
_FAR_BELOW = -1e3
_MAX_FOLLOWED = 12


def _hiding_mask(call: Call) -> int | None:
    """The mask of a masked_fill() that writes -inf, or a number that stands for it."""
    value = call.scalars.get("2", call.scalars.get("value"))
    is_hidden = isinstance(value, int | float) and value <= _FAR_BELOW
    return call.inputs[1].tensor if is_hidden and len(call.inputs) > 1 else None


def _showing_mask(case: Case, call: Call) -> int | None:
    for use in call.inputs:
        if use.place in ("3", "attn_mask") and case.dataflow.log.tensors[use.tensor].facts.dtype == "bool":
            return use.tensor
    return None


def _origin(case: Case, row: int, mask: int) -> tuple[int, bool] | None:
    """The comparison that made a mask, and whether the mask is True for real positions; None if it is not known."""
    flow, is_turned = case.dataflow, False
    for _ in range(_MAX_FOLLOWED):
        made = flow.producers(mask, row)
        if not made:
            return None
        row = made[-1]
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name in _NOT or (name == "eq" and call.scalars.get("1") == 0 and _is_bool(case, call)):
            is_turned = not is_turned
        elif name in _COMPARED:
            is_real = _is_true_for_real(case, row, call, name)
            return None if is_real is None else (row, is_real != is_turned)
        elif name not in _SHAPE_ONLY or not call.inputs:
            return None
        mask = call.inputs[0].tensor
    return None


def _is_bool(case: Case, call: Call) -> bool:
    return case.dataflow.log.tensors[call.inputs[0].tensor].facts.dtype == "bool"


def _is_true_for_real(case: Case, row: int, call: Call, name: str) -> bool | None:
    if name in ("ne", "eq"):
        number = call.scalars.get("1")
        return name == "ne" if len(call.inputs) == 1 and _pads_with(case, call.inputs[0].tensor) == number else None
    if len(call.inputs) != 2:
        return None
    is_position = [_is_positions(case, row, use.tensor) for use in call.inputs]
    if is_position.count(True) != 1:
        return None
    return (name in ("lt", "le")) == is_position[0]


def _pads_with(case: Case, tokens: int) -> object:
    """The number with which an embedding says that these tokens are padded."""
    flow = case.dataflow
    for user in flow.users(tokens):
        call = flow.log.calls[user]
        if plain_name(call.function) == "embedding":
            return call.scalars.get("padding_idx", 0)
    return None


def _is_positions(case: Case, row: int, tensor: int) -> bool:
    flow = case.dataflow
    for _ in range(_MAX_FOLLOWED):
        made = flow.producers(tensor, row)
        if not made:
            return False
        row = made[-1]
        call = flow.log.calls[row]
        if plain_name(call.function) == "arange":
            return True
        if plain_name(call.function) not in _SHAPE_ONLY or not call.inputs:
            return False
        tensor = call.inputs[0].tensor
    return False
