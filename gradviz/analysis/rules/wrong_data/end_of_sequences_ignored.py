"""GV839."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training
from gradviz.graph.call_log import IGNORED_CLASS, Call, Padding, TensorUse


class EndOfSequencesIgnored(Rule):
    """The id that pads sequences also ends them, and all of it is left out of the loss.

    What it finds
    -------------
    Batches of ids in which even the longest sequence ends with exactly one of the id that pads the others, so that it
    is the end of each sequence as well, as with ``pad_token = eos_token``; where the labels of this id, all of them,
    are set to what ``cross_entropy`` ignores, or where it is the ``ignore_index``.

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
        ends = _padding_that_ends(flow)
        if ends is None:
            return
        for rows in calls_in_training(flow, frozenset({"cross_entropy", "nll_loss"})):
            row, call = rows[0], flow.log.calls[rows[0]]  # Of later batches of a loader, the log has no labels.
            ignored = call.scalars.get("ignore_index", IGNORED_CLASS)
            if not _has_score_for_each_id(flow, call):
                continue  # the labels are something else than ids
            filled = None if ignored == ends.value else _fill(flow, row, call, ends.value, ignored)
            location = location_of_call(flow, row if filled is None else filled)
            if ignored == ends.value or filled is not None:
                yield self._finding(flow, row, location, ends)
                return

    def _finding(self, flow: Dataflow, row: int, location: Location | None, ends: Padding) -> Finding:
        compared = location_of_call(flow, row)
        return self.finding(
            f"each sequence ends with {ends.value}, also the longest of each batch, which nothing pads: it is the end "
            f"and the padding, and the loss{at_line(compared)} ignores all of it",
            symptom="grad_wrong",
            why="no target says where a sequence ends, so the model never learns to stop",
            fix="ignore the padding alone, labels.masked_fill(attention_mask == 0, -100), or pad with an id of its own",
            location=location,
            symptom_location=compared if compared != location else None,
            evidence={"id": ends.value},
        )


_LOOKUP = "torch.nn.functional.embedding"
_MIN_BATCHES = 3
_AXES = 2
_EQUALS = frozenset({"eq", "ne"})
_FILLS = frozenset({"setitem", "masked_fill", "where", "index_put"})


def _padding_that_ends(flow: Dataflow) -> Padding | None:
    """What pads the ids of several batches of different widths, of each of which the longest sequence has exactly one.

    In batches of one width, it may just be longer than any sequence.
    """
    found, widths = list[Padding](), set[int]()
    for row in flow.rows_of_function(_LOOKUP):
        call = flow.log.calls[row]
        for use in call.inputs if call.live_inputs and flow.has_step_after(row) else ():
            padding, shape = call.padding.get(use.place), shape_of(flow, use.tensor)
            if padding is not None and len(shape) == _AXES:
                found.append(padding)
                widths.add(shape[padding.axis])
    same = {(each.value, each.axis, each.is_at_end, each.least) for each in found}
    is_end = len(found) >= _MIN_BATCHES and len(same) == 1 and found[0].is_at_end and found[0].least == 1
    return found[0] if is_end and len(widths) > 1 else None


def _has_score_for_each_id(flow: Dataflow, call: Call) -> bool:
    """Whether the scores are as many as the rows of a table that is looked up."""
    scores = shape_of(flow, call.inputs[0].tensor)
    tables = {flow.log.calls[row].inputs[-1].tensor for row in flow.rows_of_function(_LOOKUP)}
    return len(scores) > 1 and any(shape_of(flow, table)[:1] == scores[1:2] for table in tables)


def _fill(flow: Dataflow, row: int, call: Call, value: int, ignored: object) -> int | None:
    """The call that put the ignored class wherever the labels, or the ids, are this one."""
    above = set(flow.ancestors(call.inputs[1].tensor, row))
    for each, fill in calls_named(flow, _FILLS):
        numbers = [number for number in fill.scalars.values() if type(number) is int]
        if each in above and ignored in numbers and any(_is_test(flow, use, each, value) for use in fill.inputs):
            return each
    return None


def _is_test(flow: Dataflow, use: TensorUse, row: int, value: int) -> bool:
    """Whether it says which ids are this one; and not where a mask is zero."""
    made = flow.newest_producer(use.tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) not in _EQUALS or len(call.inputs) != 1:
        return False
    values = flow.values_of(call.inputs[0], made)
    is_of_ids = values is not None and values.maximum is not None and values.maximum > 1
    return is_of_ids and value in call.scalars.values()
