"""GV863."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, is_in_library, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class PaddingRowDrawn(Rule):
    """An initialization overwrites the zeros of the padding row of an embedding, and the padding is added up.

    What it finds
    -------------
    An embedding with ``padding_idx`` whose row for the padding is not zero, since the program drew the whole matrix
    anew, where the vectors of a sequence are added up or their largest value is taken, and no mask leaves the padding
    out, and nothing takes the row itself, as to subtract it again.

    Why it matters
    --------------
    The row gets no gradient, so it stays as it was drawn. Each position of padding adds the same random vector: what
    stands for a short sequence depends on how long the others of its batch are.

    Example
    -------
    embed, head = torch.nn.Embedding(20, 8, padding_idx=0), torch.nn.Linear(8, 2)
    torch.nn.init.normal_(embed.weight, std=0.1)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        lengths = torch.randint(2, 9, (16, 1))
        ids = torch.randint(1, 20, (16, 9)) * (torch.arange(9) < lengths)
        h = embed(ids).sum(dim=1) / lengths
        loss = torch.nn.functional.cross_entropy(head(h), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, head = torch.nn.Embedding(20, 8, padding_idx=0), torch.nn.Linear(8, 2)
    torch.nn.init.normal_(embed.weight, std=0.1)
    with torch.no_grad():
        embed.weight[embed.padding_idx].zero_()
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        lengths = torch.randint(2, 9, (16, 1))
        ids = torch.randint(1, 20, (16, 9)) * (torch.arange(9) < lengths)
        h = embed(ids).sum(dim=1) / lengths
        loss = torch.nn.functional.cross_entropy(head(h), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV863"
    name = "padding_row_drawn"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int]()
        for row, call in calls_named(flow, {"embedding"}):
            if not call.live_inputs or not flow.has_step_after(row) or (table := call.live_inputs[-1].tensor) in told:
                continue
            if not _pads(call):
                continue
            drawn, reduced = _line_that_draws(flow, table, row), _reduced(flow, row)
            if drawn is not None and reduced is not None and not _is_row_read(flow, table, row):
                told.add(table)
                yield self._finding(case, table, drawn, reduced, _pads(call))

    def _finding(self, case: Case, table: int, drawn: int, reduced: int, pads: int) -> Finding:
        flow = case.dataflow
        words = "added up" if plain_name(flow.log.calls[reduced].function) == "sum" else "compared with the others"
        return self.finding(
            f"the row of {case.histories.name(table)} for the padding is not zero, as this line overwrites all of it; "
            f"{pads:,} positions of the first batch are padding, and it is {words} there",
            symptom="grad_wrong",
            why="padding_idx makes that row zero once, when the embedding is made, and keeps it as it is after that",
            fix="make it zero again behind this line: with torch.no_grad(): embedding.weight[embedding.padding_idx]"
            ".zero_(); or leave the padding out with a mask",
            location=location_of_call(flow, drawn),
            symptom_location=location_of_call(flow, reduced),
            tensors=names_of(flow, [table]),
            evidence={"padding": pads},
        )


def _pads(call: Call) -> int:
    """How many positions look up a padding row that is not zero; 0 where it is zero, or nothing is padding."""
    padding, values = next(iter(call.padding.values()), None), call.outputs[0].values if call.outputs else None
    if padding is None or values is None or padding.value != call.scalars.get("padding_idx", call.scalars.get("2")):
        return 0
    # A row of zeros would give a zero at least for each of these positions.
    return padding.count if values.zeros < padding.count else 0


_DRAWS = frozenset({
    "normal", "uniform", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "trunc_normal",
    "orthogonal", "constant", "copy", "fill", "ones", "data",
})  # fmt: skip


def _line_that_draws(flow: Dataflow, table: int, row: int) -> int | None:
    """The last call of the program that set the whole matrix before a lookup, if no library loads a state there."""
    changes = [each for each in flow.changes(table, -1, row) if flow.log.calls[each].kind == "operation"]
    whole = [
        each for each in changes if shape_of(flow, flow.log.calls[each].changed[0].tensor) == shape_of(flow, table)
    ]
    if not whole or plain_name(flow.log.calls[whole[-1]].function) not in _DRAWS:
        return None
    is_loaded = plain_name(flow.log.calls[whole[-1]].function) == "copy" and is_in_library(flow, whole[-1])
    return None if is_loaded else whole[-1]


def _is_row_read(flow: Dataflow, table: int, row: int) -> bool:
    """Whether single rows are taken in a step: what the padding adds may be subtracted again."""
    users = (flow.log.calls[user] for user in flow.users(table, row) if user < flow.next_of_kind("step", row))
    return any(plain_name(call.function) in ("getitem", "select") and call.grad_mode == "enabled" for call in users)


_REDUCE = frozenset({"sum", "max", "amax"})
_KEEP_ZEROS = frozenset({"dropout", "relu", "tanh", "to", "float", "contiguous", "clone", "square", "abs"})
_MAX_FOLLOWED = 20


def _reduced(flow: Dataflow, row: int) -> int | None:
    """The call that adds up what was looked up, along the positions, or takes the largest."""
    axis = len(shape_of(flow, flow.log.calls[row].outputs[0].tensor)) - 2
    waiting, seen = [(flow.log.calls[row].outputs[0].tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, after = waiting.pop()
        seen.add(tensor)
        for user in flow.users(tensor, after):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if name in _REDUCE and call.scalars.get("dim", call.scalars.get("1")) in (axis, -2) and axis > 0:
                return user
            is_alone = name in _KEEP_ZEROS or (name in ("mul", "div") and len(call.inputs) == 1)
            if is_alone and call.outputs and call.outputs[0].tensor not in seen:
                waiting.append((call.outputs[0].tensor, user))
    return None
