"""GV882."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.fresh_operands import DRAWS
from gradviz.analysis.rules.bases.evaluations.scoring_calls import is_scoring
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.loops.overwritten import Overwritten, overwritten_in_loops
from gradviz.analysis.rules.bases.sources.own_files import own_files


class ScoreOfLastBatch(Rule):
    """An evaluation over several batches keeps the score of the last one.

    What it finds
    -------------
    A loop in which a trained model runs without gradients, two times or more in a row, and computes a single number of
    its batch alone; each round overwrites the variable with it, and only what follows the loop reads it.

    Why it matters
    --------------
    What looks like the accuracy or the loss of a data set is that of a few samples: it jumps from epoch to epoch, and a
    best epoch or an early stop that follows it is chosen by chance. A count that is divided by the number of all
    samples is far too small.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(64, 4)
    for epoch in range(3):
        for batch in x[:32].split(8):
            loss = (model(batch) - batch[:, :1]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            for batch in x[32:].split(8):
                error = (model(batch) - batch[:, :1]).abs().mean().item()
        print(epoch, error)

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(64, 4)
    for epoch in range(3):
        for batch in x[:32].split(8):
            loss = (model(batch) - batch[:, :1]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        error = 0.0
        with torch.no_grad():
            for batch in x[32:].split(8):
                error += (model(batch) - batch[:, :1]).abs().mean().item() / 4
        print(epoch, error)
    """

    code = "GV882"
    name = "score_of_last_batch"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.reached_by else ():
            ran = LinesThatRan(case.dataflow, file)
            for kept in overwritten_in_loops(tree):
                rows = ran.rows_in(*kept.loop)
                if ran.has_backward(rows) or not any(is_scoring(case.histories, row) for row in rows):
                    continue
                numbers = _numbers(case, ran.rows_in(kept.line, kept.last_line), kept, file)
                visits = (pair for pair in pairwise(numbers) if _are_of_one_visit(case, set(rows), *pair))
                if any(_are_of_other_data(case, rows, *pair) for pair in visits):
                    yield self._finding(file, kept, len(numbers))

    def _finding(self, file: str, kept: Overwritten, times: int) -> Finding:
        return self.finding(
            f"each batch overwrites {kept.name}, {times:,} times in all: line {kept.read} reads that of the last batch",
            symptom="none",
            why="a score of one batch says little about the data set",
            fix=f"add the batches up: {kept.name} += ..., from 0 before the loop; then divide by the number of samples",
            location=Location(file, kept.line),
            symptom_location=Location(file, kept.read),
            evidence={"batches": times},
        )


def _numbers(case: Case, rows: list[int], kept: Overwritten, file: str) -> list[int]:
    """The last calls of each round that the lines of an assignment make themselves, if they make single numbers."""
    flow = case.dataflow
    lines = ((row, flow.line_of(row)) for row in rows)
    own = [row for row, at in lines if at and at.file == file and kept.line <= at.line <= kept.last_line]
    last = own[-1] if own else None
    if last is None:
        return []
    same = [row for row in own if flow.log.calls[row].function == flow.log.calls[last].function]
    tensors = flow.log.calls[last].outputs or flow.log.calls[last].inputs
    return same if tensors and shape_of(flow, tensors[0].tensor) in ((), (1,)) else []


def _are_of_one_visit(case: Case, repeated: set[int], first: int, second: int) -> bool:
    """Whether no backward lies between two rounds, and the second computes its number of nothing that an earlier round
    has computed."""
    flow = case.dataflow
    start = flow.backward_before(first)
    if start != flow.backward_before(second) or flow.step_before(first) != flow.step_before(second):
        return False
    call = flow.log.calls[second]
    above = flow.ancestors((call.inputs or call.outputs)[0].tensor, second, start or 0)
    return not any(row in repeated and row <= first for row in above)


def _are_of_other_data(case: Case, rows: list[int], first: int, second: int) -> bool:
    """Whether the model of two rounds is the same one, and what it gets is not. A sweep over thresholds or over models
    scores the same samples again."""
    layers = [row for row in rows if row <= second and is_scoring(case.histories, row)]
    before, after = ([row for row in layers if row <= first][-1:], [row for row in layers if row > first][-1:])
    if not before or not after:
        return False
    if _is_noise(case.dataflow, first, after[0], second):
        return False
    one, other = (case.dataflow.log.calls[row].inputs for row in (*before, *after))
    values = [case.dataflow.values_of(uses[0], row) for uses, row in ((one, before[0]), (other, after[0]))]
    return one[1].tensor == other[1].tensor and values[0] != values[1]


def _is_noise(flow: Dataflow, before: int, layer: int, number: int) -> bool:
    """Whether a model gets nothing but random numbers of this round, which are compared with nothing: a trial run."""
    makers = flow.makers(flow.log.calls[layer].inputs[0].tensor, layer, _MAKERS)
    drawn = [made for made, call in makers if made > before and plain_name(call.function) in DRAWS]
    tensors = flow.log.calls[number].inputs or flow.log.calls[number].outputs
    above = flow.ancestors(tensors[0].tensor, number, before + 1) if drawn else ()
    made = {use.tensor for row in above for use in flow.log.calls[row].outputs}
    taken = {use.tensor for row in above for use in flow.log.calls[row].inputs} - made
    return bool(drawn) and all(flow.log.tensors[each].role != "tensor" for each in taken)


_MAKERS = 8
