"""GV839."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import IGNORED_CLASS, Call, Padding


class EndOfSequencesIgnored(Rule):
    """The id that pads sequences also ends them, and all of it is left out of the loss.

    What it finds
    -------------
    Batches of ids in which even the longest sequence ends with exactly one of the id that pads the others, so that it
    is the end of each sequence as well, as with ``pad_token = eos_token``; where they have several widths, or the
    program sets the one token to the other; and where the labels of this id, all of them,
    are set to what ``cross_entropy`` ignores, or where it is the ``ignore_index``. Also labels of which in each batch
    just one more of each sequence is ignored than a mask hides from the model.

    Why it matters
    --------------
    No target says where a sequence ends, so the model never learns to stop: it goes on until a limit cuts it off.

    Example
    -------
    embed, head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        rows = [torch.cat([torch.randint(1, 19, (n,)), torch.tensor([0])]) for n in (3, 5, 9 + step, 4, 6, 7)]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)
        labels = ids.masked_fill(ids == 0, -100)
        scores = head(embed(ids))[:, :-1]
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        rows = [torch.cat([torch.randint(1, 19, (n,)), torch.tensor([0])]) for n in (3, 5, 9 + step, 4, 6, 7)]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=19)
        labels = ids.masked_fill(ids == 19, -100)
        scores = head(embed(ids))[:, :-1]
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV839"
    name = "end_of_sequences_ignored"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        ends = _padding_that_ends(case)
        for rows in calls_in_training(flow, frozenset({"cross_entropy", "nll_loss"})):
            row, call = rows[0], flow.log.calls[rows[0]]  # Of later batches of a loader, the log has no labels.
            ignored = call.scalars.get("ignore_index", IGNORED_CLASS)
            if not _has_score_for_each_id(flow, call):
                continue  # the labels are something else than ids
            if ends is None:
                fill = _fill_of_one_more(flow, rows)
            elif ignored == ends.value:
                yield self._finding(flow, row, location_of_call(flow, row), ends.value, _NEVER_PADDED)
                return
            else:
                fill = next((each for each in _fills(flow, row, ignored) if each.value == ends.value), None)
            if fill is not None:
                words = _MORE_THAN_HIDDEN if ends is None else _NEVER_PADDED
                yield self._finding(flow, row, location_of_call(flow, fill.row), fill.value, words)
                return

    def _finding(self, flow: Dataflow, row: int, location: Location | None, value: int, words: str) -> Finding:
        compared = location_of_call(flow, row)
        return self.finding(
            f"each sequence ends with {value}, {words}: it is the end and the padding, and the "
            f"loss{at_line(compared)} ignores all of it",
            symptom="grad_wrong",
            why="no target says where a sequence ends, so the model never learns to stop",
            fix="ignore the padding alone, labels.masked_fill(attention_mask == 0, -100), or pad with an id of its own",
            location=location,
            symptom_location=compared if compared != location else None,
            evidence={"id": value},
        )


_NEVER_PADDED = "also the longest of each batch, which nothing pads"
_MORE_THAN_HIDDEN = "of which one in each sequence is not hidden by the mask that the model gets"
_LOOKUP = "torch.nn.functional.embedding"
_MIN_BATCHES = 3
_AXES = 2
_EQUALS = frozenset({"eq", "ne"})
_FILLS = frozenset({"setitem", "masked_fill", "where", "index_put"})


def _padding_that_ends(case: Case) -> Padding | None:
    """What pads the ids of several batches, of each of which the longest sequence has exactly one.

    In batches of one width, it may just be longer than any sequence, unless the program sets the one token to the
    other.
    """
    flow = case.dataflow
    found, widths = list[Padding](), set[int]()
    for row in flow.rows_of_function(_LOOKUP):
        call = flow.log.calls[row]
        for use in call.inputs if call.live_inputs and flow.has_step_after(row) else ():
            padding, shape = call.padding.get(use.place), shape_of(flow, use.tensor)
            if padding is not None and len(shape) == _AXES:
                found.append(padding)
                widths.add(shape[padding.axis])
    same = {(each.value, each.axis, each.is_at_end, each.least) for each in found}
    if len(found) < _MIN_BATCHES or len(same) > 1 or not found[0].is_at_end or found[0].least != 1:
        return None
    return found[0] if len(widths) > 1 or _pads_with_the_end(case) else None


_PADS = frozenset({"pad_token", "pad_token_id", "pad_id"})
_ENDS = frozenset({"eos_token", "eos_token_id", "eos_id"})
"""Attributes of tokenizers; https://huggingface.co/docs/transformers/main_classes/tokenizer has the first two."""


