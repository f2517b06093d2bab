"""GV832."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sequences.attention.padded_attention import Attention, attentions
from gradviz.graph.call_log import Call, TensorUse


class PaddingReadLater(Rule):
    """Padding is hidden from one attention, and the next one reads what was computed at these positions.

    What it finds
    -------------
    Attention without any mask over the results of an attention of the same positions that had one for padding: a
    decoder without ``memory_key_padding_mask`` behind an encoder that has ``src_key_padding_mask``, a second layer that
    does not get the mask of the first, queries that collect what an encoder computed. Calls of
    ``nn.MultiheadAttention`` and ``scaled_dot_product_attention``, and attention that is written out. It is a note
    where the mask was not made of ids or lengths: the first attention may fill gaps that it hides.

    Why it matters
    --------------
    A mask of keys only hides positions from others in that call. The layer still computes something at the padding,
    and who reads it gets the more of it the shorter a sequence is: results depend on what else is in the batch.

    Example
    -------
    embed, ask = torch.nn.Embedding(9, 8, padding_idx=0), torch.nn.Parameter(torch.randn(1, 2, 8))
    encode, read = (torch.nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))
    parts = torch.nn.ModuleList([embed, encode, read])
    optimizer = torch.optim.SGD([*parts.parameters(), ask], lr=0.1)
    for step in range(3):
        ids = torch.randint(1, 9, (4, 6)) * (torch.arange(6) < torch.randint(2, 7, (4, 1)))
        x = embed(ids)
        memory, _ = encode(x, x, x, key_padding_mask=ids == 0)
        answer, _ = read(ask.expand(4, 2, 8), memory, memory)
        optimizer.zero_grad()
        answer.square().mean().backward()
        optimizer.step()

    Instead
    -------
    embed, ask = torch.nn.Embedding(9, 8, padding_idx=0), torch.nn.Parameter(torch.randn(1, 2, 8))
    encode, read = (torch.nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))
    parts = torch.nn.ModuleList([embed, encode, read])
    optimizer = torch.optim.SGD([*parts.parameters(), ask], lr=0.1)
    for step in range(3):
        ids = torch.randint(1, 9, (4, 6)) * (torch.arange(6) < torch.randint(2, 7, (4, 1)))
        x = embed(ids)
        memory, _ = encode(x, x, x, key_padding_mask=ids == 0)
        answer, _ = read(ask.expand(4, 2, 8), memory, memory, key_padding_mask=ids == 0)
        optimizer.zero_grad()
        answer.square().mean().backward()
        optimizer.step()
    """

    code = "GV832"
    name = "padding_read_later"
    severity = "warning"
    yields_to = ("padding_in_summary",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        padded: dict[int, Attention] = {}
        for each in attentions(flow):
            if each.is_own and each.padding is not None:
                padded[each.row] = each
            site = flow.log.calls[each.row].call_site
            if each.has_mask or site in told or not padded:
                continue
            before = _padded_before(flow, each, padded)
            if before is not None and flow.has_step_after(each.row):
                told.add(site)
                yield self._finding(case, each, before)

    def _finding(self, case: Case, attention: Attention, before: Attention) -> Finding:
        flow = case.dataflow
        here, masked = location_of_call(flow, attention.row), location_of_call(flow, before.row)
        return self.finding(
            f"this attention reads {attention.length} positions without a mask, and some of them are padding, which "
            "the attention before it hid",
            symptom="grad_wrong",
            why="a mask of keys hides them in its own call only: what was computed at the padding is read here, the "
            "more the shorter a sequence is",
            fix="give it the same mask of the keys: memory_key_padding_mask= of nn.Transformer and its decoder, "
            "key_padding_mask= of nn.MultiheadAttention, attn_mask= of scaled_dot_product_attention()",
            location=here,
            symptom_location=masked if masked != here else None,
            evidence={"positions": attention.length},
            severity=self.severity if _is_of_sequences(flow, before) else "note",
        )


_PAIR = 2
_MAX_MAKERS = 60
_COMPARE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_WHOLE_NUMBERS = frozenset({"int64", "int32", "int16", "int8", "uint8"})
_JOIN = frozenset({"cat", "stack", "gather", "index_select", "take_along_dim", "masked_select", "where", "masked_fill"})


def _padded_before(flow: Dataflow, attention: Attention, padded: dict[int, Attention]) -> Attention | None:
    """The attention with a mask of padding that made the keys, position by position, with nothing that hides any."""
    for row, call in flow.makers_above(attention.keys, attention.row, _MAX_MAKERS, _of_same_positions):
        if any(shape_of(flow, use.tensor)[1:-1].count(attention.length) > 1 for use in call.outputs):
            return None  # two axes of one length, as agents and times: attention may go along them by turns
        found = padded.get(row)
        if found is not None:
            return found if found.length == attention.length else None
        if plain_name(call.function) in _JOIN or _may_hide(flow, call):
            return None
    return None


def _of_same_positions(call: Call) -> Iterable[TensorUse]:
    """What a call takes position by position: both sides of a sum, and otherwise what comes first."""
    live = call.live_inputs
    return live[:_PAIR] if plain_name(call.function) == "add" else live[:1]


def _may_hide(flow: Dataflow, call: Call) -> bool:
    """Whether a call multiplies by something without a gradient that may be a mask."""
    others = (use for use in call.inputs if not use.requires_grad)
    return plain_name(call.function) == "mul" and any(shape_of(flow, use.tensor) not in ((), (1,)) for use in others)


def _is_of_sequences(flow: Dataflow, attention: Attention) -> bool:
    """Whether a mask was made of ids or lengths. Others may mark gaps between values, which the first layer fills."""
    mask = attention.padding
    above = () if mask is None else flow.makers_above(mask, attention.row, _MAX_MAKERS, _made_of)
    for _, call in above:
        name, dtypes = plain_name(call.function), (flow.log.tensors[use.tensor].facts.dtype for use in call.inputs)
        if name in ("arange", "pad_sequence") or (name in _COMPARE and any(each in _WHOLE_NUMBERS for each in dtypes)):
            return True
    return False


def _made_of(call: Call) -> Iterable[TensorUse]:
    """What the values of a result are: not the indexes that choose them."""
    return call.inputs[:1] if plain_name(call.function) in ("getitem", "index_select") else call.inputs
