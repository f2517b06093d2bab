"""GV616."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import at_line, is_in_library, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_layer
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import argument, calls_in_training, is_reduced_as_a_whole
from gradviz.analysis.rules.bases.losses.targets.picked_padding import picked_with_padding
from gradviz.analysis.rules.bases.sequences.padded_ids import MOST_READ, in_words, is_meant_to_pad, same_padding
from gradviz.analysis.rules.bases.sequences.whole_means import WholeMean, average_of_whole, means_of_unpacked
from gradviz.graph.call_log import IGNORED_CLASS, Call, Padding


class PaddingInLoss(Rule):
    """A loss counts the positions that only pad sequences of different lengths.

    What it finds
    -------------
    ``cross_entropy``, ``nll_loss`` and element-by-element losses that average over, or sum, a target from
    ``pad_sequence()`` in which sequences were padded, where ``ignore_index`` is not the value of the padding; the same
    by hand, and of all positions that ``pad_packed_sequence()`` returns; log-probabilities of ids that are added up
    with those of the padding, also behind a mask that is the same for all sequences; and
    ``cross_entropy`` of classes that end, or begin, with runs of one id of different lengths, which stands nowhere else
    and also pads the ids that the model gets.

    Why it matters
    --------------
    The model is trained to predict the padding, which is easy and often most of the batch. The loss looks good, and the
    real positions get only a part of the gradient.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        labels = [torch.randint(1, 3, (length,)) for length in (2, 5, 3)]
        target = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=0)
        scores = model(torch.randn(3, 5, 4))
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        labels = [torch.randint(1, 3, (length,)) for length in (2, 5, 3)]
        target = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
        scores = model(torch.randn(3, 5, 4))
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV616"
    name = "padding_in_loss"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[int | None] = set()
        wholes = list(means_of_unpacked(flow))
        unpacked = {flow.log.calls[whole.row].call_site for whole in wholes}
        for row, call in enumerate(flow.log.calls):
            name = plain_name(call.function)
            is_by_hand = name in _BY_HAND and len(call.inputs) > 1 and len(call.live_inputs) == 1
            if name not in _WITH_CLASSES | _BY_ELEMENT and not is_by_hand:
                continue
            if call.scalars.get("reduction", "mean") == "none" or call.call_site in told or len(call.inputs) < 2:
                continue
            target = call.inputs[1] if not is_by_hand else next(use for use in call.inputs if not use.requires_grad)
            if not (is_by_hand or call.inputs[0].requires_grad):
                continue
            padding = _padding_of(case, row, target.tensor)
            if padding is not None and is_by_hand:
                result = shape_of(flow, flow.log.calls[padding].outputs[0].tensor)
                end = average_of_whole(
                    flow, row, _without_first(flow, target.tensor, result), _padded(flow, padding)[0]
                )
                # What is told of the average below is not told twice.
                is_told = end is None or flow.log.calls[end].call_site in unpacked
                padding = None if is_told else padding
            if padding is None or not flow.has_step_after(row):
                continue
            value = _padding_value(flow.log.calls[padding])
            if name in _WITH_CLASSES and call.scalars.get("ignore_index", IGNORED_CLASS) == value:
                continue
            told.add(call.call_site)
            yield self._finding(case, row, padding, value)
        for row, ids in _padded_targets(case):
            if flow.log.calls[row].call_site not in told:
                told.add(flow.log.calls[row].call_site)
                yield self._finding_of_ids(case, row, ids)
        for row, ids in picked_with_padding(case):
            if flow.log.calls[row].call_site not in told:
                told.add(flow.log.calls[row].call_site)
                yield self._finding_of_picked(case, row, ids)
        for whole in wholes:
            if flow.log.calls[whole.row].call_site not in told:
                told.add(flow.log.calls[whole.row].call_site)
                yield self._of_unpacked(case, whole)

    def _of_unpacked(self, case: Case, whole: WholeMean) -> Finding:
        flow = case.dataflow
        name, padded = plain_name(flow.log.calls[whole.row].function), location_of_call(flow, whole.padded)
        return self.finding(
            f"{name}() counts the positions that pad_packed_sequence(){at_line(padded)} added: {whole.count:,} of "
            f"{whole.of:,} positions of the first batch",
            symptom="grad_wrong",
            why="the model learns to predict the padding, and the positions that matter get less of the gradient",
            fix="average over the positions below the lengths only: loss[torch.arange(T) < lengths[:, None]].mean()",
            location=location_of_call(flow, whole.row),
            symptom_location=padded,
            evidence={"padded": whole.count, "positions": whole.of},
        )

    def _finding_of_ids(self, case: Case, row: int, ids: Padding) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        name, used = plain_name(call.function), location_of_call(flow, row)
        is_layer = call.scope is not None and flow.log.scopes[call.scope].class_name in _LAYERS
        labels = _line_of_labels(flow, row) or _line_beside_ignored(flow, row)
        location = labels or (location_of_line(line_of_layer(flow, row)) if is_layer else used)
        return self.finding(
            f"{name}() counts the padding of its targets: {in_words(ids)}, and ignore_index is "
            f"{call.scalars.get('ignore_index', IGNORED_CLASS)}",
            symptom="grad_wrong",
            why="the model learns to predict the padding, and the positions that matter get less of the gradient",
            fix=f"set the labels of the padding to {call.scalars.get('ignore_index', IGNORED_CLASS)}"
            if labels is not None
            else f"pass ignore_index={ids.value}",
            location=location,
            symptom_location=used if used != location else None,
            evidence={"padding": ids.value, "padded": ids.count, "positions": ids.of},
        )

    def _finding_of_picked(self, case: Case, row: int, ids: Padding) -> Finding:
        flow = case.dataflow
        mask, picked = _mask_behind(flow, row), location_of_call(flow, row)
        location = picked if mask is None else location_of_call(flow, mask)
        return self.finding(
            f"{plain_name(flow.log.calls[row].function)}() also picks what the model gives to the padding, and that "
            f"counts in the sum: {in_words(ids)}"
            + ("" if mask is None else ", and the mask hides fewer positions than that"),
            symptom="grad_wrong",
            why="how likely a sequence is then depends on how much longer another one of its batch is",
            fix=f"multiply by a mask that is also zero where the ids only pad: labels != {ids.value}",
            location=location,
            symptom_location=picked if picked != location else None,
            evidence={"padding": ids.value, "padded": ids.count, "positions": ids.of},
        )

    def _finding(self, case: Case, row: int, padding: int, value: float) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        name, padded = plain_name(call.function), location_of_call(flow, padding)
        added, count = _padded(flow, padding)
        mask = _mask_behind(flow, row) if name in _PICKS else None
        location = location_of_call(flow, row) if mask is None else location_of_call(flow, mask)
        return self.finding(
            f"{name}() counts the padding that pad_sequence(){at_line(padded)} added: {added:,} of {count:,} "
            "positions of the first batch",
            symptom="grad_wrong",
            why="the model learns to predict the padding, and the positions that matter get less of the gradient",
            fix=f"pass ignore_index={int(value)} to {name}(), or pad the target with {IGNORED_CLASS}"
            if name in _WITH_CLASSES
            else "multiply by a mask that is also zero where the targets only pad: targets != padding_value"
            if name in _PICKS
            else f'use {name}(..., reduction="none"), and average over the mask of the real positions',
            location=location,
            symptom_location=padded,
            evidence={"padding": value, "padded": added, "positions": count},
        )


