"""GV617."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.draws.equal_members import EqualMembers, equal_members
from gradviz.analysis.rules.bases.batches.draws.given_seeds import line_that_gives_the_seed, takes_generator
from gradviz.analysis.rules.bases.batches.draws.views_alike import draws_of_equal_views
from gradviz.analysis.rules.bases.batches.fresh_operands import ARITHMETIC, DRAWS, KEEPS_ONE, is_fresh
from gradviz.analysis.rules.bases.batches.seeded_again import (
    MIN_NUMBERS,
    different_draws,
    line_that_seeds_all,
    rows_of_one_optimizer,
    rows_of_repeated_rounds,
)
from gradviz.analysis.sources.parsed_lines import function_around
from gradviz.analysis.sources.source_tree import last_line, tree_of
from gradviz.graph.call_log import Call, TensorUse


class SameRandomNumbers(Rule):
    """The same random numbers are drawn at every step.

    What it finds
    -------------
    Noise that a line draws anew for every step and that has the same values each time, though the data beside it
    change: it is added to or multiplied with tensors of the step, or its order or a comparison chooses among what the
    model has computed, as a random mask does; and it goes into the loss. It compares the smallest and the largest
    number that were drawn, whether a generator is seeded each time or gets its old state back. Where both are drawn,
    either may be the data, and nothing is reported. Also noise that comes back after some steps of one optimizer, since
    a validation or a sampler seeds all random numbers; and noise or chosen samples that come back in each round of a
    training, as those of a client of federated averaging, where copies of one model are trained that learns from them.
    Two views of a batch for which a step draws the same numbers, if a network makes the same results of both and the
    loss compares them: a function that makes and seeds a generator, and that is called for each view.
    Samples of a group that are joined and are one and the same, since each turn of a loop seeds with the same number,
    or gives the same seed to a function.
    And noise that is added to the only batch of a training and that a network is asked for, if the function that draws
    it seeds a generator of its own.

    Why it matters
    --------------
    A generator that is seeded anew before each draw gives the same numbers. A model that should learn to deal with any
    noise sees one sample of it, and learns that by heart.

    Example
    -------
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(64, 4).split(16):
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(16, 4, generator=generator)
        loss = (model(x + noise) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(0)
    for x in torch.randn(64, 4).split(16):
        noise = torch.randn(16, 4, generator=generator)
        loss = (model(x + noise) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV617"
    name = "same_random_numbers"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        draws: dict[tuple[int | None, bool], list[int]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            name = plain_name(call.function)
            if call.inside is None and name in DRAWS | _DRAWS_OF_ROWS and call.outputs and not call.raised:
                draws[call.call_site, name in DRAWS].append(row)
        told: set[Location | None] = set()
        for (_, is_noise), rows in draws.items():
            if len(rows) < _MIN_DRAWS or 2 * len(rows) < len(_steps_of_drawing(case, rows)):
                continue
            drawn, location = location_of_call(flow, rows[-1]), _seeding_line(case, rows[-1])
            is_of_own = drawn is not None and takes_generator(case, drawn)
            if location == drawn and not is_of_own:
                location = line_that_seeds_all(case, rows) or drawn
            matters = _why_it_matters(case, rows, is_seeded_there=is_of_own and location != drawn) if is_noise else None
            given = None
            if matters is not None and location is not None:
                given = line_that_gives_the_seed(case, rows[-1], location)
            if matters is not None and (given or location) not in told:
                told.add(given or location)
                yield self._finding(case, rows, location, matters, given)
                continue
            again = rows_of_one_optimizer(flow, rows) if is_noise else []
            different = different_draws(flow, again)
            if different is None and (again := rows_of_repeated_rounds(case, rows)):
                different = len({flow.log.calls[row].outputs[0].values for row in again})
            if (
                different is None
                and not is_noise
                and not is_of_own
                and (seeded := _seeded_elsewhere(case, rows)) is not None
            ):
                again, different, location = rows, 1, seeded
            if different is None or case.histories.backward_through(again[-1]) is None:
                continue
            location = (None if is_of_own else line_that_seeds_all(case, again)) or location
            if location not in told:
                told.add(location)
                yield self._drawn_again(case, again, different, location)
        for members in equal_members(case):
            if members.seeded not in told:
                told.add(members.seeded)
                yield self._members(case, members)
        for row, twin in draws_of_equal_views(case):
            location = _seeding_line(case, twin)
            if location is not None and location not in told:
                told |= {location, _seeding_line(case, row)}
                yield self._views(case, twin, location)

    def _finding(
        self, case: Case, rows: list[int], location: Location | None, matters: str, given: Location | None
    ) -> Finding:
        flow = case.dataflow
        words, drawn = call_words(flow.log.calls[rows[-1]]), location_of_call(flow, rows[-1])
        is_put_back = _PUTS_BACK.search(case.source_line(location) or "") is not None
        why, fix = _PUT_BACK if is_put_back else _SEEDED_EACH_TIME if given is None else _GIVEN_EACH_TIME
        return self.finding(
            f"{words}{at_line(drawn)} drew the same numbers all {len(rows):,} times, {matters}",
            symptom="grad_wrong",
            why=why,
            fix=fix,
            location=given or location,
            symptom_location=drawn if drawn != (given or location) else None,
            evidence={"times": len(rows)},
        )

    def _views(self, case: Case, twin: int, location: Location) -> Finding:
        flow = case.dataflow
        words, drawn = call_words(flow.log.calls[twin]), location_of_call(flow, twin)
        return self.finding(
            f"{words}{at_line(drawn)} drew the same numbers twice in each step: the two views that a network gets, and "
            "that the loss compares, are equal",
            symptom="grad_wrong",
            why="two equal inputs have equal results, so their comparison asks for nothing that the noise should teach",
            fix="draw both views from one generator that is made before the loop, or give each view a seed of its own",
            location=location,
            symptom_location=drawn if drawn != location else None,
        )

    def _members(self, case: Case, members: EqualMembers) -> Finding:
        flow = case.dataflow
        joined, drawn = flow.log.calls[members.joined], location_of_call(flow, members.draw)
        step = flow.next_of_kind("step", members.joined)
        stepped = [use.tensor for call in flow.log.calls[step : step + 1] for use in call.inputs]
        return self.finding(
            f"{call_words(flow.log.calls[members.draw])}{at_line(drawn)} drew the same numbers in each turn of the "
            f"loop: all {len(joined.inputs)} results that {call_words(joined)} joins are one and the same",
            symptom="grad_wrong",
            why="each turn seeds the generator with the same number, so what is compared within the group is equal",
            fix="make and seed the generator once, before the loop, and pass it on; or add the number of the turn to "
            "the seed",
            location=members.seeded,
            symptom_location=drawn,
            tensors=names_of(flow, stepped),
            evidence={"results": len(joined.inputs)},
        )

    def _drawn_again(self, case: Case, rows: list[int], different: int, location: Location | None) -> Finding:
        flow = case.dataflow
        words, drawn = call_words(flow.log.calls[rows[-1]]), location_of_call(flow, rows[-1])
        text = case.source_line(location) or ""
        why, fix = _MADE_ANEW if "Generator(" in text else _PUT_BACK if _PUTS_BACK.search(text) else _SEEDS_ALL
        return self.finding(
            f"{words}{at_line(drawn)} drew the same numbers "
            + (f"again and again: {different:,} different draws in" if different > 1 else "in all")
            + f" {len(rows):,} steps",
            symptom="grad_wrong",
            why=why,
            fix=fix,
            location=location,
            symptom_location=drawn if drawn != location else None,
            evidence={"draws": len(rows), "different": different},
        )


_SEEDED_EACH_TIME = (
    "a generator that is seeded anew starts from the beginning, so each step gets the same noise",
    "seed once, before the loop: make the generator there, and pass it on",
)
_GIVEN_EACH_TIME = (
    "each step gives the same seed, and a generator that is seeded anew starts from the beginning",
    "give each step a seed of its own, or make one generator before the loop, and pass it on",
)
_MADE_ANEW = (
    "a generator that is made and seeded anew starts from the beginning, so the training repeats the same draws",
    "make the generator once, before the rounds or epochs, and pass it on; or add their number to its seed",
)
_PUT_BACK = (
    "the generator gets back the state that it had, so the next draws are the same ones",
    "draw without it, or from a generator of its own: torch.randn(..., generator=generator), made once before the loop",
)
_SEEDS_ALL = (
    "torch.manual_seed() seeds all that is drawn afterwards: from there on the training repeats its noise, its batches "
    "and its dropout",
    "draw what should stay the same from a generator of its own: "
    "torch.randn(..., generator=torch.Generator().manual_seed(0))",
)
_DRAWS_OF_ROWS = frozenset({"randint", "multinomial"})
"""They choose the samples of a batch: that those come back may be meant, but not in each round of a training."""
_MIN_DRAWS = 3
_MAX_FOLLOWED = 40


def _why_it_matters(case: Case, rows: list[int], *, is_seeded_there: bool) -> str | None:
    """Why the same draws each time are a mistake; None if they are not the same, or may be the data."""
    if not _are_the_same(case, rows):
        return None
    if _is_noise(case, rows):
        return "while the data changed"
    return "and a network is asked for them" if is_seeded_there and _is_told_from_data(case, rows) else None


def _seeded_elsewhere(case: Case, rows: list[int]) -> Location | None:
    """The line that seeds torch before each of these draws of rows, all of which are the same, if it is in another
    function: one that seeds its own draws does so for these."""
    calls = case.dataflow.log.calls
    values = {calls[row].outputs[0].values for row in rows}
    known, drawn = next(iter(values)), location_of_call(case.dataflow, rows[-1])
    # The extremes of a few numbers out of many are not the same by chance, again and again.
    is_same = len(values) == 1 and known is not None and known.minimum != known.maximum
    is_told_apart = known is not None and _numbers_to_choose_from(case, rows[-1]) >= max(_MANY, known.count)
    if drawn is None or not is_same or not is_told_apart or len(_steps_drawn_in(case, rows)) < _MIN_DRAWS:
        return None
    seeding = line_that_seeds_all(case, rows)
    if seeding is None:
        return None
    functions = [function_around(case.capture.sources.get(each.file, {}), each.line) for each in (drawn, seeding)]
    return seeding if (drawn.file, functions[0]) != (seeding.file, functions[1]) else None


_MANY = 50


def _numbers_to_choose_from(case: Case, row: int) -> int:
    """From how many numbers ``randint()`` or ``multinomial()`` draws."""
    call = case.dataflow.log.calls[row]
    if plain_name(call.function) == "multinomial":
        return max(shape_of(case.dataflow, call.inputs[0].tensor)[-1:], default=0) if call.inputs else 0
    bounds = [call.scalars.get("low", call.scalars.get("0")), call.scalars.get("high", call.scalars.get("1"))]
    known = [each for each in bounds if type(each) is int]
    return known[-1] - (known[0] if len(known) == len(bounds) else 0) if known else 0


def _steps_drawn_in(case: Case, rows: list[int]) -> set[int]:
    return {case.dataflow.step_before(row) for row in rows}


def _steps_of_drawing(case: Case, rows: list[int]) -> Sequence[int]:
    """The steps of the optimizer that steps after the last draw: a probe that comes later has its own."""
    calls = case.dataflow.log.calls
    step = case.dataflow.next_of_kind("step", rows[-1])
    optimizer = calls[step].optimizer if step < len(calls) else None
    return case.histories.steps_by_optimizer.get(optimizer) or case.histories.steps


def _are_the_same(case: Case, rows: list[int]) -> bool:
    """Whether each of the draws, with steps between them, has the same values."""
    flow = case.dataflow
    values = {flow.log.calls[row].outputs[0].values for row in rows}
    known = next(iter(values))
    if len(values) != 1 or known is None or known.count < MIN_NUMBERS or known.minimum == known.maximum:
        return False
    if known.zeros:  # of zeros and ones, say, the extremes tell nothing
        return False
    return len(_steps_drawn_in(case, rows)) >= _MIN_DRAWS


def _is_noise(case: Case, rows: list[int]) -> bool:
    """Whether what is drawn is combined, in the computation of a loss, with a tensor that changes from step to step."""
    flow, backward = case.dataflow, case.histories.backward_through(rows[-1])
    if backward is None:
        return False
    tensor = flow.log.calls[rows[-1]].outputs[0].tensor
    waiting, seen = [tensor], {tensor}
    while waiting and len(seen) < _MAX_FOLLOWED:
        given = waiting.pop()
        for row in flow.users(given, rows[-1]):
            call = flow.log.calls[row]
            if row >= backward or call.kind != "operation" or not call.outputs:
                continue
            name = plain_name(call.function)
            others = [use for use in call.inputs if use.tensor != given]
            is_one_for_all = any(_is_one_for_all(flow, given, use.tensor) for use in others)
            if name in ARITHMETIC and not is_one_for_all and any(is_fresh(case, call, use, row) for use in others):
                is_of_weights = all(_is_of_trained(case, use, row) for use in others)
                return not is_of_weights or _takes_new_data(case, rows[-1], backward)
            if name in _CHOOSE and _is_computed(call.inputs[0], given):
                return True
            if name in ARITHMETIC | KEEPS_ONE | _ORDERS | _CHOOSE and not call.outputs[0].requires_grad:
                new = {use.tensor for use in call.outputs} - seen
                seen |= new
                waiting += new
    return False


def _is_of_trained(case: Case, use: TensorUse, row: int) -> bool:
    """Whether it is computed from what is trained, and from nothing else, as the scale of a distribution of weights."""
    flow = case.dataflow
    calls = [flow.log.calls[each] for each in flow.ancestors(use.tensor, row, flow.step_before(row))]
    made = {result.tensor for call in calls for result in call.outputs}
    taken = {given.tensor for call in calls for given in call.inputs} - made
    return use.requires_grad and (taken or {use.tensor}) <= case.histories.trained


def _takes_new_data(case: Case, draw: int, backward: int) -> bool:
    """Whether a loss depends on data that differ from step to step: of a distribution that is fitted to the same data
    each time, the samples may stay the same ones, so that the loss is one function."""
    flow, since = case.dataflow, case.dataflow.step_before(draw)
    roots = [use.tensor for use in flow.log.calls[backward].roots]
    above = {row for root in roots for row in flow.ancestors(root, backward, since)}
    calls = [flow.log.calls[row] for row in above]
    made = {use.tensor for call in calls for use in call.outputs}
    data = {use.tensor for call in calls for use in call.inputs if not use.requires_grad} - made
    before = flow.step_before(since)
    is_used_again = all(any(before < row < since for row in flow.users(each)) for each in data)
    return (
        not is_used_again or any(map(_takes_some, calls)) or any(_is_drawn_anew(case, root, backward) for root in roots)
    )


def _takes_some(call: Call) -> bool:
    """Whether it chooses some of its elements, or is given where to begin: ``x[:, None]`` only adds an axis."""
    return plain_name(call.function) in _CHOOSE | _DRAWS_OF_ROWS and (len(call.inputs) != 1 or bool(call.scalars))


def _is_one_for_all(flow: Dataflow, drawn: int, other: int) -> bool:
    """Whether all rows of another tensor meet the same numbers, as the phases of random features or the codes of
    positions, which should stay as they are."""
    shape, wider = shape_of(flow, drawn), shape_of(flow, other)
    return len(wider) > len(shape) > 0 or (bool(wider) and len(wider) == len(shape) and shape[0] == 1 < wider[0])


def _is_told_from_data(case: Case, rows: list[int]) -> bool:
    """Whether drawn numbers are added to data, and asked of a network, as the noise of a diffusion model: it is to
    tell any noise, also where it has only one batch. Data that are drawn get other noise each time."""
    flow = case.dataflow
    is_added = is_asked = False
    for use in flow.log.calls[rows[-1]].outputs[:1]:
        for row in flow.users(use.tensor, rows[-1]):
            call = flow.log.calls[row]
            others = [each for each in call.inputs if each.tensor != use.tensor]
            is_live = any(each.requires_grad for each in others)
            is_asked |= is_live and plain_name(call.function) in _COMPARES
            is_added |= not is_live and plain_name(call.function) in ARITHMETIC
            if not is_live and any(_is_drawn_anew(case, each.tensor, row) for each in others):
                return False
    return is_added and is_asked


def _is_drawn_anew(case: Case, tensor: int, before: int) -> bool:
    """Whether numbers are drawn for a tensor, and not the same each time."""
    calls, flow = case.dataflow.log.calls, case.dataflow
    for row in flow.ancestors(tensor, before, flow.step_before(before)):
        if plain_name(calls[row].function) in DRAWS:
            site = calls[row].call_site
            alike = [each for each, call in enumerate(calls) if call.call_site == site and call.outputs]
            if not _are_the_same(case, alike):
                return True
    return False


_COMPARES = frozenset({"sub", "mse_loss", "smooth_l1_loss", "l1_loss", "huber_loss"})
_ORDERS = frozenset({"argsort", "sort", "topk", "lt", "gt", "le", "ge", "scatter"})
"""They make an order or a mask of drawn numbers."""
_CHOOSE = frozenset({"gather", "index_select", "take_along_dim", "getitem", "masked_fill", "masked_select"})


def _is_computed(chosen: TensorUse, given: int) -> bool:
    """Whether numbers choose among what a model has computed."""
    return chosen.tensor != given and chosen.requires_grad and chosen.has_grad_fn


def _seeding_line(case: Case, row: int) -> Location | None:
    """The line just above a draw that seeds a generator; else the line of the draw."""
    drawn = location_of_call(case.dataflow, row)
    if drawn is None:
        return None
    for number in range(drawn.line, max(drawn.line - _MAX_LINES, 0), -1):
        above = Location(drawn.file, number)
        text = case.source_line(above) or ""
        if "manual_seed(" in text or _PUTS_BACK.search(text):
            return above
        helper = _BLOCK.match(text)
        inside = None if helper is None else _line_that_puts_back(case, drawn.file, helper[1])
        if inside is not None:
            return inside
        if text.lstrip().startswith(("def ", "class ")):
            break
    return _line_of_seeded_generator(case, drawn) or drawn


def _line_that_puts_back(case: Case, file: str, function: str) -> Location | None:
    """The line of a function of the program, a context manager, that gives the generator an old state."""
    for node in tree_of(case.capture.sources.get(file, {})).nodes:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            for number in range(node.lineno, last_line(node) + 1):
                if _PUTS_BACK.search(case.source_line(Location(file, number)) or ""):
                    return Location(file, number)
    return None


_BLOCK = re.compile(r"\s*with (?:self\.)?(\w+)\(")


def _line_of_seeded_generator(case: Case, drawn: Location) -> Location | None:
    """The only line of a function that makes a generator and seeds it, where the draw takes a generator."""
    if "generator=" not in (case.source_line(drawn) or ""):
        return None
    lines = case.capture.sources.get(drawn.file, {})
    seeding = [
        number
        for number, text in lines.items()
        if "manual_seed(" in text and "Generator(" in text and text[:1].isspace()
    ]
    return Location(drawn.file, seeding[0]) if len(seeding) == 1 else None


_PUTS_BACK = re.compile(r"\b(fork_rng|set_rng_state|set_state)\(")
"""What gives a generator a state that it had before."""
_MAX_LINES = 12
