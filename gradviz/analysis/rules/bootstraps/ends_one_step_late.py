"""GV973."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line_beside, two_lines
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sequences.positions.flags_read_early import EarlyFlag, flags_read_early
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Key, Loop, SourceTree, called_name, names_in, parameters_of


class EndsOneStepLate(Rule):
    """A value of the next state, or the state of a recurrent network, is masked by the end of the step after it.

    What it finds
    -------------
    ``values[t + 1] * (1 - dones[t + 1])``, where one loop stores both, the value of a state before the step and the
    end of an episode which this same step reports. It is left alone where ``dones[t]`` is the end that the step before
    reported: stored before the step, with one entry in front, or at ``t + 1``. So it is where the end is computed of
    the same state as the value, as an imagined state has it.
    ``hidden * (1 - dones[t])`` before step ``t`` of a replay, where ``dones[t]`` is what this step reported behind its
    action: the new log-probabilities differ from the old ones before any step has changed the policy.

    Why it matters
    --------------
    ``values[t + 1]`` is to count unless the step at ``t`` ended the episode, which is what ``dones[t]`` says. One step
    late, the value of another episode counts behind each end, and that of the last state of each episode is lost.

    Example
    -------
    network = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for update in range(3):
        states, values, rewards, dones = [], [], [], []
        for t in range(8):
            state = torch.randn(4)
            states.append(state)
            values.append(network(state).detach()[0])
            reward, done = torch.randn(()), (torch.rand(()) < 0.3).float()
            rewards.append(reward)
            dones.append(done)
        targets = [rewards[t] + 0.9 * values[t + 1] * (1 - dones[t + 1]) for t in range(7)]
        loss = (network(torch.stack(states[:7]))[:, 0] - torch.stack(targets)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    network = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for update in range(3):
        states, values, rewards, dones = [], [], [], []
        for t in range(8):
            state = torch.randn(4)
            states.append(state)
            values.append(network(state).detach()[0])
            reward, done = torch.randn(()), (torch.rand(()) < 0.3).float()
            rewards.append(reward)
            dones.append(done)
        targets = [rewards[t] + 0.9 * values[t + 1] * (1 - dones[t]) for t in range(7)]
        loss = (network(torch.stack(states[:7]))[:, 0] - torch.stack(targets)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV973"
    name = "ends_one_step_late"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        if not case.histories.steps:
            return
        for file, tree in own_files(case):
            told = set[int]()
            for read in _shifted_flags(tree):
                ends = _stored(tree, read.value)
                if ends is None or not _is_of_own_step(tree, ends):
                    continue
                value = next(_values_before(tree, read, ends), None)
                if value is not None and read.lineno not in told:
                    told.add(read.lineno)
                    yield self._finding(file, read, value, ends)
        yield from (self._of_state(case, each) for each in flags_read_early(case.dataflow))

    def _of_state(self, case: Case, early: EarlyFlag) -> Finding:
        flow = case.dataflow
        location, other = two_lines(flow, early.masked, early.used)
        return self.finding(
            "in the replay, the state before each step is masked by the end that this same step reports; while acting, "
            f"that end masks the state behind the step{at_line_beside(other, location)}. So the new log-probabilities "
            f"differ from the old ones by up to {early.largest:.2g}, though no step has changed the policy yet",
            symptom="grad_wrong",
            why="the policy acted with the state that it had before the end was known; replayed like this, the last "
            "step of each episode starts from nothing, and the next one goes on with the state of the old episode",
            fix="mask behind the step, as the rollout does, or by the end of the step before: 1 - dones[t - 1]",
            location=location,
            symptom_location=other,
            evidence={"largest_difference": early.largest},
        )

    def _finding(self, file: str, read: ast.Subscript, value: ast.Subscript, ends: _Store) -> Finding:
        flags, values = ast.unparse(read), ast.unparse(value)
        index = ast.unparse(read.slice.left) if isinstance(read.slice, ast.BinOp) else ":-1"
        earlier = f"{ast.unparse(read.value)}[{index}]"
        return self.finding(
            f"{values}, the value of a next state, is masked by {flags}: line {ends.line} stores there the end of the "
            "step that follows that state, not of the one that leads to it",
            symptom="grad_wrong",
            why="the step that leads to a state tells whether it is of the same episode; as it is, a value of the next "
            "episode counts behind each end",
            fix=f"read the end of the same step: 1 - {earlier}",
            location=Location(file, read.lineno),
            symptom_location=Location(file, ends.line) if ends.line != read.lineno else None,
        )


class _Store(Struct, frozen=True):
    """The only place that fills a list or an array, in a loop, one entry in each turn."""

    loop: Loop
    line: int
    given: ast.expr


_MAX_NAMES = 6
_PASSES = frozenset({"stack", "tensor", "as_tensor", "float", "to", "FloatTensor", "array", "asarray", "cat", "bool"})
_FILLED = frozenset({"zeros", "empty", "zeros_like", "new_zeros", "ones"})


def _is_next(index: ast.expr) -> bool:
    """``t + 1``"""
    return (
        isinstance(index, ast.BinOp)
        and isinstance(index.op, ast.Add)
        and isinstance(index.left, ast.Name)
        and isinstance(index.right, ast.Constant)
        and index.right.value == 1
    )


def _is_shifted(index: ast.expr) -> bool:
    """``t + 1``, or ``1:``."""
    lower = index.lower if isinstance(index, ast.Slice) and index.upper is None and index.step is None else None
    return _is_next(index) or (isinstance(lower, ast.Constant) and lower.value == 1)


def _shifted_flags(tree: SourceTree) -> Iterator[ast.Subscript]:
    """The reads ``dones[t + 1]`` of which the program takes the complement."""
    for node in tree.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            flag = node.right if isinstance(node.left, ast.Constant) and node.left.value == 1 else None
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
            flag = node.operand
        else:
            continue
        while isinstance(flag, ast.Call):  # float(dones[t + 1]), dones[t + 1].float()
            is_method = isinstance(flag.func, ast.Attribute) and not flag.args
            flag = (
                flag.func.value if is_method and isinstance(flag.func, ast.Attribute) else next(iter(flag.args), None)
            )
        if isinstance(flag, ast.Subscript) and _is_shifted(flag.slice):
            yield flag


def _values_before(tree: SourceTree, read: ast.Subscript, ends: _Store) -> Iterator[ast.Subscript]:
    """What the same function reads at the same index, of what the same loop stores of the state before the step."""
    index, scope = ast.dump(read.slice), tree.scope(read)
    first = min(_lines_that_give(ends), default=0)
    for node in tree.nodes:
        if not isinstance(node, ast.Subscript) or ast.dump(node.slice) != index or tree.scope(node) is not scope:
            continue
        store = None if ast.dump(node.value) == ast.dump(read.value) else _stored(tree, node.value)
        if store is None or store.loop is not ends.loop or not _has_network(store.given, tree, ends.loop):
            continue
        made = [line for name in names_in(store.given) for line in _bound_in(ends.loop, name)]
        of_value = _bound_in(ends.loop, store.given.id) if isinstance(store.given, ast.Name) else [store.line]
        if _is_of_same_state(tree, ends, store):
            continue
        if of_value and max(of_value) < first and all(line < first or line > store.line for line in made):
            yield node


def _is_of_same_state(tree: SourceTree, ends: _Store, value: _Store) -> bool:
    """Whether an end is computed of nothing but what the value is computed of, and not by a step: the same state."""
    of_end, of_value = _sources(tree, ends), _sources(tree, value)
    is_step = any(called_name(each) == "step" for given in _values_of(tree, ends) for each in ast.walk(given))
    return bool(of_end) and of_end <= of_value and not is_step


def _values_of(tree: SourceTree, store: _Store) -> list[ast.expr]:
    """What a loop stores, and what it gave the variable that it stores."""
    return [store.given, *(value for target, value in _made_before(tree, store) if names_in(target) & _name(store))]


def _name(store: _Store) -> set[str]:
    return names_in(store.given) if isinstance(store.given, ast.Name) else set()


def _made_before(tree: SourceTree, store: _Store) -> list[tuple[ast.expr, ast.expr]]:
    """What the turn of a loop gives variables before it stores something."""
    inside = set(ast.walk(store.loop))
    return [pair for pair in tree.assignments if pair[0] in inside and pair[0].lineno <= store.line]


def _sources(tree: SourceTree, store: _Store) -> set[str]:
    """The variables that the loop changes, of which it computes what it stores; not those that count its turns."""
    made = [(names_in(target), names_in(value)) for target, value in _made_before(tree, store)]
    changed = {name for targets, _ in made for name in targets}
    known, count = names_in(store.given) & changed, -1
    while count != len(known):
        count = len(known)
        known |= {name for targets, sources in made if targets & known for name in sources & changed}
    return known - _name(store)


def _has_network(given: ast.expr, tree: SourceTree, loop: Loop) -> bool:
    """Whether what is stored comes of a call, as a value does, and is no state itself, which is stored by its name."""
    if not isinstance(given, ast.Name):
        return any(isinstance(each, ast.Call) for each in ast.walk(given))
    inside = set(ast.walk(loop))
    return any(
        isinstance(value, ast.Call)
        for target, value in tree.assignments
        if target in inside and any(isinstance(each, ast.Name) and each.id == given.id for each in ast.walk(target))
    )


def _stored(tree: SourceTree, read: ast.expr) -> _Store | None:
    """The only place that fills what is read, which begins empty; through calls that make an array of a list."""
    keys, waiting = set[Key](), [read]
    while waiting and len(keys) < _MAX_NAMES:
        key = tree.key_of(waiting.pop())
        if key is None or key in keys:
            continue
        keys.add(key)
        for target, value in tree.assignments:
            if tree.key_of(target) != key or _is_empty(value):
                continue
            source = _source(value)
            if source is None:
                return None
            waiting.append(source)
        for given in _arguments(tree, key):
            source = _source(given)
            if source is None:
                return None
            waiting.append(source)
    filled = [place for node in tree.nodes if (place := _filled(tree, node, keys)) is not None]
    if len(filled) != 1 or not filled[0].is_plain:
        return None
    loop = next(tree.loops_around(filled[0].place), None)
    return None if loop is None else _Store(loop, filled[0].place.lineno, filled[0].given)


def _is_empty(value: ast.expr) -> bool:
    is_list = isinstance(value, ast.List) and not value.elts
    return is_list or called_name(value) in _FILLED or (called_name(value) == "list" and not _given(value))


def _given(value: ast.expr) -> list[ast.expr]:
    return value.args if isinstance(value, ast.Call) else []


def _source(value: ast.expr) -> ast.expr | None:
    """``dones`` of ``torch.stack(dones)`` and ``torch.tensor(dones).float()``."""
    while isinstance(value, ast.Call):
        if called_name(value) not in _PASSES:
            return None
        inner = next(iter(value.args), None)
        is_function = isinstance(inner, (ast.Name, ast.Attribute)) and called_name(value) not in ("to", "float", "bool")
        if is_function and inner is not None:
            return inner
        if not isinstance(value.func, ast.Attribute):
            return None
        value = value.func.value
    return value if isinstance(value, (ast.Name, ast.Attribute)) else None


def _arguments(tree: SourceTree, key: Key) -> Iterator[ast.expr]:
    """What calls give a parameter of a function."""
    for function in tree.nodes:
        if not isinstance(function, FUNCTIONS) or function.lineno != key.owner:
            continue
        names = parameters_of(function)
        for call in tree.nodes:
            if not isinstance(call, ast.Call) or called_name(call) != function.name or key.name not in names:
                continue
            place = names.index(key.name)
            named = [each.value for each in call.keywords if each.arg == key.name]
            yield from named or call.args[place : place + 1]


class _Filled(Struct, frozen=True):
    """A place that fills a list or an array."""

    place: ast.expr
    given: ast.expr
    is_plain: bool
    """Whether it appends, or fills at a variable, and not at ``t + 1``."""


def _filled(tree: SourceTree, node: ast.AST, keys: set[Key]) -> _Filled | None:
    """``dones.append(done)`` or ``dones[t] = done``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        is_of_these = node.func.attr in ("append", "insert", "extend") and tree.key_of(node.func.value) in keys
        return _Filled(node, node.args[-1], node.func.attr == "append") if is_of_these else None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        target = node.targets[0]
        is_plain = isinstance(target.slice, ast.Name)
        return _Filled(target, node.value, is_plain) if tree.key_of(target.value) in keys else None
    return None


def _bound_in(loop: Loop, name: str) -> list[int]:
    """The lines of a loop that give a variable its value."""
    return [
        each.lineno
        for each in ast.walk(loop)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.id == name
    ]


def _lines_that_give(ends: _Store) -> list[int]:
    return [line for name in names_in(ends.given) for line in _bound_in(ends.loop, name)]


def _is_of_own_step(tree: SourceTree, ends: _Store) -> bool:
    """Whether the same turn of the loop made what it stores, of nothing that it only makes later: an end that the turn
    before has left is that of the step before."""
    lines = _lines_that_give(ends)
    if not lines or any(line >= ends.line for line in lines):
        return False
    inside = set(ast.walk(ends.loop))
    for target, value in tree.assignments:
        names = names_in(target)
        if target not in inside or names.isdisjoint(names_in(ends.given)):
            continue
        for name in names_in(value) - names_in(ends.given):
            bound = _bound_in(ends.loop, name)
            if bound and min(bound) > target.lineno:
                return False
    return True
