"""GV626."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training
from gradviz.analysis.rules.bases.sequences.copied_inputs import REGRESSIONS, is_named_noisy, noisy_target, same_part
from gradviz.analysis.rules.bases.sequences.part_of_inputs import TargetRead, target_read
from gradviz.analysis.rules.bases.sequences.shifted_tokens import part_of
from gradviz.analysis.rules.bases.sequences.stacked_windows import stacked_target_read
from gradviz.graph.call_log import Call


class TargetsAreInputs(Rule):
    """A model is asked for what it was just given.

    What it finds
    -------------
    A loss of classes whose targets are, at every position and in every step, the numbers that the model looked up in
    its embedding, where the model goes through a sequence in one direction (a causal mask, a recurrent layer) and each
    position of the result has a path from the same position of the input. Also scores that lose their first positions
    where the targets lose their last ones. Also regressions: of a recurrent layer that reads ``x[:, :-1]`` and is asked
    for ``x[:, :-1]``, of a model that gets data with added noise and is asked for that noisy data, and of a model that
    reads a window whose last values are its target.

    Why it matters
    --------------
    The model only has to copy its input. The loss falls to nothing, and nothing is learned about what comes next: the
    targets of a language model are its inputs shifted by one position.

    Example
    -------
    stream = torch.randint(0, 9, (200,))
    embed, layer, head = torch.nn.Embedding(9, 8), torch.nn.GRU(8, 8, batch_first=True), torch.nn.Linear(8, 9)
    parameters = [*embed.parameters(), *layer.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(3):
        start = torch.randint(0, 180, (4,)).tolist()
        x = torch.stack([stream[i : i + 6] for i in start])
        y = torch.stack([stream[i : i + 6] for i in start])
        logits = head(layer(embed(x))[0])
        loss = torch.nn.functional.cross_entropy(logits.view(-1, 9), y.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    stream = torch.randint(0, 9, (200,))
    embed, layer, head = torch.nn.Embedding(9, 8), torch.nn.GRU(8, 8, batch_first=True), torch.nn.Linear(8, 9)
    parameters = [*embed.parameters(), *layer.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(3):
        start = torch.randint(0, 180, (4,)).tolist()
        x = torch.stack([stream[i : i + 6] for i in start])
        y = torch.stack([stream[i + 1 : i + 7] for i in start])
        logits = head(layer(embed(x))[0])
        loss = torch.nn.functional.cross_entropy(logits.view(-1, 9), y.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV626"
    name = "targets_are_inputs"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[int]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            is_loss = plain_name(call.function) in _LOSSES and len(call.inputs) > 1
            if is_loss and call.inputs[0].requires_grad and flow.has_step_after(row):
                lines[call.call_site].append(row)
        for rows in lines.values():
            steps = {flow.step_before(row) for row in rows}
            read = [_lookup_of_earlier_target(case, row) for row in rows]
            if len(steps) >= _MIN_STEPS and all(each is not None for each in read):
                yield self._turned_around(case, rows[-1], read[-1] or 0)
                continue
            if len(steps) < _MIN_STEPS or not all(_checksum_of_target(flow.log.calls[row]) for row in rows):
                continue
            found = [_lookups_of_the_target(case, row) for row in rows]
            copied = (each for each in found[-1] if all(found) and _copies(case, rows[-1], each))
            if (last := next(copied, None)) is not None:
                yield self._finding(case, rows, last)
        yield from self._of_regressions(case)

    def _of_regressions(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, REGRESSIONS):
            last = rows[-_EXAMINED:]
            if len({flow.step_before(row) for row in rows}) < _MIN_STEPS:
                continue
            noisy = [noisy_target(case, row) for row in last]
            same = [same_part(flow, row) for row in last]
            is_named = any(is_named_noisy(flow, row) for row in rows if len(flow.log.calls[row].inputs) > 1)
            if is_named and noisy[-1] is not None and all(each is not None for each in noisy):
                yield self._noisy(case, last[-1], noisy[-1])
            elif same[-1] is not None and all(each is not None for each in same):
                yield self._same_part(case, last[-1], same[-1])
            else:
                made = [row for row in rows if _is_made(flow, row)]  # loading data is only noted now and then
                read = [target_read(flow, row) or stacked_target_read(flow, row) for row in made[-_EXAMINED:] or last]
                if read[-1] is not None and all(each is not None for each in read):
                    yield self._read_before(case, read[-1])

    def _read_before(self, case: Case, found: TargetRead) -> Finding:
        flow = case.dataflow
        location, read = two_lines(flow, found.cut, found.read)
        return self.finding(
            f"the target of the loss is the end of the window of {found.length:,} values that the model reads",
            symptom="grad_wrong",
            why="the model only has to copy the last value that it gets, and learns nothing about what follows",
            fix="end the inputs before the target: inputs x[:, :-1], target x[:, -1]",
            location=location,
            symptom_location=read,
            evidence={"window": found.length},
        )

    def _noisy(self, case: Case, row: int, made: int) -> Finding:
        flow = case.dataflow
        loss, noise = location_of_call(flow, row), location_of_call(flow, made)
        return self.finding(
            "the target of the loss is the tensor with the noise that the model got as its input, and nothing uses the "
            "data without it",
            symptom="grad_wrong",
            why="the model only has to copy its input, noise and all, where it should learn to remove the noise",
            fix="give the loss the data from before the noise was added",
            location=loss,
            symptom_location=noise if noise != loss else None,
        )

    def _same_part(self, case: Case, row: int, read: int) -> Finding:
        flow = case.dataflow
        loss, model = location_of_call(flow, row), location_of_call(flow, read)
        return self.finding(
            "the target of the loss is the part of the sequence that the model reads, without its last step, which "
            "nothing uses: each position is asked for what it has read",
            symptom="grad_wrong",
            why="each position sees its own target, so it only has to be copied",
            fix="shift the target by one step: input x[:, :-1], target x[:, 1:]",
            location=loss,
            symptom_location=model if model != loss else None,
        )

    def _finding(self, case: Case, rows: list[int], lookup: int) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[rows[-1]]
        made = _line_where_made(case, call.inputs[1].tensor, rows[-1], lookup)
        loss, read = location_of_call(flow, rows[-1]), location_of_call(flow, lookup)
        name = plain_name(call.function)
        return self.finding(
            f"the targets of {name}() are the inputs of the embedding, at every position and all {len(rows):,} times: "
            "the model is asked for the token that it got as its input",
            symptom="grad_wrong",
            why="each position sees its own input, so it only has to be copied",
            fix="shift the targets by one position: inputs tokens[:, :-1], targets tokens[:, 1:]",
            location=made or loss,
            symptom_location=loss if made not in (None, loss) else read,
            evidence={"times": len(rows)},
        )

    def _turned_around(self, case: Case, row: int, lookup: int) -> Finding:
        flow = case.dataflow
        loss, read = location_of_call(flow, row), location_of_call(flow, lookup)
        return self.finding(
            "the scores lose their first positions and the targets their last ones: each position is asked for a token "
            "that the model has read already",
            symptom="grad_wrong",
            why="a language model is asked for the token that follows: the scores of a position belong to the target "
            "of the next one",
            fix="cut the other ends off: scores[:, :-1] with tokens[:, 1:]",
            location=loss,
            symptom_location=read if read != loss else None,
        )


_LOSSES = frozenset({"cross_entropy", "nll_loss"})
_LOOKS_UP = frozenset({"embedding", "one_hot"})
_MIN_STEPS = 2
_EXAMINED = 2
_CAUSAL = frozenset({"tril", "triu"}) | RECURRENT_LAYERS
_ATTEND = frozenset({
    "matmul", "bmm", "baddbmm", "einsum", "scaled_dot_product_attention", "multi_head_attention_forward",
})  # fmt: skip
"""They get first what asks: queries, or the weights that were computed of them."""
_MAX_FOLLOWED = 5_000
_SHAPES = frozenset({"view", "reshape", "flatten", "contiguous", "to", "long", "t", "transpose", "permute"})


def _is_made(flow: Dataflow, row: int) -> bool:
    """Whether a call is known that made the target."""
    inputs = flow.log.calls[row].inputs
    return len(inputs) > 1 and flow.is_made(inputs[1].tensor, row)


def _checksum_of_target(call: Call) -> int | None:
    return call.checksums.get(call.inputs[1].place)


def _lookups_of_the_target(case: Case, row: int) -> list[int]:
    """The look-ups of sequences above a prediction that look up the targets themselves."""
    flow, found = case.dataflow, list[int]()
    call = flow.log.calls[row]
    count = prod(shape_of(flow, call.inputs[1].tensor))
    for each in flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row)):
        lookup = flow.log.calls[each]
        if plain_name(lookup.function) not in _LOOKS_UP or not lookup.inputs:
            continue
        shape = shape_of(flow, lookup.inputs[0].tensor)
        if len([size for size in shape if size > 1]) < 1 or len(shape) < _SEQUENCES or prod(shape) != count:
            continue
        if lookup.checksums.get(lookup.inputs[0].place) == _checksum_of_target(call):
            found.append(each)
    return found


def _lookup_of_earlier_target(case: Case, row: int) -> int | None:
    """The look-up of the tokens whose scores are compared with tokens at earlier positions, in a causal model."""
    flow = case.dataflow
    call = flow.log.calls[row]
    scores, target = (part_of(flow, use.tensor, row) for use in call.inputs[:2])
    if scores.start <= 0 or not target.moves or not _is_causal(case, call.inputs[0].tensor, row):
        return None
    whole = scores.source[0]
    lengths = shape_of(flow, whole) if type(whole) is int else ()
    for each in flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row)):
        lookup = flow.log.calls[each]
        # A prefix, as of a picture, makes the scores longer than the tokens: then it is cut off in front.
        if plain_name(lookup.function) in _LOOKS_UP and set(shape_of(flow, lookup.inputs[0].tensor)) <= set(lengths):
            read = part_of(flow, lookup.inputs[0].tensor, each)
            if read.source == target.source and target.start < read.start + scores.start:
                return each
    return None


