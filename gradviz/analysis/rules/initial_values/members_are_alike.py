"""GV952."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.layer_calls import DENSE_LAYERS
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.seeded_again import MIN_NUMBERS, line_in_loop, line_that_seeds_before
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import COMPREHENSIONS, LOOPS, called_name
from gradviz.graph.call_log import TensorUse, ValueFacts


class MembersAreAlike(Rule):
    """The members of an ensemble are one and the same network: they began alike, and were trained alike.

    What it finds
    -------------
    Results of two or more trained networks, with weights of their own, that are stacked or added, where the last layers
    return the same numbers, and a step of an optimizer was the last thing that changed each weight. A target network or
    an average of weights, which is a copy of another network for a moment, is left alone.

    Why it matters
    --------------
    An ensemble is better than its members because these err in different ways, and its spread says how sure it is. A
    seed that is set to one number before each member, or members that are copies of one network, give the same weights,
    batches and dropout again and again: the mean is that of one network, and the spread is zero.

    Example
    -------
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    def train(seed):
        torch.manual_seed(seed)
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            rows = torch.randint(40, (10,))
            optimizer.zero_grad()
            (model(x[rows]) - y[rows]).square().mean().backward()
            optimizer.step()
        return model
    members = [train(seed=0) for number in range(3)]
    with torch.no_grad():
        outputs = torch.stack([member(x) for member in members])
        print(outputs.mean(0), outputs.std(0))

    Instead
    -------
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    def train(seed):
        torch.manual_seed(seed)
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            rows = torch.randint(40, (10,))
            optimizer.zero_grad()
            (model(x[rows]) - y[rows]).square().mean().backward()
            optimizer.step()
        return model
    members = [train(seed=number) for number in range(3)]
    with torch.no_grad():
        outputs = torch.stack([member(x) for member in members])
        print(outputs.mean(0), outputs.std(0))
    """

    code = "GV952"
    name = "members_are_alike"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for row, call in calls_named(case.dataflow, {"stack", "cat", "add"}):
            members = [_member(case, row, use) for use in call.inputs] if len(call.inputs) > 1 else []
            known = [each for each in members if each is not None]
            if len(known) == len(members) > 0 and _are_alike(case, known) and not _are_compared(case, row):
                yield self._finding(case, row, known)
                return
        row, known = _members_that_leave(case)
        if len(known) >= _MIN_LEAVING and _are_alike(case, known) and not _checks_equality(case):
            yield self._finding(case, row, known)

    def _finding(self, case: Case, row: int, members: list[_Member]) -> Finding:
        flow = case.dataflow
        made = [flow.log.tensors[each.weight].first_seen or 0 for each in members]
        joined, begun = location_of_call(flow, row), line_in_loop(case, made[-1])
        seeded = line_that_seeds_before(case, made[-1])
        return self.finding(
            f"{len(members):,} networks, whose results are joined{at_line(joined)}, return the same numbers, from "
            f"{members[0].values.minimum:.3g} to {members[0].values.maximum:.3g}: they are one network",
            symptom="grad_wrong",
            why="they begin with the same weights and are trained on the same batches"
            + (", because torch is seeded with the same number for each of them" if seeded is not None else ""),
            fix="seed with another number for each member: seed + number, or seed once, before the first one"
            if seeded is not None
            else "draw the weights of each member anew, and train each on samples of its own",
            location=seeded or begun or _line_of_copies(case) or location_of_call(flow, made[-1]),
            symptom_location=joined,
            tensors=names_of(flow, [each.weight for each in members]),
            evidence={"networks": len(members)},
        )


def _line_of_copies(case: Case) -> Location | None:
    """The only line that copies something in a loop."""
    found = [
        Location(file, node.lineno)
        for file, tree in own_files(case)
        for node in tree.nodes
        if isinstance(node, ast.Call)
        and called_name(node) == "deepcopy"
        and any(isinstance(each, (*LOOPS, *COMPREHENSIONS)) for each in tree.around(node))
    ]
    return found[0] if len(found) == 1 else None


class _Member(Struct, frozen=True):
    weight: int
    """Of the last layer."""
    values: ValueFacts
    """What this layer returned."""


_CHECKS = frozenset({
    "allclose", "array_equal", "isclose", "equal", "assert_allclose", "assert_array_equal", "assert_close",
})  # fmt: skip
_MAX_CALLS = 8
_MIN_LEAVING = 3
"""Two results that become arrays may be those of a run and of its repetition."""
_PASSES_ON = frozenset({
    "softmax", "log_softmax", "sigmoid", "argmax", "squeeze", "unsqueeze", "view", "reshape", "flatten", "float", "exp",
    "detach", "cpu", "to", "mul", "div", "true_divide", "add", "clone", "tanh", "relu", "getitem",
})  # fmt: skip


def _checks_equality(case: Case) -> bool:
    """Whether the program asks if arrays are equal, as after runs that should be repetitions of each other."""
    return any(called_name(node) in _CHECKS for _, tree in own_files(case) for node in tree.nodes)


def _members_that_leave(case: Case) -> tuple[int, list[_Member]]:
    """The networks whose results one line turns into arrays, which NumPy may join, and the last such call."""
    lines = defaultdict[int | None, dict[int, tuple[int, _Member]]](dict)
    for row, call in calls_named(case.dataflow, {"numpy", "tolist", "__array__"}):
        member = _member(case, row, call.inputs[0]) if call.inputs else None
        if member is not None:
            lines[call.call_site][member.weight] = row, member
    most = max(lines.values(), key=len, default={})
    return max((row for row, _ in most.values()), default=-1), [member for _, member in most.values()]


def _member(case: Case, row: int, use: TensorUse) -> _Member | None:
    """The last layer behind a tensor, if an optimizer stepped last on its weight."""
    flow = case.dataflow
    for made, call in flow.makers(use.tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in DENSE_LAYERS and len(call.inputs) > 1 and call.outputs:
            weight, values = call.inputs[1].tensor, call.outputs[0].values
            is_stepped = weight in case.histories.trained and _is_stepped_last(case, weight, made)
            return _Member(weight, values) if is_stepped and values is not None else None
        if name not in _PASSES_ON or len([each for each in call.inputs if shape_of(flow, each.tensor)]) > 1:
            return None
    return None


def _is_stepped_last(case: Case, weight: int, row: int) -> bool:
    changed = case.dataflow.newest_producer(weight, row)
    return changed is not None and case.dataflow.log.calls[changed].kind == "step"


def _are_compared(case: Case, row: int) -> bool:
    """Whether a program only looks how far results are apart: replicas that must not drift, or a run that is repeated
    with its seed."""
    flow, joined = case.dataflow, case.dataflow.log.calls[row].outputs[0].tensor
    users = [(each, flow.log.calls[each]) for each in flow.users(joined, row)]
    parts = {joined}
    for _, call in users:
        if plain_name(call.function) in _TAKES_APART and len(call.inputs) == 1:
            parts |= {use.tensor for use in call.outputs}
    below = [*users, *((each, flow.log.calls[each]) for part in parts - {joined} for each in flow.users(part, row))]
    names = {plain_name(call.function) for _, call in below if sum(use.tensor in parts for use in call.inputs) > 1}
    others = {plain_name(call.function) for _, call in users if len({use.tensor for use in call.inputs} & parts) == 1}
    return bool(names & _COMPARES) and others <= _TAKES_APART | _COMPARES


_TAKES_APART = frozenset({"getitem", "unbind", "chunk", "split"})
_COMPARES = frozenset({"sub", "eq", "ne", "equal", "allclose", "isclose", "dist", "mse_loss", "l1_loss"})


def _are_alike(case: Case, members: list[_Member]) -> bool:
    """Whether several networks, each with weights of its own, returned the same numbers, which differ."""
    first = members[0].values
    if first.count < MIN_NUMBERS or first.minimum == first.maximum or not first.is_finite:
        return False
    memories = {case.dataflow.memory_of(each.weight) for each in members}
    return len(memories) == len(members) and all(each.values == first for each in members)
