"""Parameters that have no influence on the loss, and the line that should have used them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import callers, is_in_library, location_of_call
from gradviz.analysis.dataflow.cuts import Cut
from gradviz.analysis.dataflow.refused_calls import refused_roots
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.parameters.chosen_modules import is_one_of_chosen
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.model import CallSite
from gradviz.graph.traversal import scopes_around


class UnusedParameters(Struct, frozen=True):
    """Parameters of one module, or of similar modules, that are unused in the same way."""

    tensors: tuple[int, ...]
    location: Location | None
    """The line that should have used them, or where the result is lost; None if unknown."""
    last: int | None = None
    """The last call that computed something from them, if that result is lost."""
    instead: int | None = None
    """A parameter of a module that is called twice where this one should have been called."""
    is_of_library: bool = False
    """True for modules that a library made, and for results that it computes: its users cannot change that."""
    is_chosen: bool = False
    """True for elements of a list among which the program chooses, as a router does among experts."""
    is_set_by_name: bool = False
    """True where `location` gave their module to ``setattr()``."""


_OFTEN_MEANT = ("no_grad", "inference", "value")
"""Cuts of evaluations and of numbers that are printed."""


def never_used(
    histories: ParameterHistories, source_line: Callable[[Location | None], str | None]
) -> list[UnusedParameters]:
    """Parameters that optimizers step, and that nothing is computed from."""
    if not histories.steps or not histories.reached:
        return []
    silent = [
        number
        for number in sorted(histories.trained - histories.reached)
        if histories.is_ever_stepped_live(number)
        and _is_on(histories, number)
        and (not histories.is_used(number) or histories.is_only_copied(number))
    ]
    groups: dict[tuple[Location | None, bool, bool, str, bool], list[tuple[int, int | None]]] = defaultdict(list)
    siblings = Siblings(histories)
    used = {_place(histories.line_where_made(number)) for number in histories.reached}
    for number in silent:
        location, instead = siblings.where_it_belongs([number])
        own = line = histories.line_where_made(number)
        while line is not None and _place(line) in used and line.caller is not None:
            # The same line also made parameters that are used: the line that called it tells them apart.
            line = histories.log.call_sites[line.caller]
        if location is None and line is not own:
            location = location_of_line(line)
        set_by_name = _line_of_setattr(histories, number, source_line) if location is None else None
        location = location or set_by_name
        is_chosen = instead is None and is_one_of_chosen(histories, number)
        key = (
            None if is_chosen else location,
            is_made_by_library(histories, number),
            is_chosen,
            str(line) if location is None and not is_chosen else "",
            set_by_name is not None,
        )
        groups[key].append((number, instead))
    return [
        UnusedParameters(
            tuple(number for number, _ in each), location, None, each[0][1], is_of_library, is_chosen, is_set_by_name
        )
        for (location, is_of_library, is_chosen, _, is_set_by_name), each in groups.items()
    ]


def _line_of_setattr(
    histories: ParameterHistories, number: int, source_line: Callable[[Location | None], str | None]
) -> Location | None:
    """The line that made the module of a parameter, and gave it to ``setattr()``."""
    made = histories.made_by(number)
    lines = () if made is None else callers(histories.flow, made)
    locations = (location_of_line(line) for line in lines)
    return next((each for each in locations if "setattr(" in (source_line(each) or "")), None)


def _place(site: CallSite | None) -> tuple[str, int] | None:
    return None if site is None else (site.file, site.line)


def used_for_nothing(histories: ParameterHistories, explained: Container[int]) -> Iterator[UnusedParameters]:
    """Parameters that optimizers step, and that are only used for results that no loss uses, though nothing cuts
    them off. Some may be `explained` already."""
    yield from _lost_results(
        histories,
        [
            number
            for number in sorted(histories.trained - histories.reached)
            if number not in explained and histories.is_ever_stepped_live(number)
        ]
        if histories.steps and histories.reached_by
        else [],
    )


def cut_before_hidden_code(
    histories: ParameterHistories, explained: Container[int]
) -> Iterator[tuple[Cut, tuple[int, ...]]]:
    """Parameters that optimizers step, that no gradient reaches, and that a call cuts off whose result goes into
    compiled code of which the calls are not known; with the first such call. Some may be `explained` already."""
    found: dict[int, tuple[Cut, list[int]]] = {}
    is_any_hidden = histories.steps and histories.reached_by and histories.has_compiled_code
    for number in sorted(histories.trained - histories.reached) if is_any_hidden else ():
        if number not in explained and histories.is_ever_stepped_live(number):
            cuts = [each for each in histories.flow.cuts_below(number) if each.kind not in _OFTEN_MEANT]
            if cuts:
                found.setdefault(cuts[0].call, (cuts[0], []))[1].append(number)
    yield from ((cut, tuple(tensors)) for cut, tensors in found.values())


def lost_before(histories: ParameterHistories, backward: int) -> Iterator[UnusedParameters]:
    """The same for a loss that a call refused, because it was computed from no trained tensor at all."""
    since = histories.flow.step_before(backward)
    used = [number for number in sorted(histories.trained) if histories.forward_uses(number, after=since)]
    yield from _lost_results(histories, used)


def losses_of_no_parameter(histories: ParameterHistories) -> Iterator[tuple[int, int]]:
    """Backward calls that were refused though nothing was cut or frozen, with the loss: no parameter is in it."""
    for row in histories.backward_calls if histories.trained else ():
        call = histories.log.calls[row]
        for root in refused_roots(call) if histories.flow.is_by_program(call) else ():
            above = histories.flow.ancestors(root, before=row)
            calls = [histories.log.calls[each] for each in above]
            uses = [use for each in calls for use in each.inputs]
            is_any_used = any(
                use.requires_grad or use.tensor in histories.trained or histories.tensor(use.tensor).role == "parameter"
                for use in uses
            )
            if calls and not is_any_used and not any(histories.flow.inside(each) for each in above):
                yield row, root


def _lost_results(histories: ParameterHistories, tensors: Sequence[int]) -> Iterator[UnusedParameters]:
    groups: dict[tuple[Location | None, bool], list[int]] = defaultdict(list)
    last: dict[tuple[Location | None, bool], int] = {}
    for number in tensors:
        # An evaluation cuts, and goes into no loss. What left torch may have come back unseen.
        if any(cut.kind not in ("no_grad", "inference") for cut in histories.flow.cuts_below(number)):
            continue
        uses = [row for row in histories.forward_uses(number) if _is_live(histories, row, number)]
        if uses:
            location, row = _where_it_is_lost(histories, number, uses[-1])
            key = location, is_in_library(histories.flow, row)
            groups[key].append(number)
            last.setdefault(key, row)
    for key, tensors in groups.items():
        yield UnusedParameters(tuple(tensors), key[0], last[key], is_of_library=key[1])


def used_out_of_sight(histories: ParameterHistories) -> list[tuple[int, ...]]:
    """Parameters that optimizers step and that no backward reached, of modules whose calls were not recorded: those of
    other threads, and those of TorchScript."""
    silent = sorted(histories.trained - histories.reached) if histories.steps and histories.reached else ()
    found = defaultdict[bool, list[int]](list)
    for number in silent:
        tensor = histories.tensor(number)
        is_seen = not tensor.is_in_script and bool(histories.forward_uses(number))  # torch.jit.trace() runs it once
        if tensor.is_used_elsewhere and _is_on(histories, number) and not is_seen:
            found[tensor.is_in_script].append(number)
    return [tuple(tensors) for tensors in found.values()]


def refused_targets(histories: ParameterHistories) -> Iterator[tuple[int, int]]:
    """Tensors that ``autograd.grad`` refused because the loss was not computed from them, with the call."""
    for row in histories.backward_calls:
        call = histories.log.calls[row]
        if call.raised is None or "not have been used in the graph" not in call.raised:
            continue
        roots = [use.tensor for use in call.roots]
        above = set(roots)
        for root in roots:
            for maker in histories.flow.ancestors(root, before=row):
                above.update(use.tensor for use in histories.log.calls[maker].inputs)
        yield from ((use.tensor, row) for use in call.asked if use.requires_grad and use.tensor not in above)


class Siblings:
    """The same parameter of sibling modules, ``net.a.weight`` and ``net.b.weight``: the use of one shows where another
    one should have been used. Each group of siblings is visited once."""

    def __init__(self, histories: ParameterHistories) -> None:
        self._histories = histories
        self._sibling_uses: dict[tuple[str, str, int], _SiblingUses] = {}

    def where_it_belongs(
        self, tensors: Sequence[int], *, any_sibling: bool = False
    ) -> tuple[Location | None, int | None]:
        """The line that should have used them, judged by their siblings, and the sibling that shows it.

        If a sibling of the same shape is called twice in one call of their parent, one of the calls was meant for
        these. If one line calls all siblings, as for the elements of a list, that line should have used them.
        """
        histories = self._histories
        for number in tensors:
            for depth in range(1, histories.name(number).count(".")):
                uses = self._siblings(number, depth)
                for sibling, location in uses.called_twice:
                    if sibling != number and _is_alike(histories, sibling, number):
                        return location, sibling
            lines = {location for sibling, location in self._siblings(number, 1).used_at.items() if sibling != number}
            if len(lines) == 1 and (any_sibling or _is_in_list(histories, number)):
                return lines.pop(), None
        return None, None

    def _siblings(self, number: int, depth: int) -> _SiblingUses:
        """A parameter and those of the siblings of its module, or of the module so many levels above it."""
        parts = self._histories.name(number).split(".")
        key = ".".join(parts[: -depth - 1]), ".".join(parts[-depth:]), len(parts)
        if key not in self._sibling_uses:
            self._sibling_uses[key] = self._looked_at(*key)
        return self._sibling_uses[key]

    def _looked_at(self, parent: str, own: str, length: int) -> _SiblingUses:
        histories = self._histories
        names = [(number, histories.name(number)) for number in (histories.parameters_below(parent) if parent else ())]
        members = [number for number, name in names if name.count(".") == length - 1 and name.endswith(f".{own}")]
        uses = {number: rows for number in members if (rows := histories.forward_uses(number))}
        levels = own.count(".") + 1
        again = ((number, _second_line(histories, rows, levels)) for number, rows in uses.items())
        return _SiblingUses(
            tuple((number, location) for number, location in again if location is not None),
            {number: location_of_call(histories.flow, rows[-1]) for number, rows in uses.items()},
        )


class _SiblingUses(NamedTuple):
    """The uses of sibling parameters."""

    called_twice: tuple[tuple[int, Location], ...]
    """Those whose module is called twice in one call of its parent, with the line of the last of these calls."""
    used_at: dict[int, Location | None]
    """Those that are used, with the line of their last use."""


def _is_in_list(histories: ParameterHistories, number: int) -> bool:
    return histories.name(number).rpartition(".")[0].rpartition(".")[2].isdigit()


def _is_alike(histories: ParameterHistories, one: int, other: int) -> bool:
    return histories.tensor(one).facts.shape == histories.tensor(other).facts.shape


def _second_line(histories: ParameterHistories, uses: Sequence[int], levels: int) -> Location | None:
    """The line of the last of several uses in the same call of the module so many levels above: of a layer that a
    module has inside, the line that calls the module."""
    newest: dict[int, int] = {}
    for row in uses:
        around = list(scopes_around(histories.log.scopes, histories.log.calls[row].scope))
        parent = around[levels] if levels < len(around) else None
        if parent is not None and parent in newest:
            return location_of_call(histories.flow, row) if levels == 1 else _line_apart(histories, newest[parent], row)
        if parent is not None:
            newest[parent] = row
    return None


def _line_apart(histories: ParameterHistories, one: int, other: int) -> Location | None:
    """The innermost line of a call that is another one than that of the same function, or depth, of an earlier call."""
    pairs = zip(callers(histories.flow, one), callers(histories.flow, other), strict=False)
    return next((location_of_line(line) for earlier, line in pairs if _place(earlier) != _place(line)), None)


def _is_on(histories: ParameterHistories, number: int) -> bool:
    end = histories.tensor(number).end
    return end is None or end.requires_grad


def _is_live(histories: ParameterHistories, row: int, number: int) -> bool:
    call = histories.log.calls[row]
    return any(use.requires_grad for use in call.outputs) and any(u.tensor == number for u in call.live_inputs)


def _where_it_is_lost(histories: ParameterHistories, number: int, use: int) -> tuple[Location | None, int]:
    """The next line that uses the same input where it could use the result; else the line of the last result. Also the
    call of that last result.

    It could if both have the same shape. A line with an input of another shape computes something else.
    """
    calls = histories.log.calls
    again = next(iter(histories.flow.users(number, after=use)), None)
    below = histories.flow.descendants(number, after=use - 1, until=again, live=True)
    last = [row for row in below if calls[row].kind == calls[use].kind][-1]
    given = [each.tensor for each in calls[use].inputs if histories.tensor(each.tensor).role == "tensor"]
    own = location_of_call(histories.flow, last)
    results = {histories.tensor(each.tensor).facts.shape for each in calls[last].outputs}
    could_take = given and histories.tensor(given[0]).facts.shape in results
    for row in histories.flow.users(given[0], after=last) if could_take else ():
        location = location_of_call(histories.flow, row)
        if location is not None and own is not None and location.file == own.file and location.line > own.line:
            return location, last
    return own, last


def is_made_by_library(histories: ParameterHistories, number: int) -> bool:
    """Whether the code that made the module belongs neither to the user nor to torch."""
    row = histories.made_by(number)
    site = histories.log.calls[row].call_site if row is not None else None
    while site is not None and "/torch/" in histories.log.call_sites[site].file.replace("\\", "/"):
        site = histories.log.call_sites[site].caller
    return site is not None and histories.log.call_sites[site].is_library
