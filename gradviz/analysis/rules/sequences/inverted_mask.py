"""GV621."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above, names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first
from gradviz.analysis.rules.bases.sequences.attention.hiding_masks import HIDING, mask_of
from gradviz.analysis.rules.bases.sequences.shifted_tokens import part_of
from gradviz.graph.call_log import Call


class InvertedMask(Rule):
    """A mask hides what is real, and shows the padding.

    What it finds
    -------------
    Attention whose mask was made from token numbers or from lengths, or has a one for each of the ids that are no
    padding, as that of a tokenizer has, and is the wrong way round: ``tokens != pad``, or
    ``positions < lengths``, where True hides (``key_padding_mask``, ``masked_fill(mask, -inf)``,
    ``where(mask, -1e9, scores)``, ``scores - 1e9 * mask``); ``tokens == pad`` where True shows
    (``scaled_dot_product_attention``, ``where(mask, scores, -1e9)``, ``scores + mask.log()``). Also errors of tokens
    that are multiplied by ``tokens == pad``, or chosen with it, where an embedding says what padding is.

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
        for row, call in calls_named(flow, HIDING):
            if call.call_site in told or not flow.has_step_after(row):
                continue
            mask = mask_of(flow, row, call)
            origin = None if mask is None else _origin(case, mask.row, mask.tensor)
            if mask is None or origin is None or origin[1] != mask.hides_true:
                continue
            hides = mask.hides_true
            if hides and _may_be_choices(case, call, origin[0]):
                continue
            told.add(call.call_site)
            yield self._finding(
                case, row, origin[0], hides, is_joined=_is_joined(flow, mask.row, mask.tensor, hides=hides)
            )
        for rows in calls_in_training(flow, _SELECTS):
            compared = _padding_counted(flow, rows[-1])
            if compared is not None:
                yield self._of_loss(flow, rows[-1], compared)

    def _of_loss(self, flow: Dataflow, row: int, compared: int) -> Finding:
        location, made = two_lines(flow, compared, row)
        return self.finding(
            f"the loss{at_line(made)} counts only padding: the mask is True for padding (==), and the errors are "
            "multiplied by it, or chosen with it",
            symptom="grad_wrong",
            why="the model learns to write padding behind a text, and nothing of the text itself",
            fix="invert the mask: tokens != padding",
            location=location,
            symptom_location=made,
        )

    def _finding(self, case: Case, row: int, origin: int, hides: bool, *, is_joined: bool) -> Finding:
        flow = case.dataflow
        used, made = location_of_call(flow, row), location_of_call(flow, origin)
        location, shown = (made, used) if is_joined else (used, made)
        counted = f"as many as there are ids that {'are no padding' if hides else 'pad'}"
        named = _COMPARED.get(plain_name(flow.log.calls[origin].function), counted)
        return self.finding(
            f"the mask{at_line(made if made != used else None)} is the wrong way round: it is True for "
            f"{'real positions' if hides else 'padding'} ({named}), and True {'hides' if hides else 'shows'} a "
            "position here",
            symptom="grad_wrong",
            why="what is left to attend to is the padding, so the result hardly depends on the input",
            fix=("invert the comparison" if is_joined else "invert the mask here: ~mask")
            + "; True means hidden in masked_fill() and key_padding_mask, and shown in "
            "scaled_dot_product_attention(); in where(), swap the two values",
            location=location,
            symptom_location=shown if shown != location else None,
            tensors=_tensors_behind(case, row, origin),
        )


def _tensors_behind(case: Case, row: int, origin: int) -> tuple[str, ...]:
    """The names of what made the scores that a mask hides, and of the embedding of the tokens."""
    flow = case.dataflow
    scores = flow.log.calls[row].inputs[0].tensor
    embedding = next((_embedding_of(case, use.tensor) for use in flow.log.calls[origin].inputs[:1]), None)
    tables = [] if embedding is None else [use.tensor for use in embedding.live_inputs]
    return tuple(dict.fromkeys((*leaf_names_above(flow, scores, row, flow.step_before(row)), *names_of(flow, tables))))


_COMPARED = {"ne": "!=", "eq": "==", "lt": "<", "gt": ">", "le": "<=", "ge": ">="}
_SHAPE_ONLY = frozenset({
    "view", "reshape", "getitem", "unsqueeze", "squeeze", "expand", "expand_as", "to", "bool", "repeat", "clone",
    "transpose", "contiguous", "flatten", "ravel", "view_as", "logical_and", "float", "half", "double", "int", "long",
    "type", "type_as", "detach", "pad",
})  # fmt: skip
_NOT = frozenset({"logical_not", "bitwise_not", "invert"})
_MAX_FOLLOWED = 12


