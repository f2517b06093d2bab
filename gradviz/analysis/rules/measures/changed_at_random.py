"""GV954."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    at_line,
    call_words,
    calls_named,
    location_of_call,
    plain_name,
    two_lines,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call
from gradviz.graph.model import Scalar


class ChangedAtRandom(Rule):
    """What a model gets is changed at random as in training where the model is scored, too.

    What it finds
    -------------
    A line that adds normal noise to values, or hides some of them with a random mask, in training and also where
    gradients are off and the results are compared with targets, where each input comes once and the model never runs
    without it. Noise whose size a network returns, as in a variational autoencoder, is left alone; so is noise that a
    loss reads, as in diffusion, what a network should restore, and what is averaged over several draws.

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
        by_line = defaultdict[tuple[Location | None, str], list[_Change]](list)
        for row, call in calls_named(flow, _NORMAL | _MASK) if case.histories.reached_by else ():
            if not any(use.requires_grad for use in call.outputs):
                line = location_of_call(flow, row)
                by_line[line, call.function].append(_Change(row, *_merged(flow, row)))
        for changes in by_line.values():
            scored = _scored(case, changes)
            if scored is not None:
                yield self._finding(flow, scored)

    def _finding(self, flow: Dataflow, change: _Change) -> Finding:
        location, merged = two_lines(flow, change.row, change.merged)
        drawn, is_mask = flow.log.calls[change.row], plain_name(flow.log.calls[change.merged].function) not in _ADD
        return self.finding(
            f"{call_words(drawn)} {'hides values' if is_mask else 'adds noise'} where the model is scored, too"
            f"{at_line(merged)}: the line runs in training and in evaluation",
            symptom="none",
            why="the score is worse than the model is, and another one each time; eval() does not switch this off",
            fix="do it in training only: if self.training: in a module, else a flag, or a call in the loop that trains",
            location=location,
            symptom_location=merged,
        )


_NORMAL = frozenset({"randn", "randn_like", "normal"})
_MASK = frozenset({"rand", "rand_like", "bernoulli", "uniform"})
_COMPARE = frozenset({"lt", "le", "gt", "ge"})
_ADD = frozenset({"add", "sub", "rsub"})
_HIDE = frozenset({"mul", "where", "masked_fill", "setitem"})
_KEEP = frozenset({"to", "float", "type_as", "type", "half", "double", "cuda", "cpu", "clone", "bool", "int", "long"})
_SCALE = frozenset({"mul", "div", "neg"})
_NOT = frozenset({"logical_not", "invert", "bitwise_not", "rsub"})
_FULL = frozenset({"full", "full_like", "ones", "ones_like", "new_full", "new_ones"})
_SCORES = frozenset({
    "eq", "ne", "argmax", "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "topk", "max", "sub", "gt", "ge", "lt", "tolist", "numpy",
})  # fmt: skip
_MAX_STEPS = 6
_MAX_CHANGES = 12


class _Change(Struct, frozen=True):
    """What a draw changes."""

    row: int
    merged: int = -1
    """The call that changes other values by it; -1 if none does, or if the draw has another use as well."""
    clean: int = -1
    """The tensor that is changed."""
    result: int = -1
    scalars: tuple[Scalar, ...] = ()
    """The numbers with which the draw is scaled or compared."""


def _merged(flow: Dataflow, row: int) -> tuple[int, int, int, tuple[Scalar, ...]] | tuple[()]:
    """The call in which noise or a mask meets other values, and what it meets."""
    call = flow.log.calls[row]
    name, tensor, scalars = plain_name(call.function), call.outputs[0].tensor, list[Scalar]()
    is_mask, is_noise = name == "bernoulli" and _is_of_one_share(flow, call, row), name in _NORMAL
    at = row
    for _ in range(_MAX_STEPS):
        users = flow.users(tensor, at)
        if len(users) != 1:
            return ()
        at = users[0]
        user = flow.log.calls[at]
        name, others = plain_name(user.function), [use for use in user.inputs if use.tensor != tensor]
        wide = [use for use in others if prod(shape_of(flow, use.tensor)) > 1 or use.requires_grad]
        if len(user.outputs) != 1:
            return ()
        if not wide:
            if name in _COMPARE and not is_noise and not others:
                is_mask = True
            elif name not in _KEEP and not (name in _SCALE or (name in _NOT and is_mask)):
                return ()
            scalars += user.scalars.values()
            tensor = user.outputs[0].tensor
        elif (name in _ADD and is_noise) or (name in _HIDE and is_mask):
            clean = max(wide, key=lambda use: prod(shape_of(flow, use.tensor)))
            is_whole = prod(shape_of(flow, clean.tensor)) == prod(shape_of(flow, user.outputs[0].tensor))
            return (at, clean.tensor, user.outputs[0].tensor, tuple(scalars)) if is_whole else ()
        else:
            return ()
    return ()


