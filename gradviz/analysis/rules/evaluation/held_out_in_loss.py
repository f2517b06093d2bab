"""GV930."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.computed_alike import DRAWS
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import (
    LOSSES_BY_SAMPLE,
    PARTS,
    SHAPE_ONLY,
    argument,
    calls_in_training,
    is_reduced_as_a_whole,
    reads_its_target,
    tensor_before,
)


class HeldOutInLoss(Rule):
    """The loss takes all rows, also those that a random mask keeps for the evaluation.

    What it finds
    -------------
    A loss of all rows of a target, at every step, or of batches into which a permutation of all rows is split, where
    the program scores some of these rows apart, by a mask or by numbers that were drawn at random before the training,
    one part of them and the others, and uses this draw for nothing that is trained.

    Why it matters
    --------------
    All nodes of a graph go through the network at once, so the loss must choose those that belong to the training.
    Where it does not, the test score is one of the training: it is too good, and says nothing of new data.

    Example
    -------
    x, y = torch.randn(60, 6), torch.randint(0, 3, (60,))
    train = torch.rand(60) < 0.5
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = model(x).argmax(1) == y
    print(right[train].float().mean(), right[~train].float().mean())

    Instead
    -------
    x, y = torch.randn(60, 6), torch.randint(0, 3, (60,))
    train = torch.rand(60) < 0.5
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        loss = torch.nn.functional.cross_entropy(model(x)[train], y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = model(x).argmax(1) == y
    print(right[train].float().mean(), right[~train].float().mean())
    """

    code = "GV930"
    name = "held_out_in_loss"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, LOSSES_BY_SAMPLE):
            targets = {_whole_target(flow, row) for row in rows}
            target = next(iter(targets))
            if len(targets) > 1 or target is None or len(rows) < _MIN_STEPS:
                continue
            found = None if reads_its_target(flow, rows[-1], target) else _scored_apart(case, target)
            if found is not None:
                yield self._finding(flow, rows[-1], found)

    def _finding(self, flow: Dataflow, row: int, found: _Scored) -> Finding:
        location, scored = two_lines(flow, row, found.row)
        part = f"{found.count} of these {found.of} rows are" if found.count else f"some of these {found.of} rows are"
        return self.finding(
            f"the loss takes all {found.of} rows, and {part} scored apart{at_line(scored)}, which were drawn at random "
            "and left out of nothing",
            symptom="grad_wrong",
            why="the draw that chooses them reaches no loss: what is scored as held-out is trained like the rest",
            fix="take the training part of the predictions and the targets in the loss: loss_fn(out[train], y[train])",
            location=location,
            symptom_location=scored,
            evidence={"scored": found.count, "rows": found.of},
        )


class _Scored(Struct, frozen=True):
    row: int
    """The call that takes the rows that are scored."""
    count: int
    of: int


_MIN_STEPS = 3
_WHOLE = SHAPE_ONLY - PARTS
_TAKES = frozenset({"getitem", "index_select", "masked_select", "take"})


def _whole_target(flow: Dataflow, row: int) -> int | None:
    """The tensor of which a loss takes all rows, or as many as a part of a permutation of all of them has."""
    call = flow.log.calls[row]
    given = argument(call, 1, "target")
    if given is None or given.requires_grad or not is_reduced_as_a_whole(flow, row):
        return None
    target = tensor_before(flow, given.tensor, row, _WHOLE)
    made = flow.newest_producer(target, row)
    if made is not None and _takes_by_permutation_of_all(flow, made):
        return tensor_before(flow, flow.log.calls[made].inputs[0].tensor, made, _WHOLE)
    return target


def _takes_by_permutation_of_all(flow: Dataflow, row: int) -> bool:
    """``y[idx]``, where ``for idx in torch.randperm(len(y)).split(32)`` goes through all rows."""
    call = flow.log.calls[row]
    if plain_name(call.function) not in _TAKES or len(call.inputs) != _BOTH:
        return False
    split = flow.newest_producer(call.inputs[1].tensor, row)
    if split is None or plain_name(flow.log.calls[split].function) not in _SPLITS:
        return False
    order = flow.log.calls[split].inputs[0].tensor
    made = flow.newest_producer(order, split)
    is_permutation = made is not None and plain_name(flow.log.calls[made].function) == "randperm"
    return is_permutation and shape_of(flow, order) == shape_of(flow, call.inputs[0].tensor)[:1]


_BOTH = 2
_SPLITS = frozenset({"split", "chunk", "tensor_split"})


def _scored_apart(case: Case, target: int) -> _Scored | None:
    """Rows of the target that are compared apart, where the draw that chose them has no influence on any loss."""
    flow = case.dataflow
    shape = shape_of(flow, target)
    above: set[int] | None = None
    for row, call in calls_named(flow, _TAKES):
        if len(call.inputs) != _BOTH or not _is_of_rows(flow, call.inputs[1].tensor, shape, row):
            continue
        if shape_of(flow, call.inputs[0].tensor)[:1] != shape[:1] or not _compares_target(flow, row, target):
            continue
        if above is None:
            above = _calls_of_losses(case)
        if row in above or not _is_drawn_for_nothing(flow, call.inputs[1].tensor, row, above):
            continue
        count = next(iter(shape_of(flow, call.outputs[0].tensor)), 0) if call.outputs else 0
        if count < shape[0]:
            return _Scored(row, count, shape[0])
    return None


def _calls_of_losses(case: Case) -> set[int]:
    """What computed the losses; a program may also train all rows once more, after it has chosen its settings. What
    came before the steps is followed for the last loss of each line."""
    flow, lasts = case.dataflow, set(case.histories.last_backward_of_each_line)
    return {
        each
        for row in case.histories.backward_calls
        for use in flow.log.calls[row].roots
        for each in flow.ancestors(use.tensor, row, since=0 if row in lasts else flow.step_before(row))
    }


def _is_of_rows(flow: Dataflow, index: int, shape: tuple[int, ...], row: int) -> bool:
    """Whether an index has a mark for each row of a tensor, or numbers of fewer rows."""
    facts = flow.log.tensors[index].facts
    if facts.dtype == "bool":
        return shape_of(flow, index) == shape[:1]
    size = shape_of(flow, index)
    return facts.dtype.startswith("int") and len(size) == 1 and bool(shape) and 1 < size[0] < shape[0]


def _compares_target(flow: Dataflow, row: int, target: int) -> bool:
    """Whether a call takes rows of the target, or of what says for each row whether it was right."""
    call = flow.log.calls[row]
    source = tensor_before(flow, call.inputs[0].tensor, row, _WHOLE)
    if source == target:
        return True
    made = flow.newest_producer(source, row)
    compared = None if made is None else flow.log.calls[made]
    is_equal = compared is not None and plain_name(compared.function) in ("eq", "sub")
    return is_equal and compared is not None and any(use.tensor == target for use in compared.inputs)


def _is_drawn_for_nothing(flow: Dataflow, index: int, row: int, above: set[int]) -> bool:
    """Whether an index is one part of a draw before the training, and no loss uses what was drawn or made of it."""
    made = flow.ancestors(index, row)
    draws = [each for each in made if plain_name(flow.log.calls[each].function) in DRAWS]
    steps = flow.rows_of_kind("step")
    if not draws or not above.isdisjoint(made) or draws[-1] > steps[0]:
        return False
    users = {
        each for draw in draws for use in flow.log.calls[draw].outputs for each in flow.descendants(use.tensor, draw)
    }
    return above.isdisjoint(users) and _is_parted(flow, draws, users)


def _is_parted(flow: Dataflow, draws: list[int], users: set[int]) -> bool:
    """Whether rows were drawn for two parts: some of them, and the others. One part alone may be a sample."""
    calls = flow.log.calls
    drawn = {use.tensor for row in draws for use in calls[row].outputs}
    taken = [row for row in users if calls[row].inputs and calls[row].inputs[0].tensor in drawn]
    bounds = {tuple(sorted(calls[row].scalars.items())) for row in taken if plain_name(calls[row].function) in _TAKES}
    is_split = any(plain_name(calls[row].function) in _SPLITS for row in taken)
    is_turned = any(plain_name(calls[row].function) in _COMPLEMENTS for row in users)
    compared = {
        (call.function, tuple(sorted(call.scalars.items())))
        for call in map(calls.__getitem__, taken)
        if plain_name(call.function) in _COMPARES
    }
    return is_turned or is_split or len(bounds) > 1 or len(compared) > 1


_COMPARES = frozenset({"lt", "le", "gt", "ge"})
_COMPLEMENTS = frozenset({"invert", "logical_not", "bitwise_not"})
