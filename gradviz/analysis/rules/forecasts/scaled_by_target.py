"""GV995."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import DIFFERENCES, call_words, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import take_parameters
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.scaled_windows import ScaledWindow, scaled_windows
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training
from gradviz.analysis.rules.bases.sources.arrays.scaled_windows_of_arrays import WindowScaled, windows_scaled_whole
from gradviz.analysis.rules.bases.sources.own_files import own_files


class ScaledByTarget(Rule):
    """A window is scaled by the mean of all its steps, those that the model is to forecast included.

    What it finds
    -------------
    A mean, a median or a minimum of whole windows that is subtracted from them, where the first steps of the result
    are what a model reads, and the other ones what a loss compares its answer with.

    Why it matters
    --------------
    The mean of what the model reads is 0 only if that of the target is, too: it tells how the series goes on. The
    error is far smaller than that of any forecast, in the evaluation as well if it has the same windows, and nobody
    can scale a window in this way whose future is not known yet.

    Example
    -------
    series = torch.randn(200).cumsum(0)
    model = torch.nn.Linear(12, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(8):
        windows = series.unfold(0, 16, 1)[torch.randint(0, 180, (32,))]
        windows = windows - windows.mean(1, keepdim=True)
        x, target = windows[:, :12], windows[:, 12:]
        loss = torch.nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    series = torch.randn(200).cumsum(0)
    model = torch.nn.Linear(12, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(8):
        windows = series.unfold(0, 16, 1)[torch.randint(0, 180, (32,))]
        windows = windows - windows[:, :12].mean(1, keepdim=True)
        x, target = windows[:, :12], windows[:, 12:]
        loss = torch.nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV995"
    name = "scaled_by_target"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[int | None]()
        for found in scaled_windows(case.dataflow):
            site = case.dataflow.log.calls[found.mean].call_site
            if site not in told:
                told.add(site)
                yield self._finding(case, found)
        if not told and _compares_with_data(case.dataflow):
            for file, tree in own_files(case):
                for window in windows_scaled_whole(tree):
                    yield self._of_source(file, window)

    def _of_source(self, file: str, window: WindowScaled) -> Finding:
        return self.finding(
            f"the mean of all of {window.name} is taken off it, and line {window.cut} cuts it into what the model "
            "reads and what it is to forecast: that part is in the mean",
            symptom="none",
            why=_WHY,
            fix="compute the mean and the deviation of the first part only",
            location=Location(file, window.scaled),
            symptom_location=Location(file, window.cut),
        )

    def _finding(self, case: Case, found: ScaledWindow) -> Finding:
        flow = case.dataflow
        location, compared = (location_of_call(flow, row) for row in (found.mean, found.compared))
        length = found.history + found.horizon
        return self.finding(
            f"{call_words(flow.log.calls[found.mean])} is taken of all {length:,} steps of a window, and subtracted "
            f"from the {found.history:,} that the model reads: the last {found.horizon:,}, which it is to forecast, "
            "are part of it",
            symptom="none",
            why=_WHY,
            fix=f"compute it of the first {found.history:,} steps only, as window[:{found.history}] of a single window",
            location=location,
            symptom_location=compared if compared != location else None,
            evidence={"history": found.history, "horizon": found.horizon},
        )


_WHY = "what the model reads then tells the level of its target, which nobody knows at that time"


def _compares_with_data(flow: Dataflow) -> bool:
    """Whether a loss compares a prediction with something that no parameter has computed, as a forecast with what came:
    two views of one window that a model reads are compared with each other."""
    for rows in calls_in_training(flow, DIFFERENCES):
        row = rows[-1]
        targets = (use.tensor for use in flow.log.calls[row].inputs if not use.requires_grad)
        above = (flow.ancestors(each, row, flow.step_before(row)) for each in targets)
        if not all(take_parameters(flow, each) for each in above):
            return True
    return False
