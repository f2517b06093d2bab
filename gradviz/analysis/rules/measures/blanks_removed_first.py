"""GV993."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.greedy_decoders import MergedWithoutBlanks, blanks_removed_first
from gradviz.analysis.rules.bases.sources.own_files import own_files


class BlanksRemovedFirst(Rule):
    """The blanks of a CTC path are taken out before repeats are merged, so that double letters become single ones.

    What it finds
    -------------
    A program that trains with ``ctc_loss()`` and decodes by hand: it takes the blanks out of the best classes first,
    and merges equal neighbours then, by ``groupby()``, ``unique_consecutive()`` or a comparison with the class before.
    Also a loop that compares each class with the last one that it kept, instead of the last one of the path.

    Why it matters
    --------------
    The blank between two equal classes says that there are two of them (Graves et al., 2006, Connectionist Temporal
    Classification). Without it ``hello`` is read as ``helo``, and the reported error rate is too high.

    Example
    -------
    from itertools import groupby
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        scores = model(torch.randn(12, 2, 6)).log_softmax(2)
        labels, lengths = torch.tensor([[1, 2, 2], [3, 1, 1]]), torch.tensor([12, 12])
        loss = torch.nn.functional.ctc_loss(scores, labels, lengths, torch.tensor([3, 3]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    path = scores[:, 0].argmax(1).tolist()
    path = [p for p in path if p != 0]
    print([p for p, _ in groupby(path)])

    Instead
    -------
    from itertools import groupby
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        scores = model(torch.randn(12, 2, 6)).log_softmax(2)
        labels, lengths = torch.tensor([[1, 2, 2], [3, 1, 1]]), torch.tensor([12, 12])
        loss = torch.nn.functional.ctc_loss(scores, labels, lengths, torch.tensor([3, 3]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    path = scores[:, 0].argmax(1).tolist()
    path = [p for p, _ in groupby(path)]
    print([p for p in path if p != 0])
    """

    code = "GV993"
    name = "blanks_removed_first"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        trained = [row for row, call in calls_named(flow, ("ctc_loss",)) if call.live_inputs]
        for file, tree in own_files(case) if trained else ():
            for found in blanks_removed_first(tree):
                yield self._finding(file, found, at_line(location_of_call(flow, trained[0])))

    def _finding(self, file: str, found: MergedWithoutBlanks, trained: str) -> Finding:
        where = "repeats are merged" if found.removed == found.merged else f"line {found.merged} merges repeats"
        return self.finding(
            f"the loop compares each class with the last one that it kept: two equal classes with a blank between them "
            f"become one, though ctc_loss(){trained} takes them for two"
            if found.is_loop
            else f"the blanks are taken out before {where}: two equal classes with a blank between them become one, "
            f"though ctc_loss(){trained} takes them for two",
            symptom="none",
            why="the blank between two equal classes is what tells a double one from a long one",
            fix="compare with the last class of the path, blank or not: set last = p for every p"
            if found.is_loop
            else "merge the repeats of the whole path first, and take the blanks out then",
            location=Location(file, found.removed),
            symptom_location=Location(file, found.merged) if found.merged != found.removed else None,
        )