def _pads_with_the_end(case: Case) -> bool:
    """Whether the program sets the token that pads to the one that ends, as in ``tok.pad_token = tok.eos_token``."""
    return any(
        isinstance(target, ast.Attribute)
        and isinstance(value, ast.Attribute)
        and target.attr in _PADS
        and value.attr in _ENDS
        for _, tree in own_files(case)
        for target, value in tree.assignments
    )


def _has_score_for_each_id(flow: Dataflow, call: Call) -> bool:
    """Whether the scores are as many as the rows of a table that is looked up."""
    scores = shape_of(flow, call.inputs[0].tensor)
    tables = {flow.log.calls[row].inputs[-1].tensor for row in flow.rows_of_function(_LOOKUP)}
    return len(scores) > 1 and any(shape_of(flow, table)[:1] == scores[1:2] for table in tables)


class _Fill(Struct, frozen=True):
    """A call that put the ignored class wherever the labels, or the ids, are one id."""

    row: int
    test: int
    """The call that compares with this id."""
    value: int


def _fills(flow: Dataflow, row: int, ignored: object) -> Iterator[_Fill]:
    """The calls that did it to the labels of a loss."""
    above = set(flow.ancestors(flow.log.calls[row].inputs[1].tensor, row))
    for each, fill in calls_named(flow, _FILLS):
        numbers = [number for number in fill.scalars.values() if type(number) is int]
        if each not in above or ignored not in numbers:
            continue
        for use in fill.inputs:
            test = flow.newest_producer(use.tensor, each)
            value = None if test is None else _compared_id(flow, test)
            if test is not None and value is not None:
                yield _Fill(each, test, value)


def _compared_id(flow: Dataflow, row: int) -> int | None:
    """The id of which a call says where the ids are it; and not the zeros of a mask."""
    call = flow.log.calls[row]
    if plain_name(call.function) not in _EQUALS or len(call.inputs) != 1:
        return None
    values = flow.values_of(call.inputs[0], row)
    is_of_ids = values is not None and values.maximum is not None and values.maximum > 1
    return next((each for each in call.scalars.values() if is_of_ids and type(each) is int), None)


# -- labels of which more are ignored than a mask hides ----------------------------------------------------------------


def _fill_of_one_more(flow: Dataflow, rows: list[int]) -> _Fill | None:
    """What ignores, in each batch, one more label of each sequence than a mask hides from the model.

    The mask knows where a sequence ends; the labels that are compared with an id do not.
    """
    found = list[_Fill]()
    for row in rows:
        ignored = flow.log.calls[row].scalars.get("ignore_index", IGNORED_CLASS)
        for fill in _fills(flow, row, ignored):
            shape = shape_of(flow, flow.log.calls[fill.test].inputs[0].tensor)
            if len(shape) != _AXES or _equal_to_id(flow, fill.test) - shape[0] not in _hidden(flow, row, shape):
                return None
            found.append(fill)
    is_often = len({flow.step_before(each.row) for each in found}) >= _MIN_BATCHES
    return found[0] if is_often and any(_are_all_at_end(flow, each) for each in found) else None


def _are_all_at_end(flow: Dataflow, fill: _Fill) -> bool:
    """Whether all ids that are the compared one stand at the ends of rows: none begins a sequence."""
    since, until = flow.step_before(fill.row), flow.next_of_kind("step", fill.row)
    known = (
        padding
        for row in flow.rows_of_function(_LOOKUP)
        if since <= row < until
        for padding in flow.log.calls[row].padding.values()
    )
    count = _equal_to_id(flow, fill.test)
    return any(each.value == fill.value and each.is_at_end and each.count == count for each in known)


def _equal_to_id(flow: Dataflow, test: int) -> int:
    """How many ids are the one with which a call compares them."""
    call = flow.log.calls[test]
    values = call.outputs[0].values if call.outputs else None
    if values is None:
        return 0
    return values.zeros if plain_name(call.function) == "ne" else values.count - values.zeros


def _hidden(flow: Dataflow, row: int, shape: tuple[int, ...]) -> set[int]:
    """How many positions each mask may hide that the scores of a loss were computed with."""
    found, since = set[int](), flow.step_before(row)
    for above in flow.ancestors(flow.log.calls[row].inputs[0].tensor, row, since):
        for use in flow.log.calls[above].inputs:
            sizes = tuple(size for size in shape_of(flow, use.tensor) if size != 1)
            values = None if use.requires_grad or sizes != shape else flow.values_of(use, above)
            if values is not None and (values.minimum, values.maximum) == (0, 1):
                found |= {values.zeros, values.count - values.zeros}
    return found
