"""GV837."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import line_outside_modules, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sequences.attention.padded_attention import attentions
from gradviz.graph.call_log import Padding


class PaddingMaskUnused(Rule):
    """A mask of the padding is made for each batch, and attention reads the padding without it.

    What it finds
    -------------
    A batch of ids that are padded, beside a tensor that says which of them are padding, as ``attention_mask`` does, and
    that nothing uses; while an attention of the sequences to themselves reads all positions: one without any mask, or
    one that only hides what comes later though the padding stands in front.

    Why it matters
    --------------
    What a sequence gets depends on how much padding its batch has. With padding in front, also the positions are those
    of the batch and not those of the sequence. The model trains, only worse, and answers otherwise alone than in a
    batch.

    Example
    -------
    embed, mix = torch.nn.Embedding(9, 8, padding_idx=0), torch.nn.MultiheadAttention(8, 2, batch_first=True)
    parts = torch.nn.ModuleList([embed, mix])
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
    for step in range(3):
        ids = torch.randint(1, 9, (8, 6)) * (torch.arange(6) < torch.randint(2, 7, (8, 1)))
        is_padding = ids == 0
        x = embed(ids)
        y, _ = mix(x, x, x)
        optimizer.zero_grad()
        y[:, 0].square().mean().backward()
        optimizer.step()

    Instead
    -------
    embed, mix = torch.nn.Embedding(9, 8, padding_idx=0), torch.nn.MultiheadAttention(8, 2, batch_first=True)
    parts = torch.nn.ModuleList([embed, mix])
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
    for step in range(3):
        ids = torch.randint(1, 9, (8, 6)) * (torch.arange(6) < torch.randint(2, 7, (8, 1)))
        is_padding = ids == 0
        x = embed(ids)
        y, _ = mix(x, x, x, key_padding_mask=is_padding)
        optimizer.zero_grad()
        y[:, 0].square().mean().backward()
        optimizer.step()
    """

    code = "GV837"
    name = "padding_mask_unused"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        lookups = [row for row in flow.rows_of_function(_EMBEDDING) if flow.log.calls[row].padding]
        masks = _unused_masks(flow) if lookups else {}
        if not masks:
            return
        readers = [each for each in attentions(flow) if each.is_own and each.padding is None]
        rows_of_readers = [each.row for each in readers]
        for row in lookups:
            ids = _padded_ids(flow, row)
            mask = None if ids is None else _mask_of(flow, masks, ids, row)
            if ids is None or mask is None or flow.log.calls[row].call_site in told or not flow.has_step_after(row):
                continue
            end = flow.next_of_kind("backward", row)
            near = readers[bisect_right(rows_of_readers, row) : bisect_right(rows_of_readers, end)]
            reads = (each for each in near if each.length in ids.shape)
            hidden = (each for each in reads if not each.has_mask or not ids.padding.is_at_end)
            reader = next((each.row for each in hidden if row in flow.ancestors(each.keys, each.row, row)), None)
            if reader is not None:
                told.add(flow.log.calls[row].call_site)
                yield self._finding(flow, row, reader, mask, ids.padding)

    def _finding(self, flow: Dataflow, row: int, reader: int, mask: int, padding: Padding) -> Finding:
        called = location_of_line(line_outside_modules(flow, row))
        made = flow.log.tensors[mask].producer
        at = None if made is None else location_of_call(flow, made)
        side = "end" if padding.is_at_end else "begin"
        return self.finding(
            f"{padding.count:,} of the {padding.of:,} ids of the first batch only pad: sequences {side} with "
            f"{padding.value}. Attention reads them, and nothing uses the mask that says which they are",
            symptom="value_wrong",
            why="what is computed for a sequence depends on the padding of its batch",
            fix="give the mask to the model: model(input_ids, attention_mask=attention_mask), "
            "key_padding_mask=is_padding for nn.MultiheadAttention",
            location=called or location_of_call(flow, reader),
            symptom_location=at if at != called else None,
            evidence={"padded": padding.count, "positions": padding.of},
        )


_EMBEDDING = "torch.nn.functional.embedding"
_AXES = 2
_MOVES = frozenset({"to", "cuda", "cpu", "float", "long", "double", "bool", "int", "contiguous", "pin_memory"})


class _Ids(Struct, frozen=True):
    shape: Shape
    padding: Padding


def _padded_ids(flow: Dataflow, row: int) -> _Ids | None:
    call = flow.log.calls[row]
    for use in call.inputs:
        padding = call.padding.get(use.place)
        if padding is not None:
            return _Ids(shape_of(flow, use.tensor), padding)
    return None


def _unused_masks(flow: Dataflow) -> dict[Shape, list[tuple[int, int, int, int]]]:
    """By shape: tensors of zeros and ones that nothing uses, where they were made, and how many there are of each."""
    found: dict[Shape, list[tuple[int, int, int, int]]] = defaultdict(list)
    for number, tensor in enumerate(flow.log.tensors):
        shape = shape_of(flow, number)
        if len(shape) != _AXES or tensor.producer is None or tensor.requires_grad:
            continue
        values = flow.values(number, len(flow.log.calls))
        is_mask = values is not None and values.minimum == 0 and values.maximum == 1
        if values is not None and is_mask and _is_unused(flow, number):
            found[shape].append((tensor.producer, number, values.zeros, values.count - values.zeros))
    return {shape: sorted(masks) for shape, masks in found.items()}


def _is_unused(flow: Dataflow, tensor: int) -> bool:
    """Whether no call uses it, other than to move it, whose result nothing uses either."""
    waiting, seen = [tensor], {tensor}
    while waiting:
        number = waiting.pop()
        for user in flow.users(number, flow.log.tensors[number].producer):
            call = flow.log.calls[user]
            if plain_name(call.function) == "setitem" and call.inputs[0].tensor == number:
                continue  # It is still being made.
            if plain_name(call.function) not in _MOVES:
                return False
            moved = {use.tensor for use in call.outputs} - seen
            seen |= moved
            waiting += moved
    return True


def _mask_of(flow: Dataflow, masks: dict[Shape, list[tuple[int, int, int, int]]], ids: _Ids, row: int) -> int | None:
    """The newest mask that was made before, since the last step, with as many zeros or ones as positions that pad."""
    count, known, since = ids.padding.count, masks.get(ids.shape, []), flow.step_before(row)
    for made, mask, zeros, ones in reversed(known[: bisect_left(known, (row,))]):
        if made < since:
            return None
        if count in (zeros, ones):
            return mask
    return None
