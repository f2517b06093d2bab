"""GV994."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import line_outside_modules, location_of_call
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.draws.kept_of_batches import KeptOfBatches, kept_of_batches


class KeptOfOtherBatch(Rule):
    """What a network made of a batch is kept by the number of the batch, though the batches are drawn anew.

    What it finds
    -------------
    Answers of a network that are kept and used again in later epochs, one for each batch, where the samples of the
    batch are other ones then: a loss compares them with the answers for other inputs, or a network is trained on them
    with other labels.

    Why it matters
    --------------
    From the second epoch on, each sample gets what belongs to another one: a student learns the answers of its teacher
    for other images. It still learns a little, from the first epoch and from the mean of the answers.

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
            location=location_of_line(line_outside_modules(flow, found.made)),
            symptom_location=used,
            evidence={"batches": found.batches},
        )
