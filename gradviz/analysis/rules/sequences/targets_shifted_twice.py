"""GV762."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sequences.shifted_tokens import (
    Shifted,
    is_loss_of_classes,
    part_of,
    shifted_lookup,
    tokens_of,
)


class TargetsShiftedTwice(Rule):
    """A language model is asked for the token after the next one: the targets are shifted by one position twice.

    What it finds
    -------------
    A loss over classes whose targets are the tokens that the model looks up, shifted by one position in one call and by
    one more in another, as where a program shifts the labels that a model of transformers shifts itself. Programs that
    ask for the next token as well, and targets that one call moves by several positions, are left alone.

    Why it matters
    --------------
    The loss goes down, but the model learns to leave out every second token: what it generates makes no sense.

    Example
    -------
    embed, head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 9)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    def loss_of(logits, labels):
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    for step in range(3):
        tokens = torch.randint(0, 9, (4, 7))
        inputs, labels = tokens[:, :-1], tokens[:, 1:]
        loss = loss_of(head(embed(inputs)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 9)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    def loss_of(logits, labels):
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    for step in range(3):
        tokens = torch.randint(0, 9, (4, 7))
        loss = loss_of(head(embed(tokens)), tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV762"
    name = "targets_shifted_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        seen, twice, near = set[int | None](), list[tuple[int, list[int]]](), set[int]()
        for row, call in enumerate(flow.log.calls):
            if call.call_site in seen or not is_loss_of_classes(call) or not flow.has_step_after(row):
                continue
            seen.add(call.call_site)
            shifted = shifted_lookup(flow, row)
            if shifted is not None and shifted.by < _TWO:
                near.add(shifted.lookup)
            elif shifted is not None and shifted.by == _TWO and len(rows := _shifts(flow, shifted)) == _TWO:
                twice.append((shifted.lookup, [*rows, row]))
        # A model with a head for each of several next tokens is asked for the first one, too.
        yield from (self._finding(case, *rows) for lookup, rows in twice if lookup not in near)

    def _finding(self, case: Case, first: int, second: int, loss: int) -> Finding:
        flow = case.dataflow
        location, again = location_of_call(flow, first), location_of_call(flow, second)
        shown = again if again != location else location_of_call(flow, loss)
        return self.finding(
            "the targets of the loss are shifted by one position twice: each position is asked for the token after "
            "the next one",
            symptom="grad_wrong",
            why="shifted once, the target of a position is the token that follows it; where the loss shifts the labels "
            "itself, they should be the tokens that the model reads",
            fix="shift once: give the tokens themselves as labels, or leave out the shift in the loss",
            location=location,
            symptom_location=shown if shown != location else None,
        )


_TWO = 2


def _shifts(flow: Dataflow, shifted: Shifted) -> list[int]:
    """The calls that shift the targets of a loss by one position each, the first one first.

    Of windows of a stream, it is how much further the window of the targets begins than that of the inputs.
    """
    call, lookup = flow.log.calls[shifted.loss], flow.log.calls[shifted.lookup]
    target = part_of(flow, call.inputs[1].tensor, shifted.loss)
    tokens = tokens_of(lookup)
    windows = () if tokens is None else part_of(flow, tokens, shifted.lookup).moves[::-1]
    found = list[int]()
    for number, (row, (by, length)) in enumerate(zip(target.rows[::-1], target.moves[::-1], strict=True)):
        start, size = windows[number] if number < len(windows) else (0, length)
        if by - (start if size == length else 0) == 1:
            found.append(row)
    return found
