"""GV994."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, callers, line_outside_modules, location_of_call
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.draws.kept_of_batches import KeptOfBatches, kept_of_batches
from gradviz.analysis.rules.bases.batches.draws.kept_of_first import KeptOfFirst, kept_of_first
from gradviz.analysis.rules.bases.sources.lines.lines_of_caches import asks_for_given_key, line_of_cache
from gradviz.analysis.sources.source_tree import tree_of


class KeptOfOtherBatch(Rule):
    """What was computed of a batch is kept, and used again with other samples.

    What it finds
    -------------
    Answers of a network that are kept and used again in later epochs, one for each batch, where the samples of the
    batch are other ones then: a loss compares them with the answers for other inputs, or a network is trained on them
    with other labels. Also what is computed from the values of one batch without a network, a row for each sample, as
    neighbours, masks, orders and weights are, and kept by its shape or by a flag: all later batches get that of the
    first one.

    Why it matters
    --------------
    From then on, each sample gets what belongs to another one: a student learns the answers of its teacher for other
    images, and each point cloud has the neighbours of another one. Nothing raises, as shapes are the same, and the
    network still learns a little, so that the score is only lower.

    Example
    -------
    data = torch.utils.data.TensorDataset(torch.randn(32, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    teacher, model = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = {}
    for epoch in range(4):
        for number, (x,) in enumerate(loader):
            if number not in kept:
                with torch.no_grad():
                    kept[number] = teacher(x)
            loss = torch.nn.functional.mse_loss(model(x), kept[number])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    Instead
    -------
    data = torch.utils.data.TensorDataset(torch.randn(32, 4), torch.arange(32))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    teacher, model = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        kept = teacher(data.tensors[0])
    for epoch in range(4):
        for x, number in loader:
            loss = torch.nn.functional.mse_loss(model(x), kept[number])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """

    code = "GV994"
    name = "kept_of_other_batch"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for found in kept_of_batches(case):
            yield self._finding(case, found)
        for first in kept_of_first(case):
            yield self._of_first(case, first)

    def _of_first(self, case: Case, found: KeptOfFirst) -> Finding:
        flow = case.dataflow
        words = call_words(flow.log.calls[found.computed])
        return self.finding(
            f"what {words} gave for the first batch, of shape {found.shape}, is kept and used in {found.steps:,} later "
            "steps, whose batches have other samples",
            symptom="none",
            why="each row belongs to a sample of the first batch. Shapes are the same in later batches and the samples "
            "are not, so each gets what belongs to another one",
            fix="compute it for each batch anew, or keep it by the index of the sample, which the data set returns as "
            "well: kept[index]. A shape, a size or a flag does not tell two batches apart",
            location=_line_of_cache(case, found.made),
            symptom_location=location_of_call(flow, found.used),
            evidence={"steps": found.steps, "shape": list(found.shape)},
        )

    def _finding(self, case: Case, found: KeptOfBatches) -> Finding:
        flow = case.dataflow
        used = location_of_call(flow, found.used)
        met = "labels" if found.is_input else "inputs"
        return self.finding(
            f"what a network made of each of {found.batches:,} batches is kept, and used again with the {met} of other "
            "samples: the batches of each epoch are drawn anew",
            symptom="none",
            why="a batch of the same number has other samples in the next epoch, so each gets what belongs to another "
            "one",
            fix="compute it for each batch anew, or keep it by the index of the sample, which the data set returns as "
            "well: kept[index]",
            location=_line_of_given_key(case, found.made) or location_of_line(line_outside_modules(flow, found.made)),
            symptom_location=used,
            evidence={"batches": found.batches},
        )


def _line_of_given_key(case: Case, made: int) -> Location | None:
    """The line that gives the key to a function which keeps what a call made under it."""
    sources = case.files_of_program
    for line, outer in pairwise(callers(case.dataflow, made)):
        if line.file in sources and asks_for_given_key(tree_of(sources[line.file]), line.line):
            return Location(outer.file, outer.line)
    return None


def _line_of_cache(case: Case, made: int) -> Location | None:
    """The line that decides to use again what a call made; the line of the call, if none is known."""
    sources = case.files_of_program
    for line in callers(case.dataflow, made):
        found = line_of_cache(tree_of(sources[line.file]), line.line) if line.file in sources else None
        if found is not None:
            return Location(line.file, found)
    return location_of_call(case.dataflow, made)