def _origin(case: Case, row: int, mask: int) -> tuple[int, bool] | None:
    """The comparison that made a mask, and whether the mask is True for real positions; None if it is not known."""
    is_turned, made = False, row
    for maker, call in case.dataflow.makers(mask, row, _MAX_FOLLOWED):
        name, made = plain_name(call.function), maker
        if name in _NOT or (name == "eq" and call.scalars.get("1") == 0 and _is_bool(case, call)):
            is_turned = not is_turned
        elif name in _COMPARED:
            is_real = _is_true_for_real(case, maker, call, name)
            if is_real is not None or not _is_of_flags(case.dataflow, maker, call):
                return None if is_real is None else (maker, is_real != is_turned)
            is_turned ^= (name == "eq") == (call.scalars.get("1") == 0)
        elif name == "cat" and (tokens := _mask_beside_ones(case.dataflow, maker, call)) is not None:
            found = _origin(case, maker, tokens)  # positions in front of the tokens, which are all real
            return None if found is None else (found[0], found[1] != is_turned)
        elif name not in _SHAPE_ONLY:
            break
        if call.inputs:
            mask, row = call.inputs[0].tensor, maker
    is_real = _is_one_for_real(case.dataflow, row, mask)
    return None if is_real is None else (made, is_real != is_turned)


