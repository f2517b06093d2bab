"""GV623."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule


class ShuffledApart(Rule):
    """Inputs and labels are shuffled by two different permutations.

    What it finds
    -------------
    A loss that compares predictions with targets one by one, where the inputs were ordered by one ``randperm()`` and
    the targets by another one of the same length, and neither got the other's.

    Why it matters
    --------------
    Each input meets the label of another sample. The model can only learn how frequent the labels are; the loss stays
    at that level, and nothing raises.

    Example
    -------
    x, y = torch.randn(32, 4), torch.randint(0, 2, (32,))
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        inputs, labels = x[torch.randperm(32)], y[torch.randperm(32)]
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    x, y = torch.randn(32, 4), torch.randint(0, 2, (32,))
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        order = torch.randperm(32)
        inputs, labels = x[order], y[order]
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV623"
    name = "shuffled_apart"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[int | None] = set()
        for row, call in enumerate(flow.log.calls):
            if plain_name(call.function) not in _LOSSES or len(call.inputs) < 2 or call.call_site in told:
                continue
            if not call.inputs[0].requires_grad or call.inputs[1].requires_grad or not flow.has_step_after(row):
                continue
            told.add(call.call_site)
            apart = _apart(case, row, call.inputs[0].tensor, call.inputs[1].tensor)
            if apart is not None:
                yield self._finding(case, row, *apart)

    def _finding(self, case: Case, row: int, of_inputs: int, of_targets: int) -> Finding:
        flow = case.dataflow
        first, second = location_of_call(flow, of_inputs), location_of_call(flow, of_targets)
        return self.finding(
            "the inputs were shuffled by one permutation and their targets by another"
            + (f", at line {first.line}" if first is not None and first != second else ""),
            symptom="grad_wrong",
            why="each input meets the target of another sample, so there is nothing to learn but their frequencies",
            fix="draw one permutation, and index both with it: order = torch.randperm(n); x[order], y[order]",
            location=second,
            symptom_location=first if first != second else location_of_call(flow, row),
        )


_LOSSES = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
})  # fmt: skip


def _apart(case: Case, row: int, prediction: int, target: int) -> tuple[int, int] | None:
    """The calls that order the inputs and the targets, if they share no permutation."""
    flow = case.dataflow
    of_inputs = _orderings(case, flow.ancestors(prediction, row))
    of_targets = _orderings(case, flow.ancestors(target, row))
    only_inputs = [each for each in of_inputs.items() if each[0] not in of_targets]
    only_targets = [each for each in of_targets.items() if each[0] not in of_inputs]
    if not only_inputs or not only_targets:
        return None
    (one, first), (other, second) = only_inputs[-1], only_targets[-1]
    lengths = {shape_of(flow, flow.log.calls[each].outputs[0].tensor) for each in (one, other)}
    bases = {shape_of(flow, flow.log.calls[each].inputs[0].tensor)[:1] for each in (first, second)}
    return (first, second) if len(lengths) == 1 and bases == lengths else None


def _orderings(case: Case, rows: tuple[int, ...]) -> dict[int, int]:
    """By call of randperm(): the call that orders constants by all or a part of it."""
    flow = case.dataflow
    found: dict[int, int] = {}
    for row in rows:
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name not in ("getitem", "index_select") or len(call.inputs) != 2 or call.inputs[0].requires_grad:
            continue
        drawn = _permutation(case, call.inputs[1].tensor, row)
        if drawn is not None:
            found[drawn] = row
    return found


_PARTS = frozenset({"getitem", "split", "chunk", "narrow", "view", "reshape", "to", "unbind"})
_MAX_PARTS = 4


def _permutation(case: Case, tensor: int, row: int) -> int | None:
    """The call of ``randperm()`` that a tensor is, or is a part of."""
    for maker, call in case.dataflow.makers(tensor, row, _MAX_PARTS):
        if plain_name(call.function) == "randperm":
            return maker
        if plain_name(call.function) not in _PARTS:
            return None
    return None
