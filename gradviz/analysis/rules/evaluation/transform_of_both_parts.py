"""GV856."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.parts_of_one_data_set import SharedAttribute, shared_attributes
from gradviz.analysis.rules.bases.sources.own_files import own_files


class TransformOfBothParts(Rule):
    """The transform of one part of a split is set on the data set that the other part has as well.

    What it finds
    -------------
    An attribute that is set on ``part.dataset`` before training, where ``random_split()`` made the part and another one
    that the program uses, and neither got a data set of its own. It is a note where the first part gets the only
    transform of the program: both may need it.

    Why it matters
    --------------
    ``random_split()`` copies nothing: all parts index one data set, and have one transform, the last that was set. What
    switches the augmentation off for validation switches it off for training, or the validation is augmented.

    Example
    -------
    class Data(torch.utils.data.Dataset):
        transform = None
        def __len__(self):
            return 20
        def __getitem__(self, i):
            x = torch.full((4,), i / 20)
            return x if self.transform is None else self.transform(x)

    whole = Data()
    whole.transform = lambda x: x + torch.randn(4)
    train, held_out = torch.utils.data.random_split(whole, [16, 4])
    held_out.dataset.transform = None
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(train, 4):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    import copy

    class Data(torch.utils.data.Dataset):
        transform = None
        def __len__(self):
            return 20
        def __getitem__(self, i):
            x = torch.full((4,), i / 20)
            return x if self.transform is None else self.transform(x)

    whole = Data()
    whole.transform = lambda x: x + torch.randn(4)
    train, held_out = torch.utils.data.random_split(whole, [16, 4])
    held_out.dataset = copy.copy(whole)
    held_out.dataset.transform = None
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(train, 4):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV856"
    name = "transform_of_both_parts"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        trained = _lines_of_backward(case)
        for file, tree in own_files(case) if trained else ():
            for shared in shared_attributes(tree):
                if any(file == each.file and shared.line < each.line <= shared.until for each in trained):
                    yield self._finding(file, shared)

    def _finding(self, file: str, shared: SharedAttribute) -> Finding:
        return self.finding(
            f"{shared.part}.dataset is that of {shared.other}, too: setting its {shared.attribute} changes both",
            severity="note" if shared.is_first else self.severity,
            symptom="grad_wrong",
            why="random_split() copies nothing, so both parts have the transform that was set last",
            fix="give this part a data set of its own before: val.dataset = copy.copy(val.dataset)",
            location=Location(file, shared.line),
            symptom_location=Location(file, shared.split_at),
        )


def _lines_of_backward(case: Case) -> set[Location]:
    """All lines from which a backward was called, outer ones included."""
    flow = case.dataflow
    rows = {flow.log.calls[row].call_site: row for row in flow.rows_of_kind("backward")}
    return {Location(site.file, site.line) for row in rows.values() for site in callers(flow, row)}
