"""GV836."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import called_name
from gradviz.graph.modules_and_schedules import MadeLoader


class WeightsOfClassesDrawn(Rule):
    """A sampler has fewer weights than there are samples: it draws only the first ones.

    What it finds
    -------------
    A ``DataLoader`` with a ``WeightedRandomSampler`` whose weights are fewer than the samples of its data set, as one
    weight for each class.

    Why it matters
    --------------
    The sampler draws indexes of its weights. With three weights, for three classes, every batch consists of copies of
    the samples 0, 1 and 2: the loss falls to nothing, and the rest of the data is never seen. Nothing raises.

    Example
    -------
    x, y = torch.randn(60, 4), torch.arange(60) // 25
    weights = 1 / torch.bincount(y).float()
    sampler = torch.utils.data.WeightedRandomSampler(weights, num_samples=60)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=20, sampler=sampler)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    x, y = torch.randn(60, 4), torch.arange(60) // 25
    weights = 1 / torch.bincount(y).float()
    sampler = torch.utils.data.WeightedRandomSampler(weights[y], num_samples=60)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=20, sampler=sampler)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV836"
    name = "weights_of_classes_drawn"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[int | None]()
        for loader in case.dataflow.log.loaders:
            if loader.weights is None or loader.samples is None or loader.call_site in told:
                continue
            if loader.weights < loader.samples:
                told.add(loader.call_site)
                yield self._finding(case, loader)

    def _finding(self, case: Case, loader: MadeLoader) -> Finding:
        weights, samples = loader.weights or 0, loader.samples or 0
        made = case.location_of_site(loader.call_site)
        samplers = _lines_of_samplers(case)
        location = samplers[0] if len(samplers) == 1 else made
        return self.finding(
            f"WeightedRandomSampler has {loader.weights:,} weights for {loader.samples:,} samples: it draws indexes "
            f"below {loader.weights:,} only, and the other samples are never seen",
            severity=self.severity if weights * _MANY <= samples else "note",
            symptom="grad_wrong",
            why="it needs a weight for each sample, and gives each batch copies of the first few",
            fix="give each sample the weight of its class: WeightedRandomSampler(weights[y], ...)",
            location=location,
            symptom_location=made if made != location else None,
            evidence={"weights": loader.weights, "samples": loader.samples},
        )


_MANY = 10
"""With fewer samples for each weight, a pool of the first ones may be meant."""


def _lines_of_samplers(case: Case) -> list[Location]:
    return [
        Location(file, node.lineno)
        for file, tree in own_files(case)
        for node in tree.nodes
        if isinstance(node, ast.Call) and called_name(node) == "WeightedRandomSampler"
    ]