def _is_of_flags(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call only makes a mask of ones and zeros one of True and False: ``mask == 1``, ``mask != 0``."""
    values = flow.values_of(call.inputs[0], row) if len(call.inputs) == 1 else None
    is_by_number = plain_name(call.function) in ("eq", "ne") and call.scalars.get("1") in (0, 1)
    return values is not None and is_by_number and (values.minimum, values.maximum) == (0, 1)


def _is_one_for_real(flow: Dataflow, row: int, mask: int) -> bool | None:
    """Whether a mask that no comparison made, as a tokenizer gives one, has a one for each id that is no padding, or
    for each that is: it has as many ones and zeros as the ids that the step looks up have of these."""
    values = flow.values(mask, row)
    if values is None or (values.minimum, values.maximum) != (0, 1):
        return None
    ones = values.count - values.zeros
    for each, call in calls_named(flow, _LOOKS_UP):
        padding = next(iter(call.padding.values()), None) if flow.step_before(row) <= each < row else None
        if padding is None or padding.of != values.count or 2 * padding.count == padding.of:
            continue
        if ones in (padding.count, padding.of - padding.count):
            return ones != padding.count
    return None


_LOOKS_UP = frozenset({"embedding"})


def _is_joined(flow: Dataflow, row: int, mask: int, *, hides: bool) -> bool:
    """Whether a comparison has other positions beside it whose mask is right: to invert all of it would hide them."""
    for _, call in flow.makers(mask, row, _MAX_FOLLOWED):
        name = plain_name(call.function)
        if name in _COMPARED or name in _NOT:
            break
        if name in ("pad", "cat"):
            return bool(name == "cat" or call.scalars.get("value", call.scalars.get("3"))) != hides
    return False


def _mask_beside_ones(flow: Dataflow, row: int, call: Call) -> int | None:
    """The mask to which a call joins ones only."""
    values = {use.tensor: flow.values(use.tensor, row) for use in call.inputs}
    others = [tensor for tensor, each in values.items() if each is None or each.minimum != 1 or each.maximum != 1]
    return others[0] if len(others) == 1 and len(values) == _BOTH else None


_SELECTS = frozenset({"mul", "getitem", "masked_select"})
_LOSSES = frozenset({"cross_entropy", "nll_loss"})


def _padding_counted(flow: Dataflow, row: int) -> int | None:
    """The comparison whose mask is True for padding, if a call keeps only these errors of the tokens of a batch."""
    call = flow.log.calls[row]
    if len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    errors = value_maker(flow, call.live_inputs[0].tensor, row)
    mask = next(use for use in call.inputs if not use.requires_grad)
    if errors is None or plain_name(errors[1].function) not in _LOSSES:
        return None
    is_turned = False
    for maker, made in flow.makers(mask.tensor, row, _MAX_FOLLOWED):
        name = plain_name(made.function)
        if name in ("eq", "ne") and len(made.inputs) == 1:
            number = made.scalars.get("1", made.scalars.get("other"))
            is_of_padding = (name == "ne") == is_turned and number in _paddings(flow, made.inputs[0].tensor, maker)
            return maker if is_of_padding else None
        if name in _NOT:
            is_turned = not is_turned
        elif name not in _SHAPE_ONLY:
            return None
    return None


def _paddings(flow: Dataflow, targets: int, row: int) -> set[object]:
    """The numbers that embeddings of the same tokens take for padding, as they say themselves."""
    source, since = part_of(flow, targets, row).source[0], flow.step_before(row)
    return {
        call.scalars["padding_idx"]
        for each, call in calls_named(flow, frozenset({"embedding"}))
        if each >= since and "padding_idx" in call.scalars
        if part_of(flow, call.inputs[0].tensor, each).source[0] == source
    }


def _is_bool(case: Case, call: Call) -> bool:
    return case.dataflow.log.tensors[call.inputs[0].tensor].facts.dtype == "bool"


def _is_true_for_real(case: Case, row: int, call: Call, name: str) -> bool | None:
    if name in ("ne", "eq"):
        number = call.scalars.get("1", call.scalars.get("other"))
        is_padding = number is not None and number == _pads_with(case, call.inputs[0].tensor)
        return name == "ne" if is_padding and len(call.inputs) == 1 else None
    sides = _sides(case, row, call)
    if sides is None:
        return None
    is_position = [_is_positions(case, maker, tensor) for tensor, maker in sides]
    if is_position.count(True) != 1 or _may_be_starts(case.dataflow, *sides[is_position.index(False)]):
        return None
    return (name in ("lt", "le")) == is_position[0]


def _may_be_starts(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether numbers may say where sequences begin that are filled up in front: what is left of a number, or 0."""
    for made, call in flow.makers(tensor, row, _MAX_FOLLOWED):
        name = plain_name(call.function)
        if name in ("sub", "rsub") and len(call.inputs) == 1:
            return is_number_first(call)
        if name == "sub" and not _is_longest(flow, call.inputs[-1].tensor, made):
            return _is_longest(flow, call.inputs[0].tensor, made)
        if name not in _SHAPE_ONLY:
            break
    values = flow.values(tensor, row)
    return values is not None and values.minimum == 0


def _is_longest(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor is one number, such as the largest length."""
    values = flow.values(tensor, row)
    return values is not None and values.count == 1


def _sides(case: Case, row: int, call: Call) -> list[tuple[int, int]] | None:
    """The two tensors that a comparison orders, with the call that takes them: also ``positions - lengths < 0``."""
    if len(call.inputs) == 1 and call.scalars.get("1", call.scalars.get("other")) == 0:
        made = case.dataflow.newest_producer(call.inputs[0].tensor, row)
        if made is None or plain_name(case.dataflow.log.calls[made].function) != "sub":
            return None
        row, call = made, case.dataflow.log.calls[made]
    return [(use.tensor, row) for use in call.inputs] if len(call.inputs) == _BOTH else None


_BOTH = 2


def _pads_with(case: Case, tokens: int) -> object:
    """The number with which tokens of an embedding are padded: 0 if it does not say so."""
    embedding = _embedding_of(case, tokens)
    return None if embedding is None else embedding.scalars.get("padding_idx", 0)


def _embedding_of(case: Case, tokens: int) -> Call | None:
    """The embedding of these tokens, or of the same rows, chosen twice: ``mask(ids[i])``, ``model(ids[i])``."""
    flow = case.dataflow
    given = [tokens]
    for row in flow.producers(tokens):
        chosen = [use.tensor for use in flow.log.calls[row].inputs]
        if plain_name(flow.log.calls[row].function) == "getitem" and len(chosen) == _BOTH:
            again = (flow.log.calls[user] for user in flow.users(chosen[1]))
            given += [
                call.outputs[0].tensor
                for call in again
                if call.outputs and plain_name(call.function) == "getitem"
                if [use.tensor for use in call.inputs] == chosen
            ]
    calls = (flow.log.calls[user] for each in given for user in flow.users(each))
    return next((call for call in calls if plain_name(call.function) == "embedding"), None)


def _may_be_choices(case: Case, call: Call, origin: int) -> bool:
    """Whether the program hides one number for each token, where no embedding says that 0 is padding: these may be the
    fields of a board, and the moves that it allows."""
    flow = case.dataflow
    if not flow.log.calls[origin].inputs:
        return False
    tokens = flow.log.calls[origin].inputs[0].tensor
    embedding = _embedding_of(case, tokens)
    if embedding is None or "padding_idx" in embedding.scalars or call.call_site is None:
        return False
    is_by_program = not flow.log.call_sites[call.call_site].is_library
    return is_by_program and shape_of(flow, call.inputs[0].tensor) == shape_of(flow, tokens)


def _is_positions(case: Case, row: int, tensor: int) -> bool:
    """Whether a tensor is an ``arange()``, perhaps in another shape."""
    above = (plain_name(call.function) for _, call in case.dataflow.makers(tensor, row, _MAX_FOLLOWED))
    return next((name for name in above if name not in _SHAPE_ONLY), None) == "arange"
