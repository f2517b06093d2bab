"""GV602."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line_beside, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.copied_parameters import compared_copies, is_anchor, original_of
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines.lines_to_move import by_line, is_loaded, line_to_move, location_to_move
from gradviz.graph.model import CallSite


class StaleOptimizerParams(Rule):
    """The optimizer was made from parameters that the model no longer uses.

    What it finds
    -------------
    Parameters that get gradients and are in no optimizer, because the model got them after the optimizer was made: a
    layer was replaced, the model was built again or copied, or parameters were unfrozen that the optimizer did not get.
    If a layer was replaced, the optimizer still steps the old one.

    Why it matters
    --------------
    An optimizer keeps the tensors that it was given, not the model. It steps the old ones, which get no gradient and
    never change, while the new ones keep their initial values.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[1] = torch.nn.Linear(8, 3)
    for step in range(2):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    model[1] = torch.nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV602"
    name = "stale_optimizer_params"
    severity = "error"
    yields_to = ("update_discarded",)

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        made = [row for number in range(len(histories.log.optimizers)) for row in histories.given_at(number)[:1]]
        optimizer_made = min(made, default=None)
        if optimizer_made is None:
            return
        newcomers = [
            n
            for n in histories.untrained
            if histories.tensor(n).hidden_in is None and histories.tensor(n).names and n not in case.parameters_that_cut
        ]
        # A new one that the program normalizes or clips by hand trains as little as any other.
        candidates = histories.reached - histories.trained - case.parameters_that_cut
        replaced = dict(_replacements(histories, candidates, optimizer_made))
        unfrozen = {n: row for n in newcomers if (row := _unfrozen_after(histories, n, optimizer_made)) is not None}
        forgotten = case.forgotten_parameters
        originals = frozenset(newcomers).difference(replaced)
        copied = {n: of for n, of in case.copies_in_optimizers.items() if of in originals}
        known = {*replaced, *unfrozen, *copied.values()}
        late = _made_late(case, [n for n in newcomers if n not in known], optimizer_made)
        if copied:
            yield self._copies_in_optimizer(histories, copied)
        for rows in by_line(case, replaced.values(), _optimizer_before(histories, replaced.values())).values():
            new = [n for n in sorted(replaced) if replaced[n] in rows]
            yield self._replaced(case, rows, new, forgotten, _optimizer_before(histories, rows))
        if late:
            yield self._late(histories, late, forgotten, optimizer_made)
        if unfrozen:
            yield self._unfrozen(case, unfrozen, optimizer_made)
        else:
            yield from self._of_earlier_optimizers(case)

    def _of_earlier_optimizers(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        switched = [number for number in histories.trained if histories.flag_changes(number)]
        for current in [each for each in histories.steps_by_optimizer if each is not None]:
            earlier = {n: row for n in switched if (row := _of_earlier_optimizer(histories, n, current))}
            if earlier:
                yield self._unfrozen(case, dict(sorted(earlier.items())), histories.given_at(current)[0])

    def _replaced(self, case: Case, rows: list[int], new: list[int], forgotten: list[int], made: int) -> Finding:
        histories = case.histories
        row, calls = rows[0], histories.log.calls
        replaced = location_of_call(histories.flow, row)
        location = location_of_line(line_to_move(case, row, made))
        olds = (use for each in rows for use in calls[each].inputs if use.place.startswith("old"))
        had = {use.tensor for use in olds} & {use.tensor for use in calls[made].inputs}
        old = sorted(had.intersection(forgotten))
        names = together(dict.fromkeys(repr(calls[each].name) for each in rows))
        inside = "" if replaced is None or replaced == location else f" in {_file_name(replaced)}:{replaced.line}"
        optimizer_location = location_of_call(histories.flow, made)
        return self.finding(
            f"{histories.together(new)} {'is' if len(new) == 1 else 'are'} in no optimizer: {names} "
            f"{'was' if len(names.split()) == 1 else 'were'} replaced{inside} after the optimizer was made"
            f"{at_line_beside(optimizer_location, location)}{', which still holds the old one' if had else ''}",
            tensors=names_of(histories.flow, new),
            symptom="grad_none",
            why="an optimizer keeps the tensors that it was given: old ones get no gradient, and new ones never change",
            fix="leave assign=True out, so that the values are copied into the parameters that the optimizer has"
            if is_loaded(case, histories.flow.line_of(row))
            else "make the optimizer after the replacement; to keep its state, put the new parameters in the place of "
            "the old ones in its param_groups",
            location=location,
            symptom_location=optimizer_location,
            evidence={"replaced": calls[row].name, "old_parameters_in_optimizer": len(old)},
        )

    def _copies_in_optimizer(self, histories: ParameterHistories, copied: dict[int, int]) -> Finding:
        originals = sorted(set(copied.values()))
        first = next(iter(copied))
        made = min(row for o in histories.optimizers_of(first) for row in histories.given_at(o))
        location = location_of_call(histories.flow, made)
        copying = location_of_line(histories.line_where_made(first))
        return self.finding(
            f"the optimizer has copies of {histories.together(originals)}, which nothing uses: "
            f"{'this one is' if len(originals) == 1 else 'these are'} in no optimizer and "
            f"never change{'s' if len(originals) == 1 else ''}",
            tensors=names_of(histories.flow, [*originals, *copied]),
            symptom="grad_none",
            why="an optimizer keeps the tensors that it was given: clone(), deepcopy() and detach() make other ones",
            fix="give the optimizer the parameters of the model that computes the loss, not copies",
            location=location,
            symptom_location=copying if copying != location else None,
            evidence={"unused_parameters_in_optimizer": len(copied)},
        )

    def _late(
        self, histories: ParameterHistories, late: list[int], forgotten: list[int], optimizer_made: int
    ) -> Finding:
        optimizer_made = _newest_that_steps(histories, late) or optimizer_made
        optimizer_location = location_of_call(histories.flow, optimizer_made)
        after = [n for n in late if _is_made_after(histories, n, optimizer_made)]
        made = location_to_move(histories, after[0], optimizer_made) if after else optimizer_location
        what = "were made after it" if after else "belong to another model than those that it got"
        old = f", and nothing uses {len(forgotten)} of those that it has" if forgotten else ""
        return self.finding(
            f"the optimizer does not have {histories.together(late)}: they {what}{old}",
            tensors=names_of(histories.flow, late),
            symptom="grad_none" if forgotten else "grad_wrong",
            why="an optimizer keeps the tensors that it was given: later ones get gradients, but no step",
            fix="make the optimizer from the model that trains, after the model is complete",
            location=made,
            symptom_location=optimizer_location if made != optimizer_location else None,
            evidence={"unused_parameters_in_optimizer": len(forgotten)},
        )

    def _unfrozen(self, case: Case, unfrozen: dict[int, int], optimizer_made: int) -> Finding:
        histories = case.histories
        new, row = list(unfrozen), min(unfrozen.values())
        location = location_of_line(line_to_move(case, row, optimizer_made))
        set_at = location_of_call(histories.flow, row)
        return self.finding(
            f"{histories.together(new)} {'was' if len(new) == 1 else 'were'} unfrozen, but no optimizer that still "
            f"steps has {'it' if len(new) == 1 else 'them'}: the optimizer was made before, without frozen parameters",
            tensors=names_of(histories.flow, new),
            symptom="grad_wrong",
            why="they get gradients after that, but no step, and nothing clears these gradients",
            fix="give them to the optimizer when you unfreeze them: optimizer.add_param_group({'params': ...})",
            location=location,
            symptom_location=set_at if set_at != location else None,
        )


def _replacements(histories: ParameterHistories, newcomers: frozenset[int], since: int) -> Iterator[tuple[int, int]]:
    """Parameters that replaced one that an optimizer had, or one that had replaced it, with the call that did so."""
    stale = set(histories.trained)
    for row, call in enumerate(histories.log.calls):
        if row < since or call.kind not in ("register_parameter", "register_module"):
            continue
        old = {use.tensor for use in call.inputs if use.place.startswith("old")}
        if old & stale:
            new = {use.tensor for use in call.inputs if use.place.startswith("new")}
            stale |= new
            yield from ((tensor, row) for tensor in sorted(new & newcomers))


def _optimizer_before(histories: ParameterHistories, replaced: Iterable[int]) -> int:
    """The call that made an optimizer before a replacement: the newest one that steps after it, if any does."""
    row = min(replaced, default=len(histories.log.calls))
    numbers = range(len(histories.log.optimizers))
    made = {number: given[0] for number in numbers if (given := histories.given_at(number)) and given[0] < row}
    steps = histories.steps_by_optimizer
    stepping = [each for number, each in made.items() if max(steps.get(number, ()), default=-1) > row]
    return max(stepping or made.values())


def _file_name(location: Location) -> str:
    return location.file.replace("\\", "/").rpartition("/")[2]


def _made_late(case: Case, newcomers: list[int], optimizer_made: int) -> list[int]:
    """Those that were made when the optimizer was there, and that no step can have been meant to leave out."""
    histories, forgotten = case.histories, case.forgotten_parameters
    targets, remade = compared_copies(histories), set(case.missing_gradients.remade.values())
    # A copy for each step is made to be thrown away; that its original never trains is told by itself.
    told = frozenset(number for found in case.copies_used if found.is_new for number in found.copies)
    late = [
        n
        for n in newcomers
        if (histories.tensor(n).role == "parameter" or _is_copy_of(histories, n, forgotten))
        and (_is_made_after(histories, n, optimizer_made) or _is_all(histories, forgotten))
        and n not in targets
        and n not in remade
        and not is_anchor(histories, n)
        and original_of(histories, n, told) is None
    ]
    adapted = _copied_and_adapted(histories) if late else frozenset()
    of_trained = (n for n in late if original_of(histories, n, histories.trained) is not None)
    thrown_away = {n for n in of_trained if histories.line_where_made(n) in adapted}
    return [n for n in late if n not in thrown_away]


def _copied_and_adapted(histories: ParameterHistories) -> frozenset[CallSite | None]:
    """The lines that copy a model of which no optimizer steps, but the program changes some parameters by hand, as in
    the inner loop of meta-learning: it is thrown away after that."""
    by_hand = histories.reached - histories.trained - frozenset(histories.untrained)
    leaves = (n for n in by_hand if histories.tensor(n).role == "parameter" and histories.made_by(n) is not None)
    copies = (n for n in leaves if original_of(histories, n, histories.trained) is not None)
    return frozenset(map(histories.line_where_made, copies))


def _unfrozen_after(histories: ParameterHistories, number: int, since: int) -> int | None:
    """The call that unfroze it, if it was frozen when the optimizer was made."""
    changes = histories.flag_changes(number)
    before = [flag for row, flag in changes if row < since]
    after = [row for row, flag in changes if row > since and flag]
    return after[0] if after and before and not before[-1] else None


def _of_earlier_optimizer(histories: ParameterHistories, number: int, current: int) -> int | None:
    """The call that unfroze it, if it was frozen when an optimizer was made that never got it, gets gradients with the
    steps of that one, and only optimizers of an earlier phase have it."""
    owners = histories.optimizers_of(number)
    given = histories.given_at(current)
    unfrozen = _unfrozen_after(histories, number, given[0]) if given and current not in owners else None
    last = max((row for owner in owners for row in histories.steps_by_optimizer.get(owner, ())), default=-1)
    if unfrozen is None or last > given[0]:
        return None
    steps = [row for row in histories.steps_by_optimizer[current] if row > unfrozen]
    reaching = [row for row, leaves in histories.reached_by.items() if row > unfrozen and number in leaves]
    return unfrozen if len(steps) >= _MIN_STEPS and len(reaching) >= _MIN_STEPS else None


_MIN_STEPS = 2


def _newest_that_steps(histories: ParameterHistories, late: list[int]) -> int | None:
    """The call that made the newest optimizer that steps once these have a gradient, if it was made after all of them:
    it was given other ones."""
    first = min((histories.first_reach[n] for n in late if n in histories.first_reach), default=None)
    stepping = (
        number for number, rows in histories.steps_by_optimizer.items() if first is not None and rows[-1] > first
    )
    made = max(
        (rows[0] for number in stepping if number is not None and (rows := histories.given_at(number))), default=-1
    )
    return made if made >= 0 and not any(_is_made_after(histories, n, made) for n in late) else None


def _is_made_after(histories: ParameterHistories, number: int, since: int) -> bool:
    made = histories.made_by(number)
    return made is not None and made > since


def _is_copy_of(histories: ParameterHistories, number: int, forgotten: list[int]) -> bool:
    """Whether it started with the values of one of these, which nothing else uses."""
    if not forgotten:
        return False
    above = {use.tensor for row in histories.flow.ancestors(number) for use in histories.log.calls[row].inputs}
    return not above.isdisjoint(forgotten)


def _is_all(histories: ParameterHistories, forgotten: list[int]) -> bool:
    """Whether nothing that the optimizers hold is used."""
    return bool(forgotten) and len(forgotten) == len(histories.trained)
