"""GV991."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import argument
from gradviz.analysis.sources.source_tree import SourceTree, names_in, tree_of
from gradviz.graph.call_log import IGNORED_CLASS, Padding


class PaddingInCount(Rule):
    """A sum of losses that leaves the padding out is divided by a number of tokens that counts it.

    What it finds
    -------------
    ``cross_entropy(..., ignore_index=pad, reduction="sum")`` of targets that are padded with this class, beside a count
    ``tokens += targets.numel()``, or a division by ``targets.numel()``.

    Why it matters
    --------------
    The more padding a batch has, the smaller the mean loss and the perplexity that are reported, whatever the model
    has learned.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, target = torch.randn(6, 6, 4), torch.randint(1, 3, (6, 6)).tril()
    for step in range(3):
        scores = model(x).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(scores, target.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total, tokens = 0.0, 0
    with torch.no_grad():
        for rows in torch.arange(6).split(6):
            scores = model(x[rows]).flatten(0, 1)
            labels = target[rows]
            total += torch.nn.functional.cross_entropy(scores, labels.flatten(), ignore_index=0, reduction="sum").item()
            tokens += labels.numel()
    print(total / tokens)

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, target = torch.randn(6, 6, 4), torch.randint(1, 3, (6, 6)).tril()
    for step in range(3):
        scores = model(x).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(scores, target.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total, tokens = 0.0, 0
    with torch.no_grad():
        for rows in torch.arange(6).split(6):
            scores = model(x[rows]).flatten(0, 1)
            labels = target[rows]
            total += torch.nn.functional.cross_entropy(scores, labels.flatten(), ignore_index=0, reduction="sum").item()
            tokens += (labels != 0).sum().item()
    print(total / tokens)
    """

    code = "GV991"
    name = "padding_in_count"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, ("cross_entropy", "nll_loss")):
            target = argument(call, 1, "target")
            padding = None if target is None else call.padding.get(target.place)
            ignored = call.scalars.get("ignore_index", IGNORED_CLASS)
            is_summed = call.scalars.get("reduction") == "sum"
            if padding is None or padding.value != ignored or not is_summed or call.call_site in told:
                continue
            told.add(call.call_site)
            location = location_of_call(flow, row)
            lines = None if location is None else case.capture.sources.get(location.file)
            counted = _count_beside(tree_of(lines), location.line) if location is not None and lines else None
            if location is not None and counted is not None:
                yield self._finding(location, plain_name(call.function), counted, padding)

    def _finding(self, location: Location, name: str, counted: _Count, padding: Padding) -> Finding:
        line = Location(location.file, counted.line)
        return self.finding(
            f"{name}() leaves out the targets that are {padding.value}, {padding.count:,} of the {padding.of:,} in the "
            f"first batch, and its sum is divided by {counted.text}, which counts them",
            symptom="none",
            why="the mean is too small by the share of the padding, and so is a perplexity that is computed of it",
            fix=f"count what the loss counts: ({counted.target} != {padding.value}).sum().item()",
            location=line,
            symptom_location=location if location != line else None,
            evidence={"padding": padding.value, "padded": padding.count, "positions": padding.of},
        )


_COUNTS = frozenset({"numel", "nelement"})


class _Count(Struct, frozen=True):
    """How many targets the source counts."""

    line: int
    target: str
    text: str
    """As the source writes it: ``labels.numel()``."""


def _count_beside(tree: SourceTree, line: int) -> _Count | None:
    """The count of all targets of a loss, if a sum of losses is divided by it."""
    statement = tree.statement_at(line)
    losses = _summed_losses(tree, statement) if statement is not None else []
    if statement is None or len(losses) != 1:
        return None
    function, targets = tree.scope(statement), _names_of_target(losses[0])
    divisors = {
        ast.unparse(node.right)
        for node in ast.walk(function)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    }
    around = next(tree.loops_around(statement), function)
    for node in ast.walk(around):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and ast.unparse(node.target) in divisors:
            counted = node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and losses[0] in ast.walk(node.left):
            counted = node.right
        else:
            continue
        if _target_counted(counted) in targets:
            return _Count(counted.lineno, _target_counted(counted), ast.unparse(counted))
    return None


def _summed_losses(tree: SourceTree, statement: ast.stmt) -> list[ast.Call]:
    """The calls with ``reduction="sum"``, or of an object that was made with it."""
    calls = [each for each in ast.walk(statement) if isinstance(each, ast.Call)]
    made = {key for target, value in tree.assignments if _is_summed(value) and (key := tree.key_of(target)) is not None}
    return [call for call in calls if _is_summed(call) or tree.key_of(call.func) in made]


def _is_summed(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and any(
        each.arg == "reduction" and isinstance(each.value, ast.Constant) and each.value.value == "sum"
        for each in node.keywords
    )


def _names_of_target(loss: ast.Call) -> set[str]:
    """The variables in the second argument of a loss."""
    given = loss.args[1:2] or [each.value for each in loss.keywords if each.arg == "target"]
    return {name for each in given for name in names_in(each)}


def _target_counted(value: ast.expr) -> str:
    """``labels`` of ``labels.numel()`` and of ``labels.size(0) * labels.size(1)``; "" for other expressions."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute), args=[]) if attribute in _COUNTS:
            return name
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            sides = {_side_of(left), _side_of(right)}
            return sides.pop() if len(sides) == 1 else ""
    return ""


def _side_of(value: ast.expr) -> str:
    """``labels`` of ``labels.size(0)`` and of ``labels.shape[0]``."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[ast.Constant()]):
            return name
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant()):
            return name
    return ""
