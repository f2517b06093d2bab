"""GV974."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, called_name, names_in


class LevelsWalkedUpwards(Rule):
    """A sampler that begins with noise goes through the levels of noise from the least to the largest.

    What it finds
    -------------
    ``for i in range(steps)`` around a line that changes ``x``, which was drawn by ``randn()`` before the loop, where
    the loop takes ``1 - table[i]`` of a table that ``cumprod()`` made: its first entry is that of the least noise. The
    loop also gives ``x`` to something that the program wrote or trained; without that it only adds noise.

    Why it matters
    --------------
    Pure noise is what the last level leaves, so the walk has to begin there. The other way round, the network is told
    at first that almost no noise is left, and the samples have little to do with the data, however well it was trained.

    Example
    -------
    steps = 10
    alphas = 1 - torch.linspace(0.01, 0.2, steps)
    kept = torch.cumprod(alphas, 0)
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(4):
        t, noise = torch.randint(0, steps, (16,)), torch.randn(16, 2)
        x = kept[t].sqrt()[:, None] + (1 - kept[t]).sqrt()[:, None] * noise
        loss = (network(torch.cat([x, t[:, None] / steps], 1)) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        x = torch.randn(8, 2)
        for i in range(steps):
            noise = network(torch.cat([x, torch.full((8, 1), i / steps)], 1))
            x = (x - (1 - alphas[i]) / (1 - kept[i]).sqrt() * noise) / alphas[i].sqrt()

    Instead
    -------
    steps = 10
    alphas = 1 - torch.linspace(0.01, 0.2, steps)
    kept = torch.cumprod(alphas, 0)
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(4):
        t, noise = torch.randint(0, steps, (16,)), torch.randn(16, 2)
        x = kept[t].sqrt()[:, None] + (1 - kept[t]).sqrt()[:, None] * noise
        loss = (network(torch.cat([x, t[:, None] / steps], 1)) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        x = torch.randn(8, 2)
        for i in reversed(range(steps)):
            noise = network(torch.cat([x, torch.full((8, 1), i / steps)], 1))
            x = (x - (1 - alphas[i]) / (1 - kept[i]).sqrt() * noise) / alphas[i].sqrt()
    """

    code = "GV974"
    name = "levels_walked_upwards"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        if not case.histories.steps:
            return
        for file, tree in own_files(case):
            for loop in tree.nodes:
                if (
                    not isinstance(loop, ast.For)
                    or not isinstance(loop.target, ast.Name)
                    or not _rises(tree, loop.iter)
                ):
                    continue
                name = _changed_noise(tree, loop)
                table = None if name is None else _table_read(tree, loop, name)
                if table is not None and name is not None and _asks_of(loop, name):
                    yield self._finding(file, loop, table, name)

    def _finding(self, file: str, loop: ast.For, table: str, name: str) -> Finding:
        levels = ast.unparse(loop.iter)
        return self.finding(
            f"{name} begins as noise, and the loop changes it with {table} from the first entry on, which is the level "
            "with the least noise",
            symptom="grad_wrong",
            why="a sampler begins at the level of which nothing but noise is left: that is the last entry of a table "
            "made by cumprod()",
            fix=f"go through the levels backwards: for {ast.unparse(loop.target)} in reversed({levels})",
            location=Location(file, loop.lineno),
        )


_MOST_RANGE = 2
_WRAPS = frozenset({"tqdm", "trange", "list", "tuple", "tensor", "as_tensor"})
_MAX_NAMES = 3


def _given_to(tree: SourceTree, node: ast.expr) -> list[ast.expr]:
    """What a variable, an attribute or a buffer of a module is given."""
    key = tree.key_of(node)
    given = tree.values_of(key)
    if isinstance(node, ast.Attribute) and not given:
        registered = (each for each in tree.nodes if called_name(each) == "register_buffer")
        for call in registered:
            match call:
                case ast.Call(args=[ast.Constant(value=name), value, *_]) if name == node.attr:
                    given.append(value)
    return given


def _rises(tree: SourceTree, iterated: ast.expr) -> bool:
    """``range(steps)``, ``range(0, steps)``, ``torch.arange(steps)``, also by way of a variable."""
    while called_name(iterated) in _WRAPS and isinstance(iterated, ast.Call) and iterated.args:
        iterated = iterated.args[0]
    if isinstance(iterated, ast.Name):
        given = _given_to(tree, iterated)
        return len(given) == 1 and not isinstance(given[0], ast.Name) and _rises(tree, given[0])
    if called_name(iterated) == "arange" and isinstance(iterated, ast.Call):
        return 1 <= len(iterated.args) <= _MOST_RANGE
    if not isinstance(iterated, ast.Call) or called_name(iterated) != "range" or iterated.keywords:
        return False
    return 1 <= len(iterated.args) <= _MOST_RANGE


def _is_read_at(node: ast.AST, loop: ast.For) -> bool:
    """``table[i]``, with the variable of the loop."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.slice, ast.Name)
        and isinstance(loop.target, ast.Name)
        and node.slice.id == loop.target.id
    )


def _table_read(tree: SourceTree, loop: ast.For, name: str) -> str | None:
    """The table of the products of all factors up to a level that a loop reads at its own variable, for a variable that
    it changes."""
    stored = [each for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    if sum(each.id == getattr(loop.target, "id", "") for each in stored) > 1:
        return None
    for rest in (each for value in _values_for(tree, loop, name) for each in ast.walk(value)):
        # The share of the noise, 1 - table[i]: discounts are products of factors, too.
        is_rest = isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Sub) and isinstance(rest.left, ast.Constant)
        node = rest.right if isinstance(rest, ast.BinOp) and is_rest else None
        if isinstance(node, ast.Name):
            read = [value for value in _given_to(tree, node) if _is_read_at(value, loop)]
            node = read[0] if len(read) == 1 else None
        values = _given_to(tree, node.value) if isinstance(node, ast.Subscript) and _is_read_at(node, loop) else []
        if values and isinstance(node, ast.Subscript) and all(_is_product(tree, value) for value in values):
            return ast.unparse(node)
    return None


def _values_for(tree: SourceTree, loop: ast.For, name: str) -> list[ast.expr]:
    """What a loop computes of which a variable gets its value."""
    inside = set(ast.walk(loop))
    made = [(target, value) for target, value in tree.assignments if target in inside]
    made += [(each.target, each.value) for each in inside if isinstance(each, ast.AugAssign)]
    known, count = {name}, 0
    while count != len(known):
        count = len(known)
        known |= {source for target, value in made if names_in(target) & known for source in names_in(value)}
    return [value for target, value in made if names_in(target) & known]


def _is_product(tree: SourceTree, value: ast.expr) -> bool:
    """Whether ``cumprod()`` made it, or ``cumsum()`` of logarithms, whose results nothing turned around; perhaps of
    data that go to a device."""
    for _ in range(_MAX_NAMES):
        given = _given_to(tree, value) if isinstance(value, ast.Name) else []
        value = given[0] if len(given) == 1 else value
    while called_name(value) in ("to", "float", "clone") and isinstance(value, ast.Call):
        if not isinstance(value.func, ast.Attribute):
            return False
        value = value.func.value
    is_turned = any(called_name(each) in ("flip", "flipud") for each in ast.walk(value))
    names = [called_name(each) for each in ast.walk(value)]
    is_by_logarithm = names[:1] == ["exp"] and "cumsum" in names and "log" in names
    return (called_name(value) == "cumprod" or is_by_logarithm) and not is_turned


def _asks_of(loop: ast.For, name: str) -> bool:
    """Whether a loop computes something of a variable with a function that is not one of torch, as a network is."""
    values = (each.value for each in ast.walk(loop) if isinstance(each, (ast.Assign, ast.AugAssign, ast.AnnAssign)))
    calls = (each for value in values if value is not None for each in ast.walk(value) if isinstance(each, ast.Call))
    return any(
        name in names_in(part) and not _is_of_library(call)
        for call in calls
        for part in (*call.args, *(each.value for each in call.keywords))
    )


def _is_of_library(call: ast.Call) -> bool:
    """``torch.randn_like(x)``, ``randn_like(x)``; and methods of what was computed, ``table[i].sqrt()``."""
    root = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    is_known = isinstance(root, ast.Name) and root.id in ("torch", "F", "np", "math")
    return is_known or called_name(call).endswith("_like") or not isinstance(root, (ast.Name, ast.Subscript))


def _changed_noise(tree: SourceTree, loop: ast.For) -> str | None:
    """What was drawn last before a loop that gives it a value made of itself."""
    scope = tree.scope(loop)
    inside = set(ast.walk(loop))
    for target, value in tree.assignments:
        if (
            not isinstance(target, ast.Name)
            or target not in inside
            or next(tree.loops_around(target), None) is not loop
        ):
            continue
        if not any(isinstance(each, ast.Name) and each.id == target.id for each in ast.walk(value)):
            continue
        before = [
            (other.lineno, given)
            for other, given in tree.assignments
            if isinstance(other, ast.Name) and other.id == target.id and other.lineno < loop.lineno
            and tree.scope(other) is scope
        ]  # fmt: skip
        drawn = max(before, key=lambda pair: pair[0], default=None)
        if drawn is not None and called_name(drawn[1]) in ("randn", "randn_like"):
            return target.id
    return None
