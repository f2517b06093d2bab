"""GV802."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, location_of_call
from gradviz.analysis.dataflow.layer_calls import is_idle_dropout
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule


class OtherRandomNumbers(Rule):
    """A checkpoint computes its part again with other random numbers, so the gradient belongs to another forward.

    What it finds
    -------------
    ``checkpoint(..., preserve_rng_state=False)`` around dropout in training mode, or around other calls that draw
    random numbers, if a backward goes through it.

    Why it matters
    --------------
    A checkpoint keeps its inputs only, and computes the rest again in backward. With other random numbers, dropout
    drops other units there: the gradient is that of a forward that never ran. Nothing raises.

    Example
    -------
    from torch.utils.checkpoint import checkpoint

    block = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3))
    head = torch.nn.Linear(8, 1)
    h = checkpoint(block, torch.randn(4, 8), use_reentrant=False, preserve_rng_state=False)
    head(h).square().mean().backward()

    Instead
    -------
    from torch.utils.checkpoint import checkpoint

    block = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3))
    head = torch.nn.Linear(8, 1)
    h = checkpoint(block, torch.randn(4, 8), use_reentrant=False)
    head(h).square().mean().backward()
    """

    code = "GV802"
    name = "other_random_numbers"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        calls = case.dataflow.log.calls
        if not case.histories.backward_calls:
            return
        by_line: dict[int, list[int]] = defaultdict(list)
        for row, call in enumerate(calls):
            if call.checkpoint_site is not None and call.grad_mode != "inference" and not is_idle_dropout(call):
                by_line[call.checkpoint_site].append(row)
        last = case.histories.backward_calls[-1]
        for site, rows in by_line.items():
            if rows[0] < last:
                yield self._finding(case, site, rows)

    def _finding(self, case: Case, site: int, rows: list[int]) -> Finding:
        flow, location = case.dataflow, case.location_of_site(site)
        drawing = location_of_call(flow, rows[0])
        return self.finding(
            f"this checkpoint draws other random numbers in backward than in forward, for "
            f"{call_words(flow.log.calls[rows[0]])}: its gradients are those of another forward",
            symptom="grad_wrong",
            why="a checkpoint computes its part again in backward; preserve_rng_state=False lets it draw anew there",
            fix="leave preserve_rng_state=False out: only parts without random numbers can do with it",
            changed_line=_without_the_option(case.source_line(location)),
            location=location,
            symptom_location=drawing if drawing != location else None,
            evidence={"draws": len(rows)},
        )


def _without_the_option(text: str | None) -> str | None:
    """The line without the option; None if it stands on another line of the call."""
    if text is None or text.count(_OPTION) != 1:
        return None
    return text.replace(_OPTION, "")


_OPTION = ", preserve_rng_state=False"
