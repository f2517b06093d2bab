"""GV646."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.batch_lines import (
    DRAWS,
    BatchMaker,
    is_drawn_anew,
    line_of_batch,
    maker_of_batch,
)
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training
from gradviz.analysis.rules.bases.losses.targets.targets_of_classes import BINARY, OF_CLASSES, class_targets


class BatchesOfOneClass(Rule):
    """Each batch has samples of one class only, because sorted data is not shuffled.

    What it finds
    -------------
    A loss with classes as targets (``cross_entropy``, ``nll_loss``, a binary cross entropy, the probability of each
    target by an index or ``gather()``, one-hot targets) where all targets of a batch are the same in at least two of
    three steps, while they are others in other steps. Targets that the program makes as constants, as those of a
    discriminator are, that a model computes, that a mask selects by their class, and shuffled data are left alone.

    Why it matters
    --------------
    Each step makes the class of its batch more probable for all inputs, and the next step takes that back. The model
    learns which class came last; statistics of a normalization over the batch are those of one class.

    Example
    -------
    centers = torch.randn(3, 4)
    y = torch.arange(3).repeat_interleave(32)
    x = centers[y] + 0.1 * torch.randn(96, 4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    centers = torch.randn(3, 4)
    y = torch.arange(3).repeat_interleave(32)
    x = centers[y] + 0.1 * torch.randn(96, 4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16, shuffle=True)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV646"
    name = "batches_of_one_class"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, _TAKE_CLASSES):
            batches = [batch for row in rows if (batch := _batch(flow, row)) is not None]
            of_one = [batch for batch in batches if batch.class_ is not None]
            if len(of_one) < max(_MIN_STEPS, _MIN_SHARE * len(batches)) or not _are_sorted(flow, of_one):
                continue
            last = next((each for each in reversed(of_one) if maker_of_batch(case, each.targets, each.row)), of_one[-1])
            made = maker_of_batch(case, last.targets, last.row)
            if not _is_meant(case, last, made):
                yield self._finding(case, batches, of_one, last, made)

    def _finding(
        self, case: Case, batches: list[_Batch], of_one: list[_Batch], last: _Batch, made: BatchMaker | None
    ) -> Finding:
        classes = len({batch.class_ for batch in of_one})
        location, loss = line_of_batch(case, last.targets, last.row), location_of_call(case.dataflow, last.row)
        is_loaded = bool(case.dataflow.log.loaders) and (made is None or made.taken is not None)
        steps = "each step" if len(of_one) == len(batches) else f"{len(of_one):,} of {len(batches):,} steps"
        return self.finding(
            f"in {steps} all {last.size:,} targets of the batch are one class, and {classes} classes take turns: the "
            "data is sorted and not shuffled",
            symptom="grad_wrong",
            why="each step makes one class more probable for all inputs, and the next ones take that back",
            fix="shuffle the samples: DataLoader(..., shuffle=True)"
            if is_loaded
            else "take the samples in a new random order in each epoch: order = torch.randperm(len(y)), and index "
            "inputs and targets with parts of it",
            location=location or loss,
            symptom_location=loss if location is not None and loss != location else None,
            evidence={"steps": len(batches), "of_one_class": len(of_one), "classes": classes, "batch": last.size},
        )


_MIN_STEPS = 4
_MIN_SHARE = 2 / 3
_MIN_TARGETS = 4
_MIN_OTHERS = 2
"""Batches of another class than the most frequent one: those of frequent classes may be of one by chance."""
_TAKE_CLASSES = OF_CLASSES | BINARY | {"gather", "getitem", "mul", "mse_loss"}


class _Batch(Struct, frozen=True):
    """The targets of one call."""

    row: int
    targets: int
    size: int
    class_: float | None
    """That of all targets; None if they are several."""


def _batch(flow: Dataflow, row: int) -> _Batch | None:
    call = flow.log.calls[row]
    targets = class_targets(flow, row, call)
    values = None if targets is None else flow.values_of(targets, row)
    if targets is None or values is None or values.count < _MIN_TARGETS or values.minimum is None:
        return None
    shape = shape_of(flow, targets.tensor)
    if not shape or shape[0] != values.count or values.minimum == call.scalars.get("ignore_index"):
        return None
    return _Batch(row, targets.tensor, values.count, values.minimum if values.minimum == values.maximum else None)


def _are_sorted(flow: Dataflow, batches: list[_Batch]) -> bool:
    """Whether several classes take turns from step to step; two in one step, or by turns, are those of a game."""
    counts = Counter(batch.class_ for batch in batches)
    if len(batches) - max(counts.values()) < _MIN_OTHERS:
        return False
    by_step: dict[int, float | None] = {}
    if any(by_step.setdefault(flow.step_before(batch.row), batch.class_) != batch.class_ for batch in batches):
        return False
    order = [batch.class_ for batch in batches]
    return len(counts) > 2 or any(one == other for one, other in pairwise(order))


# -- targets that are meant to be one class ----------------------------------------------------------------------------

_CONSTANTS = frozenset({
    "ones", "zeros", "full", "ones_like", "zeros_like", "full_like", "new_ones", "new_zeros", "new_full", "fill",
    "zero", "expand", "expand_as", "repeat", "empty", "argmax", "tile", "eq",
})  # fmt: skip
_MAX_SELECTIONS = 10
_SELECT = frozenset({"getitem", "index_select", "masked_select", "take", "gather"})


def _is_meant(case: Case, batch: _Batch, made: BatchMaker | None) -> bool:
    """Whether the program made a batch of one class on purpose, or its samples are in a random order already."""
    flow = case.dataflow
    loaders = flow.log.loaders
    has_order = any(loader.is_in_order for loader in loaders)
    if made is None:
        return bool(loaders) and not has_order
    if made.taken is not None:
        return not has_order or is_drawn_anew(case, made.taken)
    name = plain_name(made.call.function)
    return name in _CONSTANTS or _is_selected(flow, batch) or _is_computed(flow, batch)


def _is_selected(flow: Dataflow, batch: _Batch) -> bool:
    """Whether a mask or a drawn index took the samples."""
    for row, call in flow.makers(batch.targets, batch.row, _MAX_SELECTIONS):
        if plain_name(call.function) not in _SELECT or len(call.inputs) < _WITH_INDEX:
            continue
        index = call.inputs[1].tensor
        if flow.log.tensors[index].facts.dtype == "bool":
            return True
        names = {plain_name(maker.function) for _, maker in flow.makers(index, row, _MAX_SELECTIONS)}
        if "nonzero" in names or "where" in names or (names & DRAWS and "argsort" not in names and "sort" not in names):
            return True
    return False


_WITH_INDEX = 2


def _is_computed(flow: Dataflow, batch: _Batch) -> bool:
    """Whether a model made the targets."""
    above = flow.ancestors(batch.targets, batch.row, flow.step_before(batch.row))
    uses = (use for row in above for use in flow.log.calls[row].inputs)
    return any(flow.log.tensors[use.tensor].role == "parameter" for use in uses)
