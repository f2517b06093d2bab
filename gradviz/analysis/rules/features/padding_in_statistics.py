"""GV939."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, callers, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import meets_parameters
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.means import WITH_MEANS
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.sequences.padded_data import PaddedData, padded_batches
from gradviz.analysis.rules.bases.sources.arrays.padded_arrays import PaddedArray, padded_and_centred
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call


class PaddingInStatistics(Rule):
    """Data are centred with a mean that also counts the zeros with which short sequences are filled up.

    What it finds
    -------------
    A batch of sequences that ``pad_sequence()`` or ``pad()`` filled up, or that were assigned to the rows of a tensor
    of zeros, from which the mean over its positions is subtracted before a network gets it, where a tenth of the
    positions or more is padding. What is multiplied with a mask, or indexed, before the mean is left alone; so are
    normalizations inside of a network.

    Why it matters
    --------------
    The mean and the deviation depend on how much longer another sequence of the batch is. The same sound, alone or
    beside a longer one, gives the network other numbers, and the padding is not zero any more.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        sounds = [5 + torch.randn(length, 4) for length in (4, 9, 6)]
        x = torch.nn.utils.rnn.pad_sequence(sounds, batch_first=True)
        x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        sounds = [5 + torch.randn(length, 4) for length in (4, 9, 6)]
        sounds = [(x - x.mean(0)) / x.std(0) for x in sounds]
        x = torch.nn.utils.rnn.pad_sequence(sounds, batch_first=True)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV939"
    name = "padding_in_statistics"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for batch in padded_batches(flow):
            found = _centred(flow, batch) if _SHARE * batch.padded >= batch.positions else None
            site = None if found is None else flow.log.calls[found.mean].call_site
            if found is not None and site not in told and meets_parameters(flow, found.difference):
                told.add(site)
                yield self._finding(flow, batch, found)
        for file, tree in own_files(case) if not told and case.histories.reached_by else ():
            ran = LinesThatRan(flow, file)
            for array in padded_and_centred(tree):
                if not ran.rows_in(array.averaged, array.averaged):
                    yield self._of_array(file, array)

    def _of_array(self, file: str, array: PaddedArray) -> Finding:
        return self.finding(
            f"the mean of {array.name} also counts the zeros behind the sequences that line {array.filled} puts in it",
            symptom="grad_wrong",
            why="the mean and the deviation of a sequence depend on how much longer another one of its batch is",
            fix="normalize each sequence before it is put into the array",
            location=Location(file, array.averaged),
            symptom_location=Location(file, array.filled),
        )

    def _finding(self, flow: Dataflow, batch: PaddedData, found: _Centred) -> Finding:
        location, padded = _line_to_edit(flow, batch, found), location_of_call(flow, batch.row)
        return self.finding(
            f"{call_words(flow.log.calls[found.mean])} over the positions also counts the padding{at_line(padded)}: "
            f"{batch.padded:,} of the {batch.positions:,} positions of a batch",
            symptom="grad_wrong",
            why="the mean and the deviation of a sequence depend on how much longer another one of its batch is",
            fix="normalize each sequence before it is padded, or compute both with a mask: "
            "(x * mask).sum(1) / mask.sum(1)",
            location=location,
            symptom_location=padded if padded != location else None,
            evidence={"padded": batch.padded, "positions": batch.positions},
        )


class _Centred(Struct, frozen=True):
    mean: int
    """The call that averages."""
    difference: int
    """The call that subtracts it."""


_SHARE = 10
_BOTH = 2


def _centred(flow: Dataflow, batch: PaddedData) -> _Centred | None:
    """The mean over the positions of a padded batch, and the call that takes it off that batch."""
    rank = len(shape_of(flow, batch.tensor))
    for row in flow.users(batch.tensor, batch.row):
        call = flow.log.calls[row]
        if plain_name(call.function) != "sub" or len(call.inputs) != _BOTH or call.inputs[0].tensor != batch.tensor:
            continue
        made = value_maker(flow, call.inputs[1].tensor, row)
        if made is not None and _averages(made[1], batch, rank):
            return _Centred(made[0], row)
    return None


def _averages(call: Call, batch: PaddedData, rank: int) -> bool:
    is_of_batch = bool(call.inputs) and call.inputs[0].tensor == batch.tensor and len(call.inputs) == 1
    over = axes_of(call, rank)
    return plain_name(call.function) in WITH_MEANS and is_of_batch and (batch.axis in over or not over)


def _line_to_edit(flow: Dataflow, batch: PaddedData, found: _Centred) -> Location | None:
    """The line of the function that padded which normalizes, or calls a function that does; else that of the mean."""
    here = flow.line_of(batch.row)
    own = (
        line
        for line in callers(flow, found.mean)
        if here is not None and (line.file, line.function) == (here.file, here.function)
    )
    return location_of_line(next(own, flow.line_of(found.mean)))
