"""GV636."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule


class SplitTwice(Rule):
    """Data is split for training and validation by two different permutations.

    What it finds
    -------------
    Two calls of ``randperm()`` of the same length, of which one is only used up to an index, and the other one only
    from that index on. Programs that seed a generator on one of these lines, or between them, are left alone: both
    permutations may be the same.

    Why it matters
    --------------
    The two parts overlap: of a split of 80 to 20, 80 % of the validation samples are trained on. The validation loss
    then looks as good as that of training, and early stopping never stops.

    Example
    -------
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    train, held_out = torch.randperm(40)[8:], torch.randperm(40)[:8]
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = (model(x[train]) - y[train]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print((model(x[held_out]) - y[held_out]).square().mean())

    Instead
    -------
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    order = torch.randperm(40)
    train, held_out = order[8:], order[:8]
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = (model(x[train]) - y[train]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print((model(x[held_out]) - y[held_out]).square().mean())
    """

    code = "GV636"
    name = "split_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        parts = list(_parts(case))
        heads = {(part.count, part.bound): part for part in parts if part.is_head}
        tails = {(part.count, part.bound): part for part in parts if not part.is_head}
        for key in heads.keys() & tails.keys():
            head, tail = heads[key].call, tails[key].call
            first, second = (location_of_call(case.dataflow, row) for row in sorted((head, tail)))
            if first is not None and second is not None and not _may_be_seeded(case, first, second):
                yield self._finding(heads[key], first, second)

    def _finding(self, part: _Part, first: Location, second: Location) -> Finding:
        count, bound = part.count, part.bound % part.count
        share = max(bound, count - bound) / count
        return self.finding(
            f"two different permutations of {count:,} are split at {bound:,}: one gives what is before it, the other "
            "one what is behind it, so the two parts overlap",
            symptom="grad_wrong",
            why=f"about {share:.0%} of the smaller part is in the larger one, too: what is held out is trained on",
            fix="draw one permutation, and take both parts of it: order = torch.randperm(n); order[k:], order[:k]",
            location=second,
            symptom_location=first if first != second else None,
            evidence={"samples": count, "split_at": bound},
        )


class _Part(Struct, frozen=True):
    """The only part of a permutation that a program uses."""

    call: int
    count: int
    bound: int
    is_head: bool
    """Whether it is the part before the bound."""


def _parts(case: Case) -> Iterator[_Part]:
    """Of the first permutation of each line: a program that draws anew in each step takes a sample of the data."""
    flow, seen = case.dataflow, set[tuple[int | None, str]]()
    for row, call in enumerate(flow.log.calls):
        if call.kind != "operation" or plain_name(call.function) != "randperm" or not call.outputs:
            continue
        users = [flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row)]
        slices = [{place: user.scalars.get(place) for place in _BOUNDS} for user in users]
        if len(users) != 1 or plain_name(users[0].function) != "getitem":
            continue
        (start, stop), count = (slices[0][place] for place in _BOUNDS), shape_of(flow, call.outputs[0].tensor)[0]
        bound = stop if start is None else start if stop is None else None
        key = call.call_site, "head" if start is None else "tail"
        if type(bound) is int and -count < bound < count and bound and key not in seen:
            seen.add(key)
            yield _Part(row, count, bound, start is None)


_BOUNDS = ("1.start", "1.stop")
_FAR = 20


def _may_be_seeded(case: Case, first: Location, second: Location) -> bool:
    """Whether a seed may make both permutations the same, as far as the lines show it."""
    if first.file != second.file or abs(second.line - first.line) > _FAR:
        return True
    low, high = sorted((first.line, second.line))
    lines = (case.source_line(Location(first.file, line)) or "" for line in range(low, high + 1))
    return any("seed" in line or "generator" in line or "rng" in line for line in lines)
