"""GV694."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS, time_axis
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.reads_of_results import index_of_read, reads_for_loss
from gradviz.analysis.rules.bases.sequences.attention.weights_of_positions import unmasked_weights
from gradviz.analysis.rules.bases.sequences.padded_data import PaddedData, padded_batches
from gradviz.analysis.rules.bases.sequences.padded_ids import (
    LOOKUPS,
    MOST_READ,
    in_words,
    is_meant_to_pad,
    same_padding,
)
from gradviz.analysis.rules.bases.sequences.positions.position_means import averages_bag, averages_positions
from gradviz.graph.call_log import Call, Padding


class PaddingInSummary(Rule):
    """What stands for a whole sequence was also computed from the ids that only pad it.

    What it finds
    -------------
    The mean over the positions of embeddings, that of ``nn.EmbeddingBag`` or of what was computed from them, their sum
    with weights of a softmax over the positions, the last state of ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN``
    (``out[:, -1]``, ``h_n``), and the last position of a transformer (``h[:, -1]``), where the ids of a batch end with
    runs of one id of different lengths that stands nowhere else, and nothing leaves these positions out. The last state
    also of data that ``pad_sequence()`` has filled up, or that were assigned to the rows of a tensor of zeros.

    Why it matters
    --------------
    The result depends on how much longer the longest sequence of the batch is. A mean over padding gets smaller with
    it, and a recurrent layer forgets what it has read while it goes on over the padding.

    Example
    -------
    embed, head = torch.nn.Embedding(20, 8, padding_idx=0), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        real = torch.arange(9) < torch.randint(2, 9, (16, 1))
        ids = torch.randint(1, 20, (16, 9)) * real
        h = embed(ids).mean(dim=1)
        loss = torch.nn.functional.cross_entropy(head(h), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, head = torch.nn.Embedding(20, 8, padding_idx=0), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        real = torch.arange(9) < torch.randint(2, 9, (16, 1))
        ids = torch.randint(1, 20, (16, 9)) * real
        mask = (ids != 0).unsqueeze(-1)
        h = (embed(ids) * mask).sum(dim=1) / mask.sum(dim=1)
        loss = torch.nn.functional.cross_entropy(head(h), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV694"
    name = "padding_in_summary"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        lookups: dict[int | None, list[int]] = defaultdict(list)
        for row, call in calls_named(flow, LOOKUPS):
            if call.live_inputs and flow.has_step_after(row):
                lookups[call.call_site].append(row)
        for rows in lookups.values():
            ids = same_padding([_padding_of(flow.log.calls[row]) for row in rows[:MOST_READ]])
            if ids is None or not is_meant_to_pad(case, ids.value):
                continue
            for end in _ends(case, rows[0], ids):
                if flow.log.calls[end.row].call_site not in told:
                    told.add(flow.log.calls[end.row].call_site)
                    evidence = {"padding": ids.value, "padded": ids.count, "positions": ids.of}
                    yield self._finding(case, end, in_words(ids), evidence)
        for batch in padded_batches(flow):
            for end in _states_after_data(case, batch):
                if flow.log.calls[end.row].call_site not in told:
                    told.add(flow.log.calls[end.row].call_site)
                    words = f"{batch.padded:,} of the {batch.positions:,} positions of a batch fill up sequences"
                    words += at_line(location_of_call(flow, batch.row))
                    evidence = {"padded": batch.padded, "positions": batch.positions}
                    yield self._finding(case, end, words, evidence)

    def _finding(self, case: Case, end: _End, padding: str, evidence: dict[str, int]) -> Finding:
        flow = case.dataflow
        location, other = location_of_call(flow, end.row), location_of_call(flow, end.other)
        return self.finding(
            f"{end.what} padding: {padding}",
            symptom="grad_wrong",
            why="it depends on how long the other sequences of the batch are, and what belongs to short ones gets less "
            "of the gradient",
            fix=end.fix,
            location=location,
            symptom_location=other if other != location else None,
            evidence=evidence,
        )


class _End(Struct, frozen=True):
    """A call that makes one result of a whole sequence."""

    row: int
    other: int
    """The call that made what it takes, or that takes what it made."""
    what: str
    fix: str


_MASKED_MEAN = "leave the padding out: mask = (ids != {0}).unsqueeze(-1); (h * mask).sum(1) / mask.sum(1).clamp(min=1)"
_MASKED_SCORES = (
    "hide the padding before the softmax: scores.masked_fill(ids == {0}, float('-inf')); or give the attention a mask"
)
_PACKED = (
    "pack the embeddings before the layer: nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, "
    "enforce_sorted=False), and take h_n; or take the output at lengths - 1"
)
_LAST_REAL = (
    "read the last real position of each sequence, h[torch.arange(len(h)), lengths - 1], or pad at the beginning"
)
_PADDING_OF_BAG = "leave the padding out: nn.EmbeddingBag(..., padding_idx={0})"
_MAX_FOLLOWED = 40
_AXES = 3
_KEEP = frozenset({
    "dropout", "relu", "gelu", "tanh", "sigmoid", "silu", "elu", "leaky_relu", "layer_norm", "add", "mul", "to",
    "float", "contiguous", "clone", "linear", "rms_norm", "div",
})  # fmt: skip


def _padding_of(call: Call) -> Padding | None:
    return next(iter(call.padding.values()), None)


def _ends(case: Case, row: int, ids: Padding) -> Iterator[_End]:
    """What makes one result of each of the sequences that a lookup takes."""
    flow = case.dataflow
    if plain_name(flow.log.calls[row].function) == "embedding_bag":
        if averages_bag(flow, row):
            yield _End(row, row, "the mean over each row of ids also counts", _PADDING_OF_BAG.format(ids.value))
        return

    def ends_at(user: int, tensor: int, axis: int) -> _End | None:
        if averages_positions(flow, user, tensor, axis):
            return _End(user, row, "this mean over the positions also counts", _MASKED_MEAN.format(ids.value))
        if (softmax := unmasked_weights(flow, user, tensor, axis)) is not None:
            return _End(softmax, user, "these weights of the positions also count", _MASKED_SCORES.format(ids.value))
        read = _read_of_last(case, user, tensor, axis) if ids.is_at_end and flow.log.calls[user].outputs else None
        return (
            None if read is None else _End(read, row, "the last position, which this line reads, is often", _LAST_REAL)
        )

    start = flow.log.calls[row].outputs[0].tensor, row, int(ids.axis)
    yield from _ends_below(case, start, ends_at, lambda _: ids.is_at_end)


def _states_after_data(case: Case, batch: PaddedData) -> Iterator[_End]:
    """The last states of recurrent layers that read padded data. Means are left alone: sounds that are filled up with
    silence are averaged like this on purpose."""
    start = batch.tensor, batch.row, batch.axis
    yield from _ends_below(case, start, lambda *_: None, case.dataflow.has_step_after)


def _ends_below(
    case: Case,
    start: tuple[int, int, int],
    ends_at: Callable[[int, int, int], _End | None],
    reads_states: Callable[[int], bool],
) -> Iterator[_End]:
    """What makes one result of each sequence, below a tensor: the last states of recurrent layers, and others.

    Args:
        start: the tensor, the call behind which it is used, and the axis of its positions.
        ends_at: for a call, the tensor that it takes and the axis of the positions, whether it is such an end.
        reads_states: whether the last states of a recurrent call count.
    """
    flow = case.dataflow
    waiting, seen = [start], set[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, after, axis = waiting.pop()
        if tensor in seen or len(shape_of(flow, tensor)) != _AXES:
            continue
        seen.add(tensor)
        for user in flow.users(tensor, after):
            call = flow.log.calls[user]
            is_layer = plain_name(call.function) in RECURRENT_LAYERS and call.inputs[0].tensor == tensor
            if is_layer and axis == time_axis(call):
                if reads_states(user):
                    yield from _last_states(case, user)
                waiting.append((call.outputs[0].tensor, user, axis))
            elif (end := ends_at(user, tensor, axis)) is not None:
                yield end
            elif call.outputs and (moved := _moved(flow, call, tensor, axis)) is not None:
                waiting.append((call.outputs[0].tensor, user, moved))


def _moved(flow: Dataflow, call: Call, tensor: int, axis: int) -> int | None:
    """The axis of the positions in what a call makes of each position; None if it does something else."""
    name, given, made = (
        plain_name(call.function),
        shape_of(flow, tensor),
        shape_of(flow, call.outputs[0].tensor),
    )
    if name in ("transpose", "swapaxes"):
        order = [0, 1, 2]
        one, other = (call.scalars.get(place) for place in ("1", "2"))
        if type(one) is int and type(other) is int:
            order[one], order[other] = order[other], order[one]
        return order.index(axis)
    if name == "mT":
        return (0, 2, 1)[axis]
    if name == "permute":
        axes = [value % _AXES for _, value in sorted(call.scalars.items()) if type(value) is int]
        return axes.index(axis) if len(axes) == _AXES else None
    if name == "conv1d" and call.inputs[0].tensor == tensor:
        return axis if axis == _AXES - 1 else None
    is_kept = name in _KEEP and len(made) == _AXES and made[:2] == given[:2] and (axis != _AXES - 1 or made == given)
    return axis if is_kept and not _may_hide(call, name) else None


def _read_of_last(case: Case, row: int, tensor: int, axis: int) -> int | None:
    """The call that picks the last position for the loss; of one number for each position, behind a change of shape."""
    flow = case.dataflow
    call, last = flow.log.calls[row], (axis, shape_of(flow, tensor)[axis] - 1)
    if not call.outputs[0].requires_grad:
        return None
    made = call.outputs[0].tensor
    is_number = shape_of(flow, tensor)[-1] == 1 and shape_of(flow, made) == shape_of(flow, tensor)[:-1]
    readers = flow.users(made, row) if is_number else (row,)
    for reader in readers:
        picked = flow.log.calls[reader].outputs
        if not picked or not picked[0].requires_grad or index_of_read(flow, reader) != last:
            continue
        if _reads_others(flow, reader):
            continue
        until = case.histories.backward_after(reader)
        if until is not None and until in flow.descendants(picked[0].tensor, reader, until + 1, live=True):
            return reader
    return None


def _reads_others(flow: Dataflow, reader: int) -> bool:
    """Whether the line reads other positions as well, as a loop over all of them does, which may leave some out."""
    call = flow.log.calls[reader]
    users = flow.users(call.inputs[0].tensor)
    read = {index_of_read(flow, each) for each in users if flow.log.calls[each].call_site == call.call_site}
    return len(read) > 1


def _may_hide(call: Call, name: str) -> bool:
    """Whether a call multiplies with something that may be a mask."""
    return name in ("mul", "div") and any(not use.requires_grad for use in call.inputs)


def _last_states(case: Case, row: int) -> Iterator[_End]:
    """The reads of the last state of a recurrent layer."""
    flow = case.dataflow
    call = flow.log.calls[row]
    kind, time = plain_name(call.function).partition("_")[0].upper(), time_axis(call)
    last = shape_of(flow, call.outputs[0].tensor)[time or 0] - 1
    for use, user in reads_for_loss(case, row, call):
        if use.place == "return[0]":
            if index_of_read(flow, user) == (time, last):
                yield _End(user, row, f"the last result of the {kind} comes after the", _PACKED)
        else:
            yield _End(row, user, f"the last state of the {kind} comes after the", _PACKED)
            return