def _is_of_one_share(flow: Dataflow, call: Call, row: int) -> bool:
    """Whether each value of a random mask is drawn with the same probability."""
    if call.scalars:
        return True
    made = next(flow.makers(call.inputs[0].tensor, row, 1), None) if call.inputs else None
    while made is not None and plain_name(made[1].function) in (*_SCALE, *_NOT, "sub"):
        made = next(flow.makers(made[1].inputs[0].tensor, made[0], 1), None)
    return made is not None and plain_name(made[1].function) in _FULL


def _scored(case: Case, changes: list[_Change]) -> _Change | None:
    """One of the changes of a line that runs where a model is scored, if the line is meant for training."""
    flow, histories = case.dataflow, case.histories
    known = [each for each in changes if each.merged >= 0]
    if len(known) < len(changes):
        return None
    trains = [each for each in known if flow.log.calls[each.merged].grad_mode == "enabled"][:_MAX_CHANGES]
    scores = [each for each in known if flow.log.calls[each.merged].grad_mode != "enabled"]
    if not scores or len({each.scalars for each in known}) > 1:
        return None
    if not trains or not all(_goes_into_loss(case, each) and _is_only_changed(flow, each) for each in trains):
        return None
    if _are_repeated(flow, trains) or _are_repeated(flow, scores):
        return None
    looked_at = scores[:_MAX_CHANGES]
    below = [_below(flow, each) for each in looked_at]
    if any(_is_drawn_anew(flow, each) for each in looked_at):
        return None
    calls, found = flow.log.calls, None
    for change, rows in zip(looked_at, below, strict=True):
        if any(calls[row].live_inputs and calls[row].grad_mode == "enabled" for row in rows):
            return None  # A loss takes what comes of it: a target.
        layers = [row for row in rows if any(use.tensor in histories.reached for use in calls[row].inputs)]
        is_compared = any(plain_name(calls[row].function) in _SCORES for row in rows if row > max(layers, default=-1))
        if not layers or any(each.merged in rows for each in looked_at if _path(flow, each) == _path(flow, change)):
            return None
        if is_compared:
            found = found or change
    return found if found is not None and not _runs_without(case, looked_at, below) else None


def _below(flow: Dataflow, change: _Change) -> tuple[int, ...]:
    """What is computed of a changed input until the next backward."""
    return flow.descendants(change.result, change.merged, flow.next_of_kind("backward", change.merged))


def _goes_into_loss(case: Case, change: _Change) -> bool:
    """Whether the next backward starts from what was computed of the changed values."""
    flow = case.dataflow
    backward = flow.next_of_kind("backward", change.merged)
    if backward >= len(flow.log.calls) or backward not in case.histories.reached_by:
        return False
    made = {use.tensor for row in _below(flow, change) for use in flow.log.calls[row].outputs}
    return any(use.tensor in made for use in flow.log.calls[backward].roots)


def _is_only_changed(flow: Dataflow, change: _Change) -> bool:
    """Whether the values as they are before have no use of their own: a network may have to restore them, or get them,
    too."""
    clean = flow.log.calls[change.merged]
    if any(use.tensor == change.clean and use.requires_grad for use in clean.inputs):
        return True
    end = flow.next_of_kind("backward", change.merged)
    for shared in flow.sharing_memory(change.clean):
        for row in flow.users(shared):
            call = flow.log.calls[row]
            if change.row - _NEAR < row < end and row != change.merged and call.live_inputs:
                return False
    return True


_NEAR = 50
_READ = frozenset({"detach", "clone", "data", "norm", "to", "cpu", "requires_grad"})
"""What is done to parameters that no layer does."""


def _are_repeated(flow: Dataflow, changes: list[_Change]) -> bool:
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


def _path(flow: Dataflow, change: _Change) -> str:
    """The module in which a change is made."""
    scope = flow.log.calls[change.row].scope
    return "" if scope is None else flow.log.scopes[scope].path


_MAX_MAKERS = 40
_TAKE = frozenset({"getitem", "index_select", "stack", "cat"})
_DRAWS = _NORMAL | _MASK | {"randint", "exponential", "multinomial", "poisson"}
_BOTH = 2


def _is_drawn_anew(flow: Dataflow, change: _Change) -> bool:
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
    return False


def _runs_without(case: Case, changes: list[_Change], below: list[tuple[int, ...]]) -> bool:
    """Whether the layers that take what is changed also run without the change where the model is scored."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    seen = {row for rows in below for row in rows}
    end = flow.next_of_kind("backward", changes[-1].merged)
    trained = case.histories.reached
    used = {use.tensor for row in seen for use in calls[row].inputs if use.tensor in trained}
    rows = {row for tensor in used for row in flow.users(tensor) if row < end and row not in seen}
    scoring = (calls[row] for row in rows if calls[row].grad_mode != "enabled" and calls[row].kind == "operation")
    return any(call.outputs and not call.changed and plain_name(call.function) not in _READ for call in scoring)
