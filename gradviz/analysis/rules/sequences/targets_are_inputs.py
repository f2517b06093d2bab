"""GV626."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, calls_in_training
from gradviz.analysis.rules.bases.sequences.copied_inputs import (
    REGRESSIONS,
    decoded_target,
    is_named_noisy,
    noisy_target,
    same_part,
)
from gradviz.analysis.rules.bases.sequences.copied_tokens import (
    checksum_of_target,
    line_that_chose,
    line_where_made,
    lookup_of_earlier_target,
    lookups_of_the_target,
    only_copies,
    single_lookups,
)
from gradviz.analysis.rules.bases.sequences.part_of_inputs import TargetRead, target_read
from gradviz.analysis.rules.bases.sequences.positions.steps_fed import step_fed
from gradviz.analysis.rules.bases.sequences.shifted_tokens import part_of
from gradviz.analysis.rules.bases.sequences.stacked_windows import stacked_target_read
from gradviz.analysis.rules.bases.sources.loops.window_lines import TargetInWindow, targets_in_windows
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call


class TargetsAreInputs(Rule):
    """A model is asked for what it was just given.

    What it finds
    -------------
    A loss of classes whose targets are, at every position and in every step, the numbers that the model looked up in
    its embedding, where the model goes through a sequence in one direction (a causal mask, a recurrent layer) and each
    position of the result has a path from the same position of the input. Also scores that lose their first positions
    where the targets lose their last ones, and decoders that go on token by token and get the one that they are asked
    for. Also regressions: of a recurrent layer that reads ``x[:, :-1]`` and is asked for ``x[:, :-1]``, of one that
    begins with the state of an encoder and reads all of its target, of a model that gets data with added noise and is
    asked for that noisy data, and of a model that reads a window whose last values are its target, or the beginning of
    it; also where a loop cuts both out of an array: ``x.append(s[i : i + n + 1])`` beside ``y.append(s[i + n])``.

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
        for row, call in calls_named(flow, _LOSSES):
            is_loss = len(call.inputs) > 1
            if is_loss and call.inputs[0].requires_grad and flow.has_step_after(row):
                lines[call.call_site].append(row)
        for rows in lines.values():
            steps = {flow.step_before(row) for row in rows}
            read = [lookup_of_earlier_target(case, row) for row in rows]
            if len(steps) >= _MIN_STEPS and all(each is not None for each in read):
                yield self._turned_around(case, rows[-1], read[-1] or 0)
                continue
            if len(steps) < _MIN_STEPS or not all(checksum_of_target(flow.log.calls[row]) for row in rows):
                continue
            if single := single_lookups(case, rows):
                yield self._one_by_one(case, rows[-1], single[-1])
                continue
            found = [lookups_of_the_target(case, row) for row in rows]
            copied = (each for each in found[-1] if all(found) and only_copies(case, rows[-1], each))
            if (last := next(copied, None)) is not None:
                yield self._finding(case, rows, last)
        is_told = False
        for finding in self._of_regressions(case):
            is_told = True
            yield finding
        for file, tree in own_files(case) if not is_told and case.histories.steps else ():
            for target in targets_in_windows(tree):
                yield self._cut_out(file, target)

    def _cut_out(self, file: str, found: TargetInWindow) -> Finding:
        """A window and its target of an array that is none of torch."""
        which = "last" if found.shared == 1 else f"{found.shared:,}th last"
        return self.finding(
            f"the target that is cut out here is the {which} value of the window beside it, which the model reads",
            symptom="grad_wrong",
            why="the model only has to copy this value, and learns nothing about what follows",
            fix="end the window before the target: inputs x[i:i + n], target x[i + n]",
            location=Location(file, found.line),
            symptom_location=Location(file, found.window_at) if found.window_at != found.line else None,
        )

    def _of_regressions(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, REGRESSIONS):
            last = rows[-_EXAMINED:]
            if len({flow.step_before(row) for row in rows}) < _MIN_STEPS or not _is_comparison(flow, rows[-1]):
                continue
            noisy = [noisy_target(case, row) for row in last]
            same = [same_part(flow, row) for row in last]
            decoded = [decoded_target(flow, row) for row in last]
            is_named = any(is_named_noisy(flow, row) for row in rows if len(flow.log.calls[row].inputs) > 1)
            if is_named and noisy[-1] is not None and all(each is not None for each in noisy):
                yield self._noisy(case, last[-1], noisy[-1])
            elif same[-1] is not None and all(each is not None for each in same):
                yield self._same_part(case, last[-1], same[-1])
            elif decoded[-1] is not None and all(each is not None for each in decoded):
                yield self._decoded(case, last[-1], decoded[-1])
            elif (fed := [step_fed(flow, row) for row in rows[-_STEPS_EXAMINED:]]) and all(fed) and fed[-1] is not None:
                yield self._fed(case, *fed[-1])
            else:
                made = [row for row in rows if _is_made(flow, row)]  # loading data is only noted now and then
                read = [target_read(flow, row) or stacked_target_read(flow, row) for row in made[-_EXAMINED:] or last]
                if read[-1] is not None and all(each is not None for each in read):
                    yield self._read_before(case, read[-1])

    def _read_before(self, case: Case, found: TargetRead) -> Finding:
        flow = case.dataflow
        line = case.source_line(location_of_call(flow, found.cut)) or ""
        # A loop over a loader takes the samples out, and does not say what they are.
        cut = found.made if found.made >= 0 and line.lstrip().startswith("for ") else found.cut
        location, read = two_lines(flow, cut, found.read)
        window = f"the window of {found.length:,} values that the model reads"
        if found.shared < found.of:
            return self.finding(
                f"the target of the loss, {found.of:,} steps, begins with the last "
                f"{'value' if found.shared == 1 else f'{found.shared:,} values'} of {window}",
                symptom="grad_wrong",
                why="the model only has to copy what it has read, so errors look smaller than those of a forecast, and "
                "the last steps that are wanted are never asked for",
                fix="begin the target behind the inputs: inputs x[i:end], target x[end:end + horizon]",
                location=location,
                symptom_location=read,
                evidence={"window": found.length, "shared": found.shared},
            )
        return self.finding(
            f"the target of the loss is the end of {window}",
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

    def _fed(self, case: Case, cell: int, cut: int) -> Finding:
        location, read = two_lines(case.dataflow, cut, cell)
        return self.finding(
            "at each step, the decoder is given the value that it is asked for at this very step",
            symptom="grad_wrong",
            why="it only has to copy this value, which is no help when it goes on from its own results",
            fix="give it the value before: target[:, t - 1] where it is asked for target[:, t]",
            location=location,
            symptom_location=read,
        )

    def _decoded(self, case: Case, row: int, read: int) -> Finding:
        flow = case.dataflow
        loss, decoder = location_of_call(flow, row), location_of_call(flow, read)
        name = plain_name(flow.log.calls[read].function).upper()
        return self.finding(
            f"the {name} that decodes reads the target of the loss: at each position, it gets the value that it is "
            "asked for",
            symptom="grad_wrong",
            why="each position only has to be copied, which is no help when the model goes on from its own results",
            fix="shift what the decoder reads by one step: torch.cat([last_known, target[:, :-1]], dim=1)",
            location=decoder,
            symptom_location=loss if loss != decoder else None,
        )

    def _finding(self, case: Case, rows: list[int], lookup: int) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[rows[-1]]
        made = line_where_made(case, call.inputs[1].tensor, rows[-1], lookup)
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

    def _one_by_one(self, case: Case, row: int, lookup: int) -> Finding:
        location, loss = line_that_chose(case, lookup), location_of_call(case.dataflow, row)
        return self.finding(
            "at each position, the model gets the token that it is asked for: the last look-up before the scores is "
            "that of the target",
            symptom="grad_wrong",
            why="it only has to copy this token, and learns nothing about what comes next",
            fix="give it the token before: target[:, t - 1] where it is asked for target[:, t]",
            location=location,
            symptom_location=loss if loss != location else None,
        )

    def _turned_around(self, case: Case, row: int, lookup: int) -> Finding:
        flow, call = case.dataflow, case.dataflow.log.calls[row]
        loss, read = location_of_call(flow, row), location_of_call(flow, lookup)
        are_inputs = part_of(flow, call.inputs[0].tensor, row).start <= 0
        made = line_where_made(case, call.inputs[1].tensor, row, lookup) if are_inputs else None
        location, shown = (loss, read) if made is None else (made, loss)
        what = "inputs" if are_inputs else "scores"
        return self.finding(
            f"the {what} lose their first positions, the targets their last ones: each position is asked for a token "
            "that the model has read already",
            symptom="grad_wrong",
            why="a language model is asked for the token that follows: the scores of a position belong to the target "
            "of the next one",
            fix=f"cut the other ends off: {'tokens' if are_inputs else 'scores'}[:, :-1] with tokens[:, 1:]",
            location=location,
            symptom_location=shown if shown != location else None,
        )


_LOSSES = frozenset({"cross_entropy", "nll_loss"})
_MIN_STEPS = 2
_EXAMINED = 2
_STEPS_EXAMINED = 4


def _is_comparison(flow: Dataflow, row: int) -> bool:
    """Whether a loss is made of a difference; the motor of ``m + rate * (u - m)`` compares nothing."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "sub" or not call.outputs:
        return True
    below = flow.users_below(call.outputs[0].tensor, row, _MOST_FOLLOWED, _weighs)
    return any(plain_name(using.function) in _SIZES or is_squared(using) for _, _, using in below)


def _weighs(call: Call) -> bool:
    return plain_name(call.function) in SHAPE_ONLY | _WEIGHS


_MOST_FOLLOWED = 8
_SIZES = frozenset({"abs", "square", "pow", "norm", "vector_norm", "cosh", "relu", "maximum", "max"})
_WEIGHS = frozenset({"mul", "div", "neg", "getitem", "mean", "sum", "where"})


def _is_made(flow: Dataflow, row: int) -> bool:
    """Whether a call is known that made the target."""
    inputs = flow.log.calls[row].inputs
    return len(inputs) > 1 and flow.is_made(inputs[1].tensor, row)
