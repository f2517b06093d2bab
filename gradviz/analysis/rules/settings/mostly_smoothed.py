"""GV876."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_layer
from gradviz.analysis.rule import Rule
from gradviz.graph.model import CallSite


class MostlySmoothed(Rule):
    """Label smoothing leaves less to the right class than it spreads over all of them.

    What it finds
    -------------
    ``cross_entropy`` in training with a ``label_smoothing`` of one half or more. From three quarters on it is a
    warning, below that a note, and also where one line is given several shares, as in a comparison.

    Why it matters
    --------------
    ``label_smoothing`` is the share that is spread over all classes. With 0.9, the target of ten classes is 0.19 for
    the right one and 0.09 for each other: the loss can hardly fall, and the model learns to be unsure.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
        loss = torch.nn.functional.cross_entropy(model(x), y, label_smoothing=0.9)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
        loss = torch.nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV876"
    name = "mostly_smoothed"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[CallSite | None, dict[float, int]] = defaultdict(dict)
        for row, call in calls_named(flow, {"cross_entropy"}):
            share = call.scalars.get("label_smoothing", 0.0)
            is_trained = bool(call.live_inputs) and flow.has_step_after(row)
            if is_trained and isinstance(share, float) and share <= 1:
                lines[line_of_layer(flow, row)].setdefault(share, row)
        for line, shares in lines.items():
            share = max(shares)
            if share < _HALF:
                continue
            location, used = location_of_line(line), location_of_call(flow, shares[share])
            yield self.finding(
                f"label_smoothing={share:g} leaves {1 - share:.3g} to the right class, and spreads {share:g} over all",
                severity=self.severity if share >= _TOLD and len(shares) == 1 else "note",
                symptom="grad_wrong",
                why="label_smoothing is the share that is spread, not the one that the right class keeps",
                fix=f"write label_smoothing={1 - share:.3g}" if share < 1 else "leave label_smoothing out",
                location=location,
                symptom_location=used if used != location else None,
            )


_HALF = 0.5
_TOLD = 0.75
