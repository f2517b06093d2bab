"""GV624."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call, plain_name
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.copies.copied_rows import CopiedRows
from gradviz.analysis.rules.bases.copies.made_copies import BROADCAST
from gradviz.analysis.rules.bases.copies.other_orders import OtherOrder, Use


class RowsGroupedOtherwise(Rule):
    """The copies of each sample were laid out in one order, and are grouped in another.

    What it finds
    -------------
    Rows with several copies of each sample, either one copy of all samples after the other (``repeat``, ``cat``,
    ``stack(dim=0)``), or all copies of one sample after those of the one before (``repeat_interleave``,
    ``stack(dim=1)``), that a later call takes in the other order: a view, or a stack of parts, of which the axis of
    copies is reduced, parts that are paired row by row, labels of a contrastive loss or an index that chooses its
    positives, or rows of the other order beside them. Data of the shape ``(n, 2, ...)`` become such rows where a view
    joins their first two axes, whatever made them.

    Why it matters
    --------------
    The groups contain different samples. A mean over "the answers to one question" is one over answers to many, and the
    positive of a contrastive loss is a view of another sample. All shapes fit, so nothing raises.

    Example
    -------
    policy = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        questions = torch.randn(6, 3).repeat(4, 1)
        answers = torch.distributions.Normal(policy(questions), 1.0)
        given = answers.sample()
        rewards = (given - questions[:, :2]).abs().sum(1).neg().view(6, 4)
        advantages = (rewards - rewards.mean(1, keepdim=True)).flatten()
        loss = -(answers.log_prob(given).sum(1) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        questions = torch.randn(6, 3).repeat_interleave(4, dim=0)
        answers = torch.distributions.Normal(policy(questions), 1.0)
        given = answers.sample()
        rewards = (given - questions[:, :2]).abs().sum(1).neg().view(6, 4)
        advantages = (rewards - rewards.mean(1, keepdim=True)).flatten()
        loss = -(answers.log_prob(given).sum(1) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV624"
    name = "rows_grouped_otherwise"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        calls = case.dataflow.log.calls
        found = [each for each in CopiedRows(case.dataflow).taken_otherwise() if _is_trained(case, each.call)]
        times = Counter(calls[each.axis.made].call_site for each in found)
        last = {calls[each.axis.made].call_site: each for each in reversed(found)}
        # A function that training and evaluation call is told once.
        findings = (self._finding(case, each) for site, each in last.items() if times[site] >= _MIN_TIMES)
        yield from {finding.location: finding for finding in reversed(list(findings))}.values()

    def _finding(self, case: Case, each: OtherOrder) -> Finding:
        flow, axis = case.dataflow, each.axis
        is_tiled = "tiled" in (axis.order, axis.kind)
        made, used = location_of_call(flow, axis.made), location_of_call(flow, each.call)
        cut = used if axis.cut is None else location_of_call(flow, axis.cut)
        words = _USES[each.use].format(call_words(flow.log.calls[each.call]), at_line(cut) if cut != made else "")
        is_broadcast = plain_name(flow.log.calls[axis.made].function) in BROADCAST
        place = cut if is_broadcast or each.use == "mixed" else made
        return self.finding(
            f"{call_words(flow.log.calls[axis.made])} lays out {axis.copies:,} copies of {axis.samples:,} samples "
            f"{_ORDERS[is_tiled]}, and {words} {_ORDERS[not is_tiled]}",
            symptom="grad_wrong",
            why="what is taken for copies of one sample are rows of different samples",
            fix=_FIXES[is_tiled],
            location=place,
            symptom_location=next((line for line in (made, cut, used) if line != place), None),
            evidence={"copies": axis.copies, "samples": axis.samples},
        )


_ORDERS = {True: "one copy of all after the other", False: "sample by sample"}
_USES: dict[Use, str] = {
    "reduced": "{0} takes them in groups{1} as if they stood",
    "paired": "{0} pairs parts{1} as if they stood",
    "mixed": "a view{1} cuts them as if they stood",
    "combined": "{0}{1} combines them with rows that stand",
    "labels": "{0}{1} gets labels as if they stood",
    "diagonal": "{0}{1} takes the pairs as if they stood",
}
_FIXES = {
    True: "lay them out sample by sample: repeat_interleave(g, dim=0), or stack(copies, dim=1).flatten(0, 1); or group "
    "them as they stand: view(copies, samples)",
    False: "lay out one copy of all after the other: repeat(g, 1), or cat(copies); or group them as they stand: "
    "view(samples, copies)",
}
_MIN_TIMES = 2
_MAX_BACKWARDS = 3


def _is_trained(case: Case, row: int) -> bool:
    """Whether one of the next backward calls, after which a step follows, goes through what a call computed."""
    flow = case.dataflow
    for backward in case.backward_calls.next_after(row, _MAX_BACKWARDS):
        roots = flow.log.calls[backward].roots if flow.has_step_after(backward) else ()
        if any(row in flow.ancestors(use.tensor, backward, row) for use in roots):
            return True
    return False
