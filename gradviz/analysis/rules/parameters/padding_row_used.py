"""GV720."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    at_line,
    at_line_beside,
    call_words,
    location_of_call,
    plain_name,
    two_lines,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, argument, calls_in_training, tensor_before
from gradviz.analysis.rules.bases.parameters.padded_rows import (
    MIN_USUAL,
    TIMES,
    RowInUse,
    frequency_of_row,
    has_one_for_each_sample,
    line_of_padding,
    line_of_table,
    padding_of,
    row_in_use,
    words_of_items,
)
from gradviz.analysis.rules.bases.sources.names.numbered_names import numbering_without_padding
from gradviz.graph.call_log import Call


class PaddingRowUsed(Rule):
    """The row of an embedding that is declared as padding is looked up for real items.

    What it finds
    -------------
    ``Embedding(..., padding_idx=0)`` whose index has one number for each sample, so that there is nothing to pad, or
    ``EmbeddingBag`` with offsets of bags of different lengths, where 0 is as frequent as any other number, and where
    another embedding without padding learns a row for the same 0, or a list in the program gives it to an item. If
    there is neither, 0 may stand for "unknown", and it is a note, unless the program puts another number in place of
    some. Also sequences that nothing pads, if 0 stands at all positions, at least as often as other numbers, and a loss
    asks the model for it as for any class; and sequences that ``pad_sequence()`` fills up with 0, where 0 was about as
    frequent before as any other number; also labels that are filled up so, if the loss ignores class 0. And any other
    row that is as usual as the rest, such as the last one, which ``padding_idx=-1`` means, where codes below 0 are
    raised before the lookup, or where sequences are filled up with another number. And sequences of one length, whose
    items a line numbers from 0, in a program that names no padding and no mask.

    Why it matters
    --------------
    The row of ``padding_idx`` gets no gradient. The item with that number keeps a vector of zeros, whatever the data
    say about it.

    Example
    -------
    item, bias = torch.nn.Embedding(8, 4, padding_idx=0), torch.nn.Embedding(8, 1)
    optimizer = torch.optim.SGD([*item.parameters(), *bias.parameters()], lr=0.1)
    for step in range(4):
        i = torch.randint(0, 8, (32,))
        loss = (item(i).sum(1) + bias(i).squeeze(1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    item, bias = torch.nn.Embedding(8, 4), torch.nn.Embedding(8, 1)
    optimizer = torch.optim.SGD([*item.parameters(), *bias.parameters()], lr=0.1)
    for step in range(4):
        i = torch.randint(0, 8, (32,))
        loss = (item(i).sum(1) + bias(i).squeeze(1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV720"
    name = "padding_row_used"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lookups: dict[int, list[int]] = defaultdict(list)
        others: dict[tuple[int, int], list[int]] = defaultdict(list)
        padded = set[int]()
        for row, call in enumerate(flow.log.calls):
            number = padding_of(call)
            if number is not None and call.inputs[1].is_live_leaf and flow.has_step_after(row):
                table = call.inputs[1].tensor
                (others[table, number] if number else lookups[table]).append(row)
        yield from self._of_others(case, others)
        for table, rows in lookups.items():
            zeros, count = frequency_of_row(flow, rows, 0)
            usual = count / max(shape_of(flow, table)[0], 1)
            is_usual = usual >= MIN_USUAL and usual / TIMES <= zeros <= usual * TIMES
            if is_usual and (all(has_one_for_each_sample(case, row) for row in rows) or _are_ragged_bags(flow, rows)):
                yield self._finding(case, table, rows, zeros, count)
            elif usual >= MIN_USUAL and zeros >= usual and _is_asked_for(case, table, rows):
                yield self._of_tokens(case, table, rows, zeros, count)
            elif (pads := _padded_with_zero(flow, rows, 0)) and _is_item(flow, pads, shape_of(flow, table)[0]):
                yield self._of_padded(case, table, pads)
                padded |= set(pads)
            elif usual >= MIN_USUAL and zeros >= usual / TIMES and not _are_padded(flow, rows):
                yield from self._of_vocabulary(case, table, rows, zeros, count)
        for rows in calls_in_training(flow, _ASK_FOR_CLASSES) if not padded else ():
            ignoring = [row for row in rows if flow.log.calls[row].scalars.get("ignore_index") == 0]
            pads = _padded_with_zero(flow, ignoring, 1)
            classes = shape_of(flow, flow.log.calls[rows[0]].inputs[0].tensor)[1:2]
            if classes and pads and _is_item(flow, pads, classes[0]):
                yield self._of_labels(flow, ignoring[-1], pads)

    def _of_others(self, case: Case, lookups: dict[tuple[int, int], list[int]]) -> Iterator[Finding]:
        """Rows with another number than 0: each line that makes tables once."""
        lines: dict[Location | None, list[RowInUse]] = defaultdict(list)
        for (table, number), rows in lookups.items():
            size = shape_of(case.dataflow, table)[0]
            row = row_in_use(case, table, number % max(size, 1), rows)
            if row is not None:
                lines[row.line].append(row)
        for line, found in lines.items():
            yield self._of_row(case, line, max(found, key=lambda each: each.is_item), [each.table for each in found])

    def _of_row(self, case: Case, line: Location | None, row: RowInUse, tables: list[int]) -> Finding:
        flow = case.dataflow
        here = location_of_call(flow, row.lookup)
        more = f", as is the one of {len(tables) - 1:,} more tables" if len(tables) > 1 else ""
        last = ", since a negative padding_idx counts from the end, and" if row.is_negative else ", and"
        fix = f"padding_idx={row.filled}, with which the sequences are filled up" if row.filled is not None else None
        return self.finding(
            f"number {row.number} is padding of {case.histories.name(row.table)}{more}{last} is looked up"
            f"{at_line(here)} {row.times:,} times, where {row.usual:,.0f} is usual: its row gets no gradient"
            f"{row.beside}",
            severity="warning" if row.is_item else "note",
            symptom="grad_zero",
            why="padding_idx names a row of the table, which stays as it is: it is no code that the lookup skips",
            fix=fix
            or "leave out padding_idx; or give what is missing a row of its own: a table of one row more, with "
            "padding_idx=0, that looks up code + 1",
            location=line or here,
            symptom_location=here if line not in (None, here) else None,
            tensors=names_of(flow, tables),
            evidence={"times": row.times, "numbers": row.count},
        )

    def _of_labels(self, flow: Dataflow, loss: int, pads: list[int]) -> Finding:
        """Labels that are filled up with the number of a class."""
        zeros, count = _zeros_before(flow, pads)
        location, other = two_lines(flow, loss, pads[-1])
        return self.finding(
            f"{call_words(flow.log.calls[loss])} ignores class 0, with which labels are filled up"
            f"{at_line(other)}, and 0 also is a class like others: {zeros:,} of the {count:,} labels before they are "
            "filled up",
            symptom="grad_zero",
            why="what is left out for padding is left out for this class, too: nothing ever asks the model for it",
            fix="fill labels up with -100, which ignore_index is by default; or count the classes from 1",
            location=location,
            symptom_location=other,
            evidence={"zeros": zeros, "labels": count},
        )

    def _of_padded(self, case: Case, table: int, pads: list[int]) -> Finding:
        """Sequences that are filled up with the number of an item."""
        flow = case.dataflow
        zeros, count = _zeros_before(flow, pads)
        location, made = location_of_call(flow, pads[-1]), line_of_table(case, table)
        return self.finding(
            f"sequences are filled up with 0, the padding of {case.histories.name(table)}, and 0 also is an item like "
            f"others: {zeros:,} of the {count:,} numbers before they are filled up. Its row gets no gradient",
            symptom="grad_zero",
            why="what is left out for padding is left out for this item, too",
            fix="count the items from 1; or fill up with a number that no item has, in a table of one row more",
            location=location,
            symptom_location=made if made != location else None,
            tensors=names_of(flow, [table]),
            evidence={"zeros": zeros, "numbers": count},
        )

    def _of_tokens(self, case: Case, table: int, rows: list[int], zeros: int, count: int) -> Finding:
        flow, histories = case.dataflow, case.histories
        here = location_of_call(flow, rows[0])
        return self.finding(
            f"number 0 is padding of {histories.name(table)}, and it is a token like others: {zeros:,} of {count:,} "
            "that are looked up, at all positions, and a class that the loss asks for: its row gets no gradient",
            symptom="grad_zero",
            why="nothing pads these sequences; padding_idx keeps the row of a token that the model reads",
            fix="leave out padding_idx, or count the tokens from 1",
            location=line_of_padding(case, table, rows[0]) or here,
            tensors=names_of(flow, [table]),
            evidence={"zeros": zeros, "numbers": count},
        )

    def _of_vocabulary(self, case: Case, table: int, rows: list[int], zeros: int, count: int) -> Iterator[Finding]:
        """Sequences of items that the program numbers from 0, where nothing fills up."""
        numbering = numbering_without_padding(case)
        if numbering is None:
            return
        made = line_of_padding(case, table, rows[0]) or location_of_call(case.dataflow, rows[0])
        yield self.finding(
            f"number 0 is padding of {case.histories.name(table)}, and the first item has it"
            f"{at_line_beside(numbering, made)}: {zeros:,} of {count:,} numbers that are looked up, "
            "and its row gets no gradient",
            symptom="grad_zero",
            why="the sequences have one length, and nothing in the program fills them up; padding_idx keeps the row of "
            "an item as it is",
            fix="leave out padding_idx, or count the items from 1",
            location=made,
            symptom_location=numbering,
            tensors=names_of(case.dataflow, [table]),
            evidence={"zeros": zeros, "numbers": count},
        )

    def _finding(self, case: Case, table: int, rows: list[int], zeros: int, count: int) -> Finding:
        flow, histories = case.dataflow, case.histories
        here = location_of_call(flow, rows[0])
        made = line_of_padding(case, table, rows[0])
        usual = count / shape_of(flow, table)[0]
        beside = words_of_items(case, table, 0, rows)
        is_item = bool(beside)
        return self.finding(
            f"number 0 is padding of {histories.name(table)}, and is looked up{at_line(here)} {zeros:,} times, where "
            f"{usual:,.0f} is usual: its row gets no gradient{beside}",
            severity="warning" if is_item else "note",
            symptom="grad_zero",
            why="offsets tell bags of any length apart, so there is nothing to pad; padding_idx leaves that row out"
            if plain_name(flow.log.calls[rows[0]].function) == "embedding_bag"
            else "the index has one number for each sample, so there is nothing to pad; padding_idx keeps that row as "
            "it is",
            fix="leave out padding_idx" if is_item else "leave out padding_idx, unless 0 means unknown",
            location=made or here,
            symptom_location=here if made not in (None, here) else None,
            tensors=names_of(flow, [table]),
            evidence={"zeros": zeros, "numbers": count},
        )


_PADS = frozenset({"pad", "pad_sequence"})
_ASK_FOR_CLASSES = frozenset({"cross_entropy", "nll_loss"})


def _is_asked_for(case: Case, table: int, rows: list[int]) -> bool:
    """Whether a loss has the numbers of the table as its classes, 0 among them, and nothing pads the sequences."""
    flow, size = case.dataflow, shape_of(case.dataflow, table)[0]
    if any(each.value == 0 for row in rows for each in flow.log.calls[row].padding.values()):
        return False
    for lines in calls_in_training(flow, _ASK_FOR_CLASSES):
        call = flow.log.calls[lines[-1]]
        target = argument(call, 1, "target")
        classes = shape_of(flow, call.inputs[0].tensor)[1:2]
        if target is None or classes != (size,) or call.scalars.get("ignore_index") == 0 or call.padding:
            continue
        if call.scalars.get("reduction") == "none":
            continue  # the program may leave out what is padding
        values = flow.values_of(target, lines[-1])
        index = flow.log.calls[rows[-1]].inputs[0]
        above = (
            flow.ancestors(each.tensor, row, flow.step_before(row))
            for each, row in ((target, lines[-1]), (index, rows[-1]))
        )
        calls = [[flow.log.calls[row] for row in found] for found in above]
        sources = [{use.tensor for each in found for use in each.inputs} for found in calls]
        is_padded = any(plain_name(each.function) in _PADS for found in calls for each in found)
        if values is not None and values.zeros and sources[0] & sources[1] and not is_padded:
            return True
    return False


def _are_padded(flow: Dataflow, rows: list[int]) -> bool:
    """Whether 0 fills up sequences, or could, as the numbers come from a call that fills up."""
    return any(
        any(each.value == 0 for each in flow.log.calls[row].padding.values())
        or any(
            plain_name(flow.log.calls[above].function) in _PADS
            for above in flow.ancestors(flow.log.calls[row].inputs[0].tensor, row, flow.step_before(row))
        )
        for row in rows
    )


def _are_ragged_bags(flow: Dataflow, rows: list[int]) -> bool:
    """Whether the index joins bags of different lengths, which their offsets tell apart: bags of one length could have
    been filled up to it."""
    calls = [flow.log.calls[row] for row in rows]
    offsets = [argument(call, 2, "offsets") for call in calls]
    if any(
        each is None or plain_name(call.function) != "embedding_bag" for each, call in zip(offsets, calls, strict=True)
    ):
        return False
    numbers = [shape_of(flow, call.inputs[0].tensor)[0] for call in calls]
    ends = [int(call.scalars.get("include_last_offset") is True) for call in calls]
    bags = [shape_of(flow, each.tensor)[0] - end for each, end in zip(offsets, ends, strict=True) if each is not None]
    return all(bags) and any(number % count for number, count in zip(numbers, bags, strict=True))


def _padded_with_zero(flow: Dataflow, rows: list[int], place: int) -> list[int]:
    """The calls of ``pad_sequence()`` that filled up one input of these calls with 0."""
    found = []
    for row in rows:
        tensor = tensor_before(flow, flow.log.calls[row].inputs[place].tensor, row, SHAPE_ONLY)
        made = flow.first_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        is_padded = call is not None and plain_name(call.function) == "pad_sequence"
        if made is not None and call is not None and is_padded and _value_of_padding(call) == 0:
            found.append(made)
    return found


def _value_of_padding(call: Call) -> object:
    return call.scalars.get("padding_value", call.scalars.get("2", 0))


def _zeros_before(flow: Dataflow, pads: list[int]) -> tuple[int, int]:
    """How many numbers of the sequences are 0 before they are filled up, and how many numbers there are."""
    read = [flow.values_of(use, row) for row in pads for use in flow.log.calls[row].inputs]
    known = [values for values in read if values is not None]
    return sum(values.zeros for values in known), sum(values.count for values in known)


def _is_item(flow: Dataflow, pads: list[int], size: int) -> bool:
    """Whether 0 is about as frequent among the numbers that are filled up as any other."""
    zeros, count = _zeros_before(flow, pads)
    usual = count / max(size, 1)
    if zeros == sum(len(flow.log.calls[row].inputs) for row in pads):
        return False  # one in each sequence: a token with which they begin, as decoders do
    return usual >= _MIN_USUAL_BEFORE and usual / TIMES <= zeros <= usual * TIMES


_MIN_USUAL_BEFORE = 8
