"""GV689."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, two_lines
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.scales.masked_exponentials import MaskedScale, masked_scales


class ScaleWhereMasked(Rule):
    """The logarithms of scales are added up over all elements, also those whose scale a mask leaves without effect.

    What it finds
    -------------
    A loss with the sum or the mean of log-scales, whose exponentials act only where a mask of zeros and ones lets them,
    while the sum has no such mask: the log-determinant of a coupling layer that counts the dimensions that it keeps, or
    a Gaussian likelihood whose log-variances count where values are missing.

    Why it matters
    --------------
    Nothing holds the log-scales at the other elements: the loss falls without limit when they move, and says nothing of
    the data any more.

    Example
    -------
    net, mask = torch.nn.Linear(4, 8), torch.tensor([1.0, 1.0, 0.0, 0.0])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(16, 4)
        s, t = net(x * mask).chunk(2, dim=-1)
        z = x * mask + (1 - mask) * (x * s.exp() + t)
        log_det = s.sum(-1)
        loss = (z.square().sum(-1) / 2 - log_det).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    net, mask = torch.nn.Linear(4, 8), torch.tensor([1.0, 1.0, 0.0, 0.0])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(16, 4)
        s, t = net(x * mask).chunk(2, dim=-1)
        z = x * mask + (1 - mask) * (x * s.exp() + t)
        log_det = ((1 - mask) * s).sum(-1)
        loss = (z.square().sum(-1) / 2 - log_det).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV689"
    name = "scale_where_masked"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[MaskedScale | None]] = defaultdict(list)
        for row, call in calls_named(flow, ("exp",)):
            if not call.live_inputs or len(lines[call.call_site]) >= _MAX_TRIED:
                continue
            backward = next(iter(case.backward_calls.next_after(row, 1)), None)
            if backward is None or not flow.has_step_after(backward):
                continue
            found = masked_scales(flow, row, backward)
            is_used = found is not None and found.summed in case.backward_calls.reached(backward).members
            lines[call.call_site].append(found if is_used else None)
        told = set[int | None]()
        for tried in lines.values():
            last = tried[-1] if tried else None
            if last is None or None in tried or len(tried) < _MIN_TIMES:
                continue
            site = flow.log.calls[last.summed].call_site
            if site not in told:
                told.add(site)
                yield self._finding(case, last)

    def _finding(self, case: Case, found: MaskedScale) -> Finding:
        flow = case.dataflow
        location, masked = two_lines(flow, found.summed, found.masked)
        name = call_words(flow.log.calls[found.summed])
        return self.finding(
            f"{name} counts log-scales of all elements, but their exp() acts only where a mask lets it"
            f"{at_line(masked)}: at {found.hidden:,} of its {found.elements:,} elements "
            "nothing holds them",
            symptom="grad_wrong",
            why="the loss falls without limit when the log-scales move there",
            fix=f"multiply them with the same mask before {name}",
            location=location,
            symptom_location=masked,
            evidence={"hidden": found.hidden, "elements": found.elements},
        )


_MAX_TRIED = 12
_MIN_TIMES = 2
