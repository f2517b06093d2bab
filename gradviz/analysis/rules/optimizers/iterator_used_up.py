"""GV770."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.iterators.named_iterators import named_iterators
from gradviz.analysis.rules.bases.sources.iterators.order_of_uses import Use
from gradviz.analysis.rules.bases.sources.iterators.uses_of_iterators import CLIPS, COLLECT, EmptyUse, uses_when_empty
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, called_name
from gradviz.graph.call_log import CallLog


class IteratorUsedUp(Rule):
    """A loop goes over an iterator that is empty: something has gone over it before.

    What it finds
    -------------
    A variable that holds ``model.parameters()``, ``zip()``, ``filter()``, ``map()`` or a generator, and that a second
    loop, comprehension or group of an optimizer goes over; or the same loop, when it runs again. The calls of the run
    must agree: nothing happens in this loop. Where ``clip_grad_norm_()`` is the second, GV610 tells it.

    Why it matters
    --------------
    An iterator gives its elements once, and a loop over an empty one raises nothing. Averages are never updated,
    penalties are zero, layers are not frozen, and later epochs train on nothing.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weights = model.parameters()
    for step in range(3):
        loss = model(torch.randn(8, 4)).square().mean()
        loss = loss + 0.01 * sum(w.square().sum() for w in weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weights = list(model.parameters())
    for step in range(3):
        loss = model(torch.randn(8, 4)).square().mean()
        loss = loss + 0.01 * sum(w.square().sum() for w in weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV770"
    name = "iterator_used_up"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        if not case.histories.reached_by:
            return
        for file, tree in own_files(case):
            yield from self._of_file(case, file, tree)

    def _of_file(self, case: Case, file: str, tree: SourceTree) -> Iterator[Finding]:
        ran = LinesThatRan(case.dataflow, file)
        lines = set[int]()
        empty = [(held, each) for held in named_iterators(tree) for each in uses_when_empty(tree, held)]
        for held, found in sorted(empty, key=lambda each: each[1].before is None):
            line = found.use.node.lineno
            is_new = lines.isdisjoint((line, held.line)) and _has_effect(tree, found.use)
            if is_new and _is_confirmed(case, tree, ran, found):
                lines |= {line, held.line}
                yield self._finding(case, Location(file, held.line), Location(file, line), found)

    def _finding(self, case: Case, made: Location, used: Location, found: EmptyUse) -> Finding:
        variable, name = ast.unparse(found.use.read), called_name(found.use.node)
        what = f"{f'the {name}() that gets it' if name else 'the loop over it'}{at_line(used)}"
        when = (
            f"{what} runs again: then it is empty"
            if found.before is None
            else f"{what} finds it empty: line {found.before.node.lineno} has used it up"
        )
        return self.finding(
            f"{variable} is an iterator, and {when}",
            symptom="grad_wrong",
            why="an iterator gives its elements once: afterwards it is empty, and a loop over it does nothing",
            fix="make it a list: list(...)",
            location=made,
            symptom_location=used if used != made else None,
            tensors=names_of(case.dataflow, sorted(case.histories.trained)) if _clears_gradients(found.use) else (),
        )


def _clears_gradients(use: Use) -> bool:
    """``for p in params: p.grad = None``, or ``p.grad.zero_()``."""
    text = "; ".join(map(ast.unparse, use.node.body)) if isinstance(use.node, ast.For) else ""
    return any(each in text for each in (".grad = None", ".grad.zero_(", ".grad.detach_("))


_TWICE = 2
_IDLE = frozenset({
    "numel", "nelement", "element_size", "shape", "size", "dim", "ndim", "dtype", "device", "requires_grad", "is_leaf",
})  # fmt: skip
_SHOW = frozenset({"print", "str", "repr", "len", "type", "isinstance"})


def _has_effect(tree: SourceTree, use: Use) -> bool:
    """Whether a use does more than count or print elements."""
    if called_name(use.node) in CLIPS:
        return False  # another rule tells it
    if use.is_call:
        return called_name(tree.parent(use.node) or use.node) not in _SHOW
    targets = [use.node.target] if isinstance(use.node, ast.For) else [each.target for each in _generators(use.node)]
    names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    parts = use.node.body if isinstance(use.node, ast.For) else [use.node]
    reads = (
        node
        for part in parts
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names
    )
    return any(not _is_idle(tree, node) for node in reads)


def _generators(node: ast.AST) -> list[ast.comprehension]:
    return list(getattr(node, "generators", ()))


def _is_idle(tree: SourceTree, name: ast.Name) -> bool:
    around = tree.parent(name)
    if isinstance(around, ast.Attribute):
        return around.attr in _IDLE and isinstance(around.ctx, ast.Load)
    return isinstance(around, ast.FormattedValue) or called_name(around or name) in _SHOW


def _is_confirmed(case: Case, tree: SourceTree, ran: LinesThatRan, found: EmptyUse) -> bool:
    """Whether the calls of the run agree: a use did nothing, or nothing when it ran again."""
    node = found.use.node
    if found.use.is_call and called_name(node) not in COLLECT:
        return any(not group for optimizer in case.dataflow.log.optimizers for group in optimizer.groups)
    rows = _rows_of(case, ran, node)
    if found.before is not None:
        return not rows
    is_one_run = ran.moments(rows) < _TWICE or ran.has_backward(rows)
    return is_one_run and found.loop is not None and ran.runs_again(tree, found.loop)


def _rows_of(case: Case, ran: LinesThatRan, node: ast.For | ast.expr) -> list[int]:
    """The calls in the body of a loop; of a comprehension, those that take parameters or gradients, as others may
    stand on its lines."""
    if isinstance(node, ast.For):
        return ran.rows_in(node.body[0].lineno, node.end_lineno or node.lineno)
    log = case.dataflow.log
    return [
        row
        for row in ran.rows_in(node.lineno, node.end_lineno or node.lineno)
        if log.calls[row].scope is None and any(_is_element(log, use.tensor) for use in log.calls[row].inputs)
    ]


def _is_element(log: CallLog, tensor: int) -> bool:
    return log.tensors[tensor].role != "tensor" or log.tensors[tensor].gradient_of is not None
