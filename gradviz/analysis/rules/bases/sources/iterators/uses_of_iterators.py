"""What goes over an iterator, and which of it certainly comes when the iterator is empty already.

>>> from gradviz.analysis.rules.bases.sources.iterators.named_iterators import named_iterators
>>> tree = SourceTree(dict(enumerate('''params = model.parameters()
... optimizer = SGD(params, lr=0.1)
... for step in range(9):
...     for p in params:
...         p.grad.clamp_(-1, 1)
... '''.splitlines(), start=1)))
>>> held = next(named_iterators(tree))
>>> [(found.use.node.lineno, found.before.node.lineno) for found in uses_when_empty(tree, held)]
[(4, 2)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.iterators.named_iterators import NamedIterator
from gradviz.analysis.rules.bases.sources.iterators.order_of_uses import Order, Use
from gradviz.analysis.sources.source_tree import COMPREHENSIONS, Loop, SourceTree, called_name, is_read


class EmptyUse(Struct, frozen=True):
    """A use of an iterator that gets nothing."""

    use: Use
    before: Use | None
    """What has used it up."""
    loop: Loop | None = None
    """The loop that repeats the use, where its own earlier run has used it up."""


_PASS_ON = frozenset({"zip", "enumerate", "tqdm", "reversed", "map", "filter"})
COLLECT = frozenset({"list", "tuple", "set", "sorted", "sum", "dict", "parameters_to_vector"})
_OPTIMIZERS = frozenset({
    "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "LBFGS",
    "Adafactor", "Muon", "SparseAdam", "add_param_group",
})  # fmt: skip
CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_", "get_total_norm"})
_TAKE_SOME = frozenset({"next", "any", "all", "tee", "islice"})
_LEAVE = (ast.Break, ast.Return, ast.Raise)


def uses_when_empty(tree: SourceTree, held: NamedIterator) -> Iterator[EmptyUse]:
    """Uses that get nothing, because another one or an earlier run of the same one has used the iterator up."""
    reads = [
        node
        for node in tree.nodes
        if isinstance(node, (ast.Name, ast.Attribute)) and is_read(node) and tree.key_of(node) in held.keys
    ]
    if any(called_name(tree.parent(node) or node) in _TAKE_SOME for node in reads):
        return
    uses = [use for node in reads for use in _use(tree, node)]
    order = Order(tree, held)
    for use in uses:
        before = next((other for other in uses if other is not use and order.is_before(other, use)), None)
        loop = order.loop_around(use) if before is None else None
        if before is not None or loop is not None:
            yield EmptyUse(use, before, loop)


def _use(tree: SourceTree, read: ast.Name | ast.Attribute) -> Iterator[Use]:
    """The loop or call that goes over all of what a variable holds, if it is known that it does."""
    key = tree.key_of(read)
    taker = _taker(tree, read)
    if key is not None and taker is not None:
        yield Use(taker, key, read)


def _taker(tree: SourceTree, read: ast.expr) -> ast.For | ast.expr | None:
    below: ast.AST = read
    for node in tree.around(read):
        name = called_name(node)
        if isinstance(node, ast.For) and node.iter is below:
            return None if _leaves(tree, node) else node
        if isinstance(node, ast.comprehension) and node.iter is below:
            return _whole_comprehension(tree, node)
        if isinstance(node, ast.Call):
            if name in _OPTIMIZERS or (name in COLLECT | CLIPS and node.args[:1] == [below]):
                return node
            if name not in _PASS_ON or any(called_name(each) == "range" for each in node.args):
                return None
        elif not isinstance(node, (ast.Dict, ast.List, ast.keyword)):  # groups of an optimizer
            return None
        below = node
    return None


def _whole_comprehension(tree: SourceTree, part: ast.comprehension) -> ast.expr | None:
    """The comprehension that goes over something first; a generator only if something collects what it gives."""
    owner = tree.parent(part)
    if not isinstance(owner, COMPREHENSIONS) or owner.generators[0] is not part:
        return None
    is_lazy = isinstance(owner, ast.GeneratorExp) and called_name(tree.parent(owner) or owner) not in COLLECT
    return None if is_lazy else owner


def _leaves(tree: SourceTree, loop: ast.For) -> bool:
    """Whether a loop may end before it has gone over all."""
    inner = (node for statement in loop.body for node in ast.walk(statement) if isinstance(node, _LEAVE))
    return any(not isinstance(node, ast.Break) or next(tree.loops_around(node), None) is loop for node in inner)
