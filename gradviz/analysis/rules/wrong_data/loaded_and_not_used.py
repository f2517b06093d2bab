"""GV656."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, callers, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.unread_names import unread_name
from gradviz.graph.call_log import Call


class LoadedAndNotUsed(Rule):
    """A batch brings data that should change the loss, and nothing reads it.

    What it finds
    -------------
    A name that training code unpacks from a batch and never reads, where the tensor differs from sample to sample: ends
    of episodes (``done``, ``terminal``) where a reward and the discounted value of the next state are added up for all
    samples; ``lengths`` where a recurrent layer or an average over time gets padded sequences, and no mask is made of
    the tokens; ``weights`` of samples where a loss is averaged over all of them.

    Why it matters
    --------------
    The value of a state behind the end of an episode, padding, and the weights that a sampler hands out belong in the
    loss. Without them it is another one than was meant, and nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    states, rewards, ends = torch.randn(60, 4), torch.rand(60), (torch.rand(60) < 0.2).float()
    for step in range(4):
        i = torch.randint(0, 59, (16,))
        s, r, following, done = (each[i] for each in (states, rewards, states.roll(-1, 0), ends))
        with torch.no_grad():
            target = r + 0.9 * model(following).squeeze(1)
        loss = (model(s).squeeze(1) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    states, rewards, ends = torch.randn(60, 4), torch.rand(60), (torch.rand(60) < 0.2).float()
    for step in range(4):
        i = torch.randint(0, 59, (16,))
        s, r, following, done = (each[i] for each in (states, rewards, states.roll(-1, 0), ends))
        with torch.no_grad():
            target = r + 0.9 * (1 - done) * model(following).squeeze(1)
        loss = (model(s).squeeze(1) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV656"
    name = "loaded_and_not_used"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for name, tensors in _unused_data(flow).items():
            backward = next(
                (row for row in case.histories.backward_calls if row > _first_seen(flow, tensors[-1])), None
            )
            if len(tensors) < _MIN_STEPS or backward is None or not flow.has_step_after(backward):
                continue
            found = _place(flow, name, tensors[-1], backward)
            bound = None if found is None else _unpacked_at(case, name, backward)
            if found is not None and bound is not None:
                yield self._finding(case, name, bound, found)

    def _finding(self, case: Case, name: str, bound: Location, found: _Place) -> Finding:
        location = location_of_call(case.dataflow, found.row)
        return self.finding(
            f"each batch brings {name}, which differs from sample to sample, and nothing reads it: "
            f"{found.what}{at_line(location)}",
            symptom="grad_wrong",
            why=found.why,
            fix=found.fix,
            location=location,
            symptom_location=bound if bound != location else None,
            evidence={"name": name},
        )


_MIN_STEPS = 2
_MIN_SAMPLES = 4
_ENDS = re.compile(r"(is_|not_|non_?)?(dones?|terminals?|terminated|terminations?)(_\w+)?")
_LENGTHS = re.compile(r"(\w+_)?(lengths?|lens?)(_\w+)?")
_WEIGHTS = re.compile(r"(is_|iw_|sample_|importance_|batch_|per_)?weights?(_\w+)?")


class _Place(Struct, frozen=True):
    """The call that should take the data, with the words about it."""

    row: int
    what: str
    why: str
    fix: str


# -- data that nothing uses --------------------------------------------------------------------------------------------


def _unused_data(flow: Dataflow) -> dict[str, list[int]]:
    """By name: tensors with one number for each sample, not all the same, which no call uses."""
    found: dict[str, list[int]] = defaultdict(list)
    for number, tensor in enumerate(flow.log.tensors):
        name = next((each for each in tensor.names if _is_telling(each)), None)
        shape = shape_of(flow, number)
        is_column = len(shape) == 1 or (len(shape) == _OF_COLUMN and shape[1] == 1)
        if name is None or not is_column or shape[0] < _MIN_SAMPLES or tensor.requires_grad:
            continue
        values = flow.values(number, len(flow.log.calls))
        if values is not None and values.minimum != values.maximum and _is_unused(flow, number):
            found[name].append(number)
    return found


_OF_COLUMN = 2
_MOVES = frozenset({"to", "cuda", "cpu", "float", "long", "double", "bool", "int", "unsqueeze", "squeeze", "view"})


def _is_unused(flow: Dataflow, tensor: int) -> bool:
    """Whether no call uses it, other than to move it, whose result nothing uses either."""
    for user in flow.users(tensor):
        call = flow.log.calls[user]
        is_used = any(flow.users(use.tensor) for use in call.outputs if use.tensor != tensor)
        if plain_name(call.function) not in _MOVES or is_used:
            return False
    return True


def _is_telling(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in (_ENDS, _LENGTHS, _WEIGHTS))


def _first_seen(flow: Dataflow, tensor: int) -> int:
    return flow.log.tensors[tensor].first_seen or 0


def _unpacked_at(case: Case, name: str, backward: int) -> Location | None:
    """The line that unpacks a batch into a name that its function never reads."""
    flow = case.dataflow
    seen = set[tuple[str, str]]()
    for row in (backward, *range(flow.step_before(backward) + 1, backward)):
        for line in callers(flow, row):
            if (line.file, line.function) in seen:
                continue
            seen.add((line.file, line.function))
            number = unread_name(case.capture.sources.get(line.file, {}), line.line, name)
            if number is not None:
                return Location(line.file, number)
    return None


# -- where it should be used -------------------------------------------------------------------------------------------


def _place(flow: Dataflow, name: str, tensor: int, backward: int) -> _Place | None:
    rows = range(flow.step_before(backward) + 1, backward)
    size, values = shape_of(flow, tensor)[0], flow.values(tensor, backward)
    if _ENDS.fullmatch(name):
        return _value_of_next_states(flow, name, rows, size)
    if _LENGTHS.fullmatch(name):
        longest = None if values is None else values.maximum
        is_count = longest is not None and "int" in flow.log.tensors[tensor].facts.dtype
        return _padded(flow, rows, size, int(longest)) if is_count and longest else None
    is_weight = values is not None and values.minimum is not None and values.minimum >= 0
    return _average(flow, name, rows, size) if is_weight else None


def _value_of_next_states(flow: Dataflow, name: str, rows: range, size: int) -> _Place | None:
    for row in rows:
        call = flow.log.calls[row]
        if plain_name(call.function) != "add" or len(call.inputs) != _OF_COLUMN:
            continue
        is_of_batch = shape_of(flow, call.outputs[0].tensor)[:1] == (size,)
        pairs = (call.inputs, call.inputs[::-1])
        if is_of_batch and any(_is_discounted(flow, q.tensor, row) and not r.requires_grad for q, r in pairs):
            factor = name if name.startswith(("not", "non")) else f"(1 - {name})"
            return _Place(
                row,
                "the value of the next state is added for all of them",
                "behind the end of an episode there is no value: the targets of its last steps are too large",
                f"multiply the value of the next state by it: r + gamma * {factor} * next_value",
            )
    return None


def _is_discounted(flow: Dataflow, tensor: int, before: int) -> bool:
    """Whether it is what a model made, times a number somewhat below 1."""
    made = flow.newest_producer(tensor, before)
    call = None if made is None else flow.log.calls[made]
    if call is None or made is None or plain_name(call.function) != "mul" or len(call.inputs) != 1:
        return False
    factors = [value for value in call.scalars.values() if type(value) is float and _LEAST_DISCOUNT <= value < 1]
    above = flow.ancestors(tensor, before, flow.step_before(before)) if factors else ()
    uses = (use for row in above for use in flow.log.calls[row].inputs)
    return any(flow.log.tensors[use.tensor].role == "parameter" for use in uses)


_LEAST_DISCOUNT = 0.5
_RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
_TELL_PADDING = frozenset({"ne", "eq", "gt", "lt", "ge", "le", "masked_fill", "where", "_pack_padded_sequence"})


def _padded(flow: Dataflow, rows: range, size: int, longest: int) -> _Place | None:
    """What takes padding for data: the last step of a recurrent layer, or an average over time."""
    calls = [(row, flow.log.calls[row]) for row in rows]
    if any(plain_name(call.function) in _TELL_PADDING for _, call in calls):
        return None
    layer = next((row for row, call in calls if _is_over_padding(flow, call, size, longest)), None)
    if layer is None:
        return None
    outputs = {use.tensor for use in flow.log.calls[layer].outputs}
    last = (row for row, call in calls if row > layer and _takes_last(call) and call.inputs[0].tensor in outputs)
    return _Place(
        next(last, layer),
        "padded sequences are used up to the longest one",
        "the result of a shorter sequence is that of its padding",
        "pack the sequences: pack_padded_sequence(x, lengths, enforce_sorted=False), or take the step lengths - 1 of "
        "each, or mask what is behind it",
    )


def _is_over_padding(flow: Dataflow, call: Call, size: int, longest: int) -> bool:
    shape = shape_of(flow, call.inputs[0].tensor) if call.inputs and call.live_inputs else ()
    if len(shape) != _OF_SEQUENCES or size not in shape[:2] or max(shape[:2]) < longest:
        return False
    is_average = plain_name(call.function) == "mean" and axes_of(call, len(shape)) == [1]
    return plain_name(call.function) in _RECURRENT or is_average


_OF_SEQUENCES = 3


def _takes_last(call: Call) -> bool:
    return plain_name(call.function) == "getitem" and bool(call.inputs) and -1 in call.scalars.values()


_LOSSES = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
})  # fmt: skip


def _average(flow: Dataflow, name: str, rows: range, size: int) -> _Place | None:
    """The last average of a loss over all samples."""
    for row in reversed(rows):
        call = flow.log.calls[row]
        function = plain_name(call.function)
        is_loss = function in _LOSSES and call.scalars.get("reduction") == "mean"
        is_mean = function == "mean" and not axes_of(call, 1)
        if (is_loss or is_mean) and call.live_inputs and shape_of(flow, call.inputs[0].tensor)[:1] == (size,):
            return _Place(
                row,
                "the loss is averaged with the same weight for each",
                "a sampler that prefers some samples hands out weights so that the gradient is still that of all data",
                "multiply the loss of each sample by it before the average: "
                f'({name} * f(..., reduction="none")).mean()',
            )
    return None
