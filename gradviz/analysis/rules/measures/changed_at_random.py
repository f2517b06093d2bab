"""GV954."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    at_line,
    call_words,
    callers,
    class_of,
    function_of,
    line_in_function_of,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.draws.random_changes import (
    ADD,
    KEEPS,
    MASK,
    NORMAL,
    Change,
    changes_by_draw,
    transforms_on,
)
from gradviz.analysis.rules.bases.evaluations.random_transforms import random_transforms
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite


class ChangedAtRandom(Rule):
    """What a model gets is changed at random as in training where the model is scored, too.

    What it finds
    -------------
    A line that adds normal noise to values, or hides some of them with a random mask, in training and also where
    gradients are off and the results are compared with targets, where each input comes once and the model never runs
    without it. Also a line that flips, turns or cuts out samples by drawn numbers. Noise whose size a network returns,
    as in a variational autoencoder, is left alone; so is noise that a loss reads, as in diffusion, what a network
    should restore, and what is averaged over several draws.

    Why it matters
    --------------
    Noise and masks are for training. In an evaluation they make the score worse than the model is, and another one
    each time, so that the best state is chosen by chance. ``eval()`` switches off dropout, not what the program draws.

    Example
    -------
    x, y = torch.randn(60, 4), torch.randint(0, 2, (60,))
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)
        def forward(self, x):
            x = x + 0.3 * torch.randn_like(x)
            return self.layer(x)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model.train()
        loss = torch.nn.functional.cross_entropy(model(x[:40]), y[:40])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            print((model(x[40:]).argmax(1) == y[40:]).float().mean())

    Instead
    -------
    x, y = torch.randn(60, 4), torch.randint(0, 2, (60,))
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)
        def forward(self, x):
            if self.training:
                x = x + 0.3 * torch.randn_like(x)
            return self.layer(x)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model.train()
        loss = torch.nn.functional.cross_entropy(model(x[:40]), y[:40])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            print((model(x[40:]).argmax(1) == y[40:]).float().mean())
    """

    code = "GV954"
    name = "changed_at_random"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for changes in changes_by_draw(case) if case.histories.reached_by else ():
            scored = _scored(case, changes)
            if scored is not None:
                yield self._finding(flow, scored)
        for file, tree in own_files(case) if case.histories.reached_by else ():
            ran = LinesThatRan(flow, file)
            for number, by_chance in random_transforms(tree).items():
                scored = _scored(case, transforms_on(flow, ran, Location(file, number)), by_chance=by_chance)
                if scored is not None:
                    yield self._of_transform(flow, scored)
                    break

    def _of_transform(self, flow: Dataflow, scored: _Mode) -> Finding:
        words = call_words(flow.log.calls[scored.change.row])
        location, changed = _line_to_edit(flow, scored), location_of_call(flow, scored.change.row)
        return self.finding(
            f"{'a random cut' if words == 'getitem()' else words} changes samples at random where the model is scored, "
            "too: the line runs in training and in evaluation",
            symptom="none",
            why="an augmentation is for training: the score depends on what is drawn, and is another one each time",
            fix="do it in training only, by a flag: if self.augment and ..., or a call in the loop that trains",
            location=location,
            symptom_location=changed if changed != location else None,
        )

    def _finding(self, flow: Dataflow, scored: _Mode) -> Finding:
        change = scored.change
        location, merged = _line_to_edit(flow, scored), location_of_call(flow, change.merged)
        drawn, is_mask = flow.log.calls[change.row], plain_name(flow.log.calls[change.merged].function) not in ADD
        words = call_words(drawn) if plain_name(drawn.function) in NORMAL | MASK else "a draw of NumPy"
        return self.finding(
            f"{words} {'hides values' if is_mask else 'adds noise'} where the model is scored, too"
            f"{at_line(merged if merged != location else None)}: the line runs in training and in evaluation",
            symptom="none",
            why="the score is worse than the model is, and another one each time; eval() does not switch this off",
            fix="do it in training only: if self.training: in a module, else a flag, or a call in the loop that trains",
            location=location,
            symptom_location=merged if merged != location else None,
        )


_SCORES = frozenset({
    "eq", "ne", "argmax", "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "topk", "max", "sub", "gt", "ge", "lt", "tolist", "numpy",
})  # fmt: skip
_MAX_FOLLOWED = 6
_MAX_CHANGES = 12
_MAX_LOOKS = 60


def _line_to_edit(flow: Dataflow, scored: _Mode) -> Location | None:
    """The line of a module or a data set that changes its input; else the one where the evaluation asks for it."""
    line = flow.line_of(scored.change.row)
    if line is not None and not class_of(line):
        line = line_in_function_of(flow, scored.change.row, scored.layer)
    return location_of_line(line)


def _scored(case: Case, changes: list[Change], *, by_chance: bool = False) -> _Mode | None:
    """One of the changes of a line that runs where a model is scored, if the line is meant for training."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    if any(each.merged < 0 for each in changes) or len({each.scalars for each in changes}) > 1:
        return None
    modes = list(_modes(case, changes[:: 1 + len(changes) // _MAX_LOOKS]))
    trains = [each.change for each in modes if each.is_training][:_MAX_CHANGES]
    scores = [each for each in modes if not each.is_training][:_MAX_CHANGES]
    if not scores or not trains or _are_repeated(flow, changes):
        return None
    begins = min(flow.rows_of_kind("backward"), default=0)
    if len(trains) > 1 and all(each.row < begins for each in trains):
        return None  # Nothing was changed anew while the model trained: they are data as they were made.
    if not all(_goes_into_loss(case, each) and _is_only_changed(flow, each) for each in trains):
        return None
    if all(_has_drawn_target(flow, each) for each in trains):
        return None
    found, merged = None, {(_path(flow, each), each.merged) for each in changes}
    for each in scores:
        if any(calls[row].live_inputs and calls[row].grad_mode == "enabled" for row in each.below):
            return None  # A loss takes what comes of it: a target.
        if _is_drawn_anew(flow, each.change) or any((_path(flow, each.change), row) in merged for row in each.below):
            return None
        if any(plain_name(calls[row].function) in _SCORES for row in each.below if row > each.layer):
            found = found or each
    is_always = by_chance or not _runs_without(case, scores)
    return found if is_always else None


class _Mode(Struct, frozen=True):
    """A change with what is computed of it until the next backward."""

    change: Change
    below: tuple[int, ...]
    layer: int
    """The last call that takes something trained."""
    is_training: bool


def _modes(case: Case, changes: list[Change]) -> Iterator[_Mode]:
    """The changes that layers take, each with whether a gradient will come of it."""
    calls, trained = case.dataflow.log.calls, case.histories.reached
    for each in changes:
        below = _below(case.dataflow, each)
        layers = [row for row in below if any(use.tensor in trained for use in calls[row].inputs)]
        if layers:
            is_live = any(use.requires_grad for use in calls[layers[0]].outputs)
            yield _Mode(each, below, layers[-1], is_live)


def _below(flow: Dataflow, change: Change) -> tuple[int, ...]:
    """What is computed of a changed input until the next backward."""
    return flow.descendants(change.result, change.merged, flow.next_of_kind("backward", change.merged))


def _goes_into_loss(case: Case, change: Change) -> bool:
    """Whether the next backward starts from what was computed of the changed values."""
    flow = case.dataflow
    backward = flow.next_of_kind("backward", change.merged)
    if backward >= len(flow.log.calls) or backward not in case.histories.reached_by:
        return False
    made = {use.tensor for row in _below(flow, change) for use in flow.log.calls[row].outputs}
    return any(use.tensor in made for use in flow.log.calls[backward].roots)


def _is_only_changed(flow: Dataflow, change: Change) -> bool:
    """Whether the values as they are before have no use of their own: a network may have to restore them, or get them,
    too."""
    clean = flow.log.calls[change.merged]
    if change.clean == change.result or any(use.tensor == change.clean and use.requires_grad for use in clean.inputs):
        return True
    end = flow.next_of_kind("backward", change.merged)
    taken = _taken_by(flow, change.clean)
    waiting = [
        (shared, _MAX_FOLLOWED if shared == change.clean or (taken and _taken_by(flow, shared) == taken) else 0)
        for shared in flow.sharing_memory(change.clean)
    ]
    waiting += ((earlier, 0) for earlier in _measured(flow, change))
    while waiting:
        tensor, further = waiting.pop()
        for row in flow.users(tensor):
            call = flow.log.calls[row]
            if not change.row - _NEAR < row < end or row == change.merged:
                continue
            if call.live_inputs:
                return False
            if further and plain_name(call.function) in _COLLECT:  # as a loader joins the targets of samples
                waiting += ((use.tensor, further - 1) for use in call.outputs)
    return True


def _measured(flow: Dataflow, change: Change) -> Iterator[int]:
    """The samples of which products are changed: what a network may have to find out from noisy measurements."""
    for row, call in flow.makers(change.clean, change.merged, _FEW_MAKERS):
        if plain_name(call.function) in _TAKE or not call.inputs or call.live_inputs:
            return
        if plain_name(call.function) in _PRODUCTS and row > (flow.backward_before(change.row) or -1):
            yield call.inputs[0].tensor


def _taken_by(flow: Dataflow, tensor: int) -> tuple[object, ...]:
    """What tells the part of a table that a tensor is: two of them are one sample, which a data set reads twice."""
    made = flow.first_producer(tensor, len(flow.log.calls))
    call = None if made is None else flow.log.calls[made]
    if call is None or plain_name(call.function) not in _TAKE:
        return ()
    return (*(use.tensor for use in call.inputs), *sorted(call.scalars.items()))


_NEAR = 50
_COLLECT = KEEPS | {"stack", "cat", "unsqueeze", "view", "reshape"}
_READ = frozenset({"detach", "clone", "data", "norm", "to", "cpu", "requires_grad"})
"""What is done to parameters that no layer does."""


def _are_repeated(flow: Dataflow, changes: list[Change]) -> bool:
    """Whether one input is changed again before the next backward: two views of it, or draws for an average."""
    seen = set[tuple[object, ...]]()
    for each in changes:
        base: object = each.clean
        for _, call in flow.makers(each.clean, each.merged, _MAX_MAKERS):
            if plain_name(call.function) in _TAKE or not call.inputs:
                base = (*(use.tensor for use in call.inputs), *sorted(call.scalars.items()))
                break
            base = call.inputs[0].tensor
        key = (flow.backward_before(each.row), _path(flow, each), base)
        if key in seen:
            return True
        seen.add(key)
    return False


def _path(flow: Dataflow, change: Change) -> str:
    """The module in which a change is made."""
    scope = flow.log.calls[change.row].scope
    return "" if scope is None else flow.log.scopes[scope].path


_FEW_MAKERS = 4
_PRODUCTS = frozenset({"matmul", "mm", "linear", "conv1d", "conv2d", "einsum"})
_MAX_MAKERS = 40
_TAKE = frozenset({"getitem", "index_select", "stack", "cat"})
_DRAWS = NORMAL | MASK | {"randint", "exponential", "multinomial", "poisson"}
_BOTH = 2


def _is_drawn_anew(flow: Dataflow, change: Change) -> bool:
    """Whether the values that are changed were drawn for this moment, or are a few that come again and again, as the
    centres of classes: then the draw makes the data."""
    since = flow.backward_before(change.row) or -1
    for row, call in flow.makers(change.clean, change.merged, _MAX_CHANGES):
        name = plain_name(call.function)
        if row > since and name in _DRAWS:
            return True
        if name in ("getitem", "index_select", "embedding") and len(call.inputs) == _BOTH:
            sizes = [shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0])]
            if sizes[0] and sizes[1] and sizes[0][0] < sizes[1][0]:
                return True
    site = next(callers(flow, change.row), None)
    makers = flow.makers_above(change.clean, change.merged, _MAX_MAKERS, lambda each: each.inputs)
    return site is not None and _is_drawn_in(flow, makers, since, site)


def _has_drawn_target(flow: Dataflow, change: Change) -> bool:
    """Whether the function that changes the values has drawn the targets of the next loss, too: it makes the samples,
    and the noise is part of them."""
    backward, since = flow.next_of_kind("backward", change.row), flow.backward_before(change.row) or -1
    site = next(callers(flow, change.row), None)
    if backward >= len(flow.log.calls) or site is None or class_of(site) or function_of(site) == "<module>":
        return False
    for root in flow.log.calls[backward].roots:
        for row in flow.ancestors(root.tensor, backward, since + 1):
            call = flow.log.calls[row]
            targets = [use for use in call.inputs if not use.requires_grad] if call.live_inputs else []
            if any(_is_drawn_in(flow, flow.makers(use.tensor, row, _MAX_CHANGES), since, site) for use in targets):
                return True
    return False


def _is_drawn_in(flow: Dataflow, makers: Iterable[tuple[int, Call]], since: int, site: CallSite) -> bool:
    """Whether one of some calls has drawn values since another call, in the function of a line."""
    for row, call in makers:
        line = next(callers(flow, row), None) if row > since and plain_name(call.function) in _DRAWS else None
        if line is not None and (line.file, function_of(line)) == (site.file, function_of(site)):
            return True
    return False


def _runs_without(case: Case, scores: list[_Mode]) -> bool:
    """Whether the layers that take what is changed also run without the change where the model is scored."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    seen = {row for each in scores for row in each.below}
    end = flow.next_of_kind("backward", scores[-1].change.merged)
    used = {use.tensor for row in seen for use in calls[row].inputs if use.tensor in case.histories.reached}
    rows = {row for tensor in used for row in flow.users(tensor) if row < end and row not in seen}
    scoring = (calls[row] for row in rows if calls[row].grad_mode != "enabled" and calls[row].kind == "operation")
    return any(call.outputs and not call.changed and plain_name(call.function) not in _READ for call in scoring)
