"""GV636."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import callers, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.rows_by_number import drawn_twice
from gradviz.analysis.rules.bases.unread_names import indent_of
from gradviz.graph.call_log import Call


class SplitTwice(Rule):
    """Data is split for training and validation by two different permutations.

    What it finds
    -------------
    Two calls of ``randperm()``, or of ``rand(n).argsort()``, of the same length, of which one is only used up to an
    index, and the other one only from that index on: by slices, ``split()`` or ``narrow()``, also where a function or a
    class that is called for each of the two parts draws. Likewise two calls of ``random_split()``, where rows that are
    read without gradients are read with them as well. Programs that seed a generator on one of these lines, between
    them, or before them in such a function, are left alone: both permutations may be the same.

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
            flow, head, tail = case.dataflow, heads[key].call, tails[key].call
            first, second = (location_of_call(flow, row) for row in sorted((head, tail)))
            if first is None or second is None or _are_of_other_data(flow, head, tail):
                continue
            if not _may_be_seeded(case, first, second) and not _may_callers_seed(case, head, tail):
                count, bound = heads[key].count, heads[key].bound
                yield self._finding(count, bound % count, first, second)
        started = next(iter(case.histories.backward_calls), 0)
        for found in drawn_twice(case.dataflow, started):
            first, second = (
                location_of_line(line_apart(case.dataflow, *rows))
                for rows in ((found.first, found.second), (found.second, found.first))
            )
            if first is not None and second is not None:
                yield self._finding(found.count, found.held_out, first, second)

    def _finding(self, count: int, bound: int, first: Location, second: Location) -> Finding:
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
        if call.kind != "operation" or not call.outputs or not _is_permutation(flow, row, call):
            continue
        count = shape_of(flow, call.outputs[0].tensor)[0]
        used = _used_parts(flow, row, call.outputs[0].tensor, count)
        start, stop = used.pop() if len(used) == 1 else (0, count)
        if (start == 0) is (stop == count):
            continue
        bound = stop if start == 0 else start
        key = call.call_site, "head" if start == 0 else "tail"
        if 0 < bound < count and key not in seen:
            seen.add(key)
            yield _Part(row, count, bound, start == 0)


def _is_permutation(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call draws a permutation: ``randperm(n)``, or ``rand(n).argsort()``."""
    name = plain_name(call.function)
    if name != "argsort" or len(shape_of(flow, call.outputs[0].tensor)) != 1:
        return name == "randperm"
    drawn = flow.newest_producer(call.inputs[0].tensor, row)
    return drawn is not None and plain_name(flow.log.calls[drawn].function) in ("rand", "randn")


def _used_parts(flow: Dataflow, row: int, tensor: int, count: int) -> set[tuple[int, int]]:
    """Where the parts of a permutation begin and end that a program has a use for; all of it for another use."""
    used: set[tuple[int, int]] = set()
    for user in flow.users(tensor, row):
        call = flow.log.calls[user]
        for use, part in zip(call.outputs, _parts_of(flow, call, count), strict=False):
            if part is None or flow.users(use.tensor, user):
                used.add(part or (0, count))
        if not call.outputs:
            used.add((0, count))
    return used


def _parts_of(flow: Dataflow, call: Call, count: int) -> list[tuple[int, int] | None]:
    """By result of a call, which part of a permutation it is; None for anything else."""
    name, told = plain_name(call.function), call.scalars
    if name in ("split", "split_with_sizes", "tensor_split", "chunk"):
        ends = list(accumulate(shape_of(flow, use.tensor)[0] for use in call.outputs))
        return list(zip([0, *ends], ends, strict=False))
    if name == "narrow":
        start, length = told.get("2", told.get("start")), told.get("3", told.get("length"))
        return [(start % count, start % count + length) if type(start) is type(length) is int else None]
    if name != "getitem" or len(call.inputs) > 1:
        return [None for _ in call.outputs]
    start, stop = (told.get(place, default) for place, default in (("1.start", 0), ("1.stop", count)))
    if type(start) is not int or type(stop) is not int or "1" in told:
        return [None]
    first, last = (min(each, count) if each >= 0 else max(each + count, 0) for each in (start, stop))
    is_slice = shape_of(flow, call.outputs[0].tensor) == (last - first,)
    return [(first, last) if is_slice else None]


def _are_of_other_data(flow: Dataflow, head: int, tail: int) -> bool:
    """Whether two permutations choose from tensors that are not the same."""
    chosen = [set(_chosen_from(flow, row)) for row in (head, tail)]
    return all(chosen) and chosen[0].isdisjoint(chosen[1])


def _chosen_from(flow: Dataflow, row: int) -> Iterator[int]:
    """The tensors from which the parts of a permutation choose."""
    for part in flow.users(flow.log.calls[row].outputs[0].tensor, row):
        for use in flow.log.calls[part].outputs:
            for user in flow.users(use.tensor, part):
                call = flow.log.calls[user]
                if plain_name(call.function) in ("getitem", "index_select") and call.inputs[0].tensor != use.tensor:
                    yield call.inputs[0].tensor


# -- seeds -------------------------------------------------------------------------------------------------------------

_FAR = 20
_SEEDS = re.compile("seed|generator|rng")


def _may_callers_seed(case: Case, head: int, tail: int) -> bool:
    """Whether a function that leads to both calls may seed before each: in the lines up to it, from the line where the
    ways to the two calls part."""
    ways = [list(callers(case.dataflow, row))[::-1] for row in sorted((head, tail))]
    for one, other in zip(*ways, strict=False):
        if (one.file, one.line) != (other.file, other.line):
            low, high = sorted((one.line, other.line))
            return one.file == other.file and _has_seed(case, one.file, low, high)
        if _has_seed(case, one.file, _first_of_block(case, one.file, one.line), one.line):
            return True
    return False


def _has_seed(case: Case, file: str, low: int, high: int) -> bool:
    return any(_SEEDS.search(case.source_line(Location(file, line)) or "") for line in range(low, high + 1))


def _may_be_seeded(case: Case, first: Location, second: Location) -> bool:
    """Whether a seed may make both permutations the same, as far as the lines show it."""
    if first.file != second.file or abs(second.line - first.line) > _FAR:
        return True
    low, high = sorted((first.line, second.line))
    low = _first_of_block(case, first.file, low) if low == high else low
    return _has_seed(case, first.file, low, high)


def _first_of_block(case: Case, file: str, line: int) -> int:
    """The line that begins the function, or the loop, around a line: what runs twice may seed before it draws."""
    text = case.source_line(Location(file, line)) or ""
    indent, first = indent_of(text), line
    for above in range(line - 1, max(line - _FAR, 0), -1):
        text = case.source_line(Location(file, above)) or ""
        if not indent or (text.strip() and not indent_of(text) and not _BEGINS.match(text)):
            break
        first = above
        if text.strip() and indent_of(text) < indent:
            indent = indent_of(text)
            if _BEGINS.match(text):
                break
    return first


_BEGINS = re.compile(r"\s*(async\s+)?(def|for|while)\b")
