"""GV875."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_layer
from gradviz.analysis.rule import Rule
from gradviz.graph.model import CallSite


class ShareKeptDropped(Rule):
    """Dropout drops nearly everything: its ``p`` is the share that should be kept.

    What it finds
    -------------
    ``dropout`` in training with a ``p`` of 0.75 or more and below 1, applied to what a layer with trained parameters
    computed. From 0.9 on it is a warning, below that a note, and also where one line is given several shares, as in a
    comparison.

    Why it matters
    --------------
    In torch, ``p`` is the probability that a value is dropped; in some papers and libraries it is that of being kept.
    With 0.9, one value in ten arrives, ten times as large: the model learns slowly, and from noise.

    Example
    -------
    hidden = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Dropout(0.9))
    model = torch.nn.Sequential(hidden, torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        loss = (model(torch.randn(8, 4)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    hidden = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1))
    model = torch.nn.Sequential(hidden, torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        loss = (model(torch.randn(8, 4)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV875"
    name = "share_kept_dropped"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[CallSite | None, dict[float, int]] = defaultdict(dict)
        for row, call in calls_named(flow, _DROPS):
            share = call.scalars.get("p", call.scalars.get("1"))
            is_trained = bool(call.inputs) and call.inputs[0].requires_grad and call.scalars.get("training") is True
            if is_trained and isinstance(share, float) and share < 1 and flow.has_step_after(row):
                lines[line_of_layer(flow, row)].setdefault(share, row)
        for line, shares in lines.items():
            if max(shares) >= _NOTED:
                yield self._finding(case, line, shares)

    def _finding(self, case: Case, line: CallSite | None, shares: dict[float, int]) -> Finding:
        share = max(shares)
        location, used = location_of_line(line), location_of_call(case.dataflow, shares[share])
        return self.finding(
            f"dropout with p={share:g} drops {share:.0%} of what it gets, and makes the rest {1 / (1 - share):.3g} "
            "times as large",
            severity=self.severity if share >= _TOLD and len(shares) == 1 else "note",
            symptom="grad_wrong",
            why="in torch, p is the probability that a value is dropped, not that it is kept",
            fix=f"if {share:g} should be kept, write p={1 - share:.3g}",
            location=location,
            symptom_location=used if used != location else None,
        )


_DROPS = frozenset({
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout",
})  # fmt: skip
_NOTED = 0.75
_TOLD = 0.9
