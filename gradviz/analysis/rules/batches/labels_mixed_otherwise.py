"""GV753."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.mixed_parts import Share
from gradviz.analysis.rules.bases.samples.mixed_samples import Mix, is_of_labels, mixes_by_order
from gradviz.analysis.rules.bases.samples.unmixed_targets import loss_without_partner


class LabelsMixedOtherwise(Rule):
    """Samples are mixed with others, and the labels of the two count the other way round, or only one of them counts.

    What it finds
    -------------
    ``lam * x + (1 - lam) * x[order]``, ``torch.lerp(x, x[order], 1 - lam)``, or a part of ``x`` that is overwritten
    with that of ``x[order]``, where the loss weighs the labels ``y[order]`` with the share of ``x``, and ``y`` with
    that of ``x[order]``; and labels that are mixed with swapped shares. Also mixes of which the loss knows ``y`` alone,
    where a quarter of some sample or more is that of another one. (Zhang et al., "mixup: Beyond Empirical Risk
    Minimization", 2018, section 2.)

    Why it matters
    --------------
    A sample that is mostly a cat and a little of a dog is said to be mostly a dog. What the model learns is the wrong
    way round for all samples, except those that are mixed in equal parts.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x, y, order, lam = torch.randn(8, 4), torch.arange(8) % 3, torch.randperm(8), 0.9 - 0.1 * step
        out = model(lam * x + (1 - lam) * x[order])
        entropy = torch.nn.functional.cross_entropy
        loss = (1 - lam) * entropy(out, y) + lam * entropy(out, y[order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x, y, order, lam = torch.randn(8, 4), torch.arange(8) % 3, torch.randperm(8), 0.9 - 0.1 * step
        out = model(lam * x + (1 - lam) * x[order])
        entropy = torch.nn.functional.cross_entropy
        loss = lam * entropy(out, y) + (1 - lam) * entropy(out, y[order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV753"
    name = "labels_mixed_otherwise"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        swapped: dict[int | None, list[tuple[Mix, Mix]]] = defaultdict(list)
        agreeing = set[int | None]()
        orders = mixes_by_order(flow)
        for found in orders.values():
            mixes = sorted(found, key=lambda mix: is_of_labels(flow, mix.row))
            data = mixes[0]
            for labels in mixes[1:]:
                site = flow.log.calls[labels.row].call_site
                if data.is_by_one_tensor and labels.is_by_one_tensor:
                    if data.weights == labels.weights[::-1]:
                        swapped[site].append((data, labels))
                    else:
                        agreeing.add(site)
                elif _are_same(data.own, labels.own) or not _are_same(data.own, labels.other):
                    agreeing.add(site)
                elif _are_same(data.other, labels.own):
                    swapped[site].append((data, labels))
        for site, pairs in swapped.items():
            if site not in agreeing and len(pairs) >= _OFTEN:
                yield self._finding(flow, *pairs[-1], len(pairs))

        yield from self._unmixed(case, orders)

    def _unmixed(self, case: Case, orders: dict[Hashable, list[Mix]]) -> Iterator[Finding]:
        """Mixes whose targets stay as they were, at each time that a line mixes."""
        flow = case.dataflow
        lines: dict[int | None, list[tuple[Mix, int | None]]] = defaultdict(list)
        for order, (mix, *others) in orders.items():
            if not others and not flow.log.calls[mix.row].live_inputs:
                compared = loss_without_partner(case, order, mix)
                lines[flow.log.calls[mix.row].call_site].append((mix, compared))
        for found in lines.values():
            share = max(mix.other[1] for mix, _ in found)
            mix, compared = found[-1]
            if len(found) < _OFTEN or share < _LEAST or compared is None or any(each is None for _, each in found):
                continue
            location, mixed = two_lines(flow, compared, mix.row)
            yield self.finding(
                f"up to {share:.2g} of each input is that of another sample{at_line(mixed)}, and its target is not "
                f"mixed ({len(found):,} times)",
                symptom="grad_wrong",
                why="the model is told that a mixed sample is nothing but the first of the two",
                fix="count both targets: lam * loss(out, y) + (1 - lam) * loss(out, y[order]), or mix the targets as "
                "the inputs",
                location=location,
                symptom_location=mixed,
                evidence={"share": share, "times": len(found)},
            )

    def _finding(self, flow: Dataflow, data: Mix, labels: Mix, times: int) -> Finding:
        location, mixed = two_lines(flow, labels.row, data.row)
        share, weight = data.own[0], labels.own[0]
        at = at_line(mixed)
        what = (
            f"each sample keeps a share of {share:.3g} of its own{at}, and its own label counts {weight:.3g}"
            if data.own[1] - data.own[0] < _EPSILON
            else f"of the inputs{at} and of the labels, the ones take the same weights for the sample itself, and the "
            "others for its partner"
        )
        return self.finding(
            f"{what}: the weights of the two labels are swapped ({times:,} times)",
            symptom="grad_wrong",
            why="the model is told that a mixed sample is mostly what it contains least of",
            fix="swap the weights: that of y is the share of x, and that of y[order] the share of x[order]",
            location=location,
            symptom_location=mixed,
            evidence={"share": share, "weight": weight, "times": times},
        )


_OFTEN = 2
_LEAST = 0.25
_EPSILON = 1e-3


def _are_same(one: Share, other: Share) -> bool:
    return all(abs(a - b) < _EPSILON for a, b in zip(one, other, strict=True))