_LAYERS = ("CrossEntropyLoss", "NLLLoss")
_WITH_CLASSES = frozenset({"cross_entropy", "nll_loss"})
_BY_ELEMENT = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"})
_BY_HAND = frozenset({"sub", "gather", "take_along_dim"})
_PICKS = frozenset({"gather", "take_along_dim"})
_SHAPE_ONLY = frozenset({
    "view", "reshape", "flatten", "getitem", "transpose", "permute", "contiguous", "squeeze", "unsqueeze", "to", "t",
    "T", "float", "long",
})  # fmt: skip
_MAX_SHAPING = 8


def _padding_of(case: Case, row: int, tensor: int) -> int | None:
    """The call of ``pad_sequence()`` that made a target from sequences of different lengths, if nothing but its shape
    was changed since."""
    flow = case.dataflow
    for maker, call in flow.makers(tensor, row, _MAX_SHAPING):
        if plain_name(call.function) == "pad_sequence":
            lengths = {shape_of(flow, use.tensor)[:1] for use in call.inputs}
            return maker if len(lengths) > 1 else None
        if plain_name(call.function) not in _SHAPE_ONLY:
            return None
    return None


def _padded(flow: Dataflow, padding: int) -> tuple[int, int]:
    """How many positions ``pad_sequence()`` added, and of how many."""
    lengths = [shape_of(flow, use.tensor)[0] for use in flow.log.calls[padding].inputs]
    count = len(lengths) * max(lengths)
    return count - sum(lengths), count