_SEQUENCES = 2
"""Axes of a batch of sequences."""


def _copies(case: Case, row: int, lookup: int) -> bool:
    """Whether the model goes one way through the sequence, and each position has a path to the result of its own."""
    flow = case.dataflow
    call, index = flow.log.calls[row], flow.log.calls[lookup].inputs[0].tensor
    sizes = shape_of(flow, index)[:_SEQUENCES]
    if sizes[1] < _SEQUENCES or not _is_causal(case, call.inputs[0].tensor, row):
        return False
    waiting, seen = [(call.inputs[0].tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, before = waiting.pop()
        made = flow.producers(tensor, before)
        if not made or made[-1] in seen or not _has_both(shape_of(flow, tensor), *sizes):
            continue
        if made[-1] == lookup:
            return True
        seen.add(made[-1])
        maker = flow.log.calls[made[-1]]
        place = next((use.place for use in maker.outputs if use.tensor == tensor), "return")
        if plain_name(maker.function) in RECURRENT_LAYERS and place not in ("return", "return[0]"):
            continue  # the last state of the sequence
        # What attention reads from other positions, such as a source of the same tokens, is copied from nowhere.
        given = maker.inputs[:1] if plain_name(maker.function) in _ATTEND else maker.inputs
        waiting += [(use.tensor, made[-1]) for use in given]
    return False


def _has_both(shape: tuple[int, ...], batch: int, length: int) -> bool:
    """Whether a shape has an axis for the batch and one for the positions, or one for both."""
    if batch * length in shape:
        return True
    rest = list(shape)
    for size in (batch, length):
        if size not in rest:
            return False
        rest.remove(size)
    return True


def _is_causal(case: Case, tensor: int, row: int) -> bool:
    flow = case.dataflow
    calls = (flow.log.calls[each] for each in flow.ancestors(tensor, row))
    return any(plain_name(call.function) in _CAUSAL or call.scalars.get("is_causal") is True for call in calls)


def _line_where_made(case: Case, tensor: int, row: int, lookup: int) -> Location | None:
    """The line that made the targets, above what only changes their shape; None if they are the inputs themselves."""
    flow = case.dataflow
    inputs = flow.log.calls[lookup].inputs[0].tensor
    same = {inputs, *(use.tensor for each in flow.ancestors(inputs, lookup) for use in flow.log.calls[each].outputs)}
    for _ in range(_MAX_SHAPES):
        made = flow.producers(tensor, row)
        if not made or tensor in same:
            return None
        row = made[-1]
        call = flow.log.calls[row]
        if plain_name(call.function) not in _SHAPES or not call.inputs:
            return location_of_call(flow, row)
        tensor = call.inputs[0].tensor
    return None


_MAX_SHAPES = 8