def _without_first(flow: Dataflow, target: int, padded: Shape) -> Shape:
    """The shape of padded sequences; that of the target, if one position of each was left out to shift them."""
    shape = shape_of(flow, target)
    is_shifted = len(shape) > 1 < len(padded) and shape[0] == padded[0] and shape[1] == padded[1] - 1
    return shape if is_shifted else padded


def _mask_behind(flow: Dataflow, row: int) -> int | None:
    """The call that first made what the picked values are multiplied by."""
    for _ in range(_MAX_SHAPING):
        tensor = flow.log.calls[row].outputs[0].tensor
        row = next(iter(flow.users(tensor, row)), -1)
        call = flow.log.calls[row] if row >= 0 else None
        if call is None or not call.outputs:
            return None
        if plain_name(call.function) == "mul":
            other = next((use.tensor for use in call.inputs if not use.requires_grad), None)
            return None if other is None else flow.first_producer(other, row)
        if plain_name(call.function) not in _SHAPE_ONLY:
            return None
    return None


def _line_of_labels(flow: Dataflow, row: int) -> Location | None:
    """Where a library computes the loss: the last line of the program that made its targets."""
    makers = flow.makers(flow.log.calls[row].inputs[1].tensor, row, _MAX_SHAPING) if is_in_library(flow, row) else ()
    return next((location_of_call(flow, maker) for maker, _ in makers if not is_in_library(flow, maker)), None)


def _line_beside_ignored(flow: Dataflow, row: int) -> Location | None:
    """Where some targets are ignored already, and others only pad: the line that made the targets. Another
    ``ignore_index`` would be no help."""
    call = flow.log.calls[row]
    tensor, before, values = call.inputs[1].tensor, row, flow.values_of(call.inputs[1], row)
    ignored = call.scalars.get("ignore_index", IGNORED_CLASS)
    if values is None or values.minimum is None or values.minimum != ignored or values.minimum >= 0:
        return None
    for _ in range(_MAX_SHAPING):
        made = flow.first_producer(tensor, before)
        if made is None:
            return None
        maker = flow.log.calls[made]
        if plain_name(maker.function) not in _SHAPE_ONLY or not maker.inputs:
            return location_of_call(flow, made)
        tensor, before = maker.inputs[0].tensor, made
    return None


def _padding_value(call: Call) -> float:
    value = call.scalars.get("2", call.scalars.get("padding_value", 0.0))
    return value if isinstance(value, int | float) else 0.0


# -- classes with runs of one id ---------------------------------------------------------------------------------------


def _padded_targets(case: Case) -> Iterator[tuple[int, Padding]]:
    """The first call of each line that counts targets which only pad, in all that were looked at."""
    flow = case.dataflow
    for rows in calls_in_training(flow, _WITH_CLASSES):
        call = flow.log.calls[rows[0]]
        ids = same_padding([_padding_of_targets(flow.log.calls[row]) for row in rows[:MOST_READ]])
        if ids is None or call.scalars.get("ignore_index", IGNORED_CLASS) == ids.value:
            continue
        is_counted = is_reduced_as_a_whole(flow, rows[0]) and not _weighs_nothing(flow, rows[0], call)
        if is_counted and is_meant_to_pad(case, ids.value):
            yield rows[0], ids


def _padding_of_targets(call: Call) -> Padding | None:
    target = argument(call, 1, "target")
    return None if target is None else call.padding.get(target.place)


def _weighs_nothing(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether some class has a weight of zero."""
    weight = argument(call, 2, "weight")
    values = None if weight is None else flow.values_of(weight, row)
    return weight is not None and (values is None or values.zeros > 0)
