"""GV950."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import callers, line_in_function_of, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.sources.source_tree import LOOPS, Loop, SourceTree, called_name, names_in, tree_of
from gradviz.graph.model import CallSite


class ModelMadeAnew(Rule):
    """Each epoch begins with new weights, so that what the epochs before it have learned is lost.

    What it finds
    -------------
    A loop over epochs in which the weights of all that is trained are made or drawn again, three times or more, where
    nothing uses the old ones any more and nothing else sets the new ones. A loop over folds, seeds or settings around
    a training of several epochs is left alone, and so are the members of an ensemble, a layer that is drawn again while
    the rest goes on, and weights that are loaded.

    Why it matters
    --------------
    Every epoch is the first one. The loss falls within an epoch and is high again at the next one, and the model that
    is kept has seen the data once.

    Example
    -------
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    for epoch in range(4):
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for rows in torch.randperm(40).split(10):
            optimizer.zero_grad()
            (model(x[rows]) - y[rows]).square().mean().backward()
            optimizer.step()

    Instead
    -------
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        for rows in torch.randperm(40).split(10):
            optimizer.zero_grad()
            (model(x[rows]) - y[rows]).square().mean().backward()
            optimizer.step()
    """

    code = "GV950"
    name = "model_made_anew"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        by_loop = defaultdict[tuple[str, int], dict[int, list[int]]](dict)
        for leaf in sorted(frozenset().union(*case.histories.reached_by.values())):
            for row in _drawn_at(case.dataflow, leaf):
                loop = _epochs_around(case, row)
                if loop is not None:
                    by_loop[loop].setdefault(leaf, []).append(row)
        for loop, births in by_loop.items():
            rounds = _rounds(case.dataflow, births)
            if len(rounds) < _MIN_TIMES or not _are_thrown_away(case, births, rounds):
                continue
            inside = [row for row in case.histories.reached_by if rounds[0] < row < rounds[-1]]
            if _is_of_steps(case, loop) and len(inside) >= len(rounds):
                continue  # What is trained for several steps in each round is no step.
            if not any(_trains_for_epochs(case, row, loop) for row in inside):
                yield self._finding(case, births, rounds)

    def _finding(self, case: Case, births: dict[int, list[int]], rounds: list[int]) -> Finding:
        flow, first = case.dataflow, sorted(births)
        steps = sum(rounds[0] < row < rounds[1] for row in flow.rows_of_kind("backward"))
        is_kept = any(len(rows) >= _MIN_TIMES for rows in births.values())
        names = case.histories.together([leaf for leaf in first if births[leaf][0] < rounds[1]])
        return self.finding(
            f"{names} are {'drawn' if is_kept else 'made'} again in each epoch, {len(rounds):,} times, and each "
            f"time trained for {steps:,} backward {'call' if steps == 1 else 'calls'}",
            symptom="grad_wrong",
            why="new weights know nothing of the epochs before: the training begins again and again",
            fix="draw the weights once, before the loop over epochs"
            if is_kept
            else "make the model and its optimizer once, before the loop over epochs",
            location=location_of_line(line_in_function_of(flow, rounds[1], flow.next_of_kind("backward", rounds[1]))),
            tensors=names_of(flow, first[:_MAX_NAMES]),
            evidence={"times": len(rounds), "backwards": steps},
        )


_MIN_TIMES = 3
_MAX_NAMES = 4
_DRAWS = frozenset({
    "uniform", "normal", "kaiming_uniform", "kaiming_normal", "xavier_uniform", "xavier_normal", "trunc_normal",
    "orthogonal", "randn", "rand", "randn_like", "rand_like",
})  # fmt: skip
_FILLS = frozenset({"zero", "fill", "constant", "zeros", "ones"})
_EPOCH = re.compile(
    r"e|ep|_?epoch(_?(i|id|idx|nr|num|number|index))?|(i|n|cur|current|this)_?epoch|step", re.IGNORECASE
)
"""One epoch or step; ``epochs`` may be how many there are."""
_COUNTS = frozenset({"range", "trange", "count"})
_WRAP = frozenset({"tqdm", "track"})


def _drawn_at(flow: Dataflow, leaf: int) -> list[int]:
    """The calls that draw the values of a leaf."""
    rows = {row for shared in flow.sharing_memory(leaf) for row in flow.producers(shared)}
    return sorted(row for row in rows if plain_name(flow.log.calls[row].function) in _DRAWS)


def _rounds(flow: Dataflow, births: dict[int, list[int]]) -> list[int]:
    """The first draw after each of some backward calls that another draw follows."""
    first = dict[int | None, int]()
    for row in sorted(row for rows in births.values() for row in rows):
        first.setdefault(flow.backward_before(row), row)
    return list(first.values())


def _are_thrown_away(case: Case, births: dict[int, list[int]], rounds: list[int]) -> bool:
    """Whether each round trains new weights of the same shapes, and nothing but these, and leaves them alone when the
    next round begins."""
    flow, histories = case.dataflow, case.histories
    ends = [*rounds[1:], len(flow.log.calls)]
    sizes = list[list[tuple[int, ...]]]()
    for begin, end in zip(rounds, ends, strict=True):
        new = {leaf for leaf, rows in births.items() if any(begin <= row < end for row in rows)}
        trained = {leaf for row, leaves in histories.reached_by.items() if begin < row < end for leaf in leaves}
        if not trained or not all(leaf in new or _is_new(case, leaf, begin, end) for leaf in trained):
            return False
        if any(_is_set_otherwise(flow, leaf, begin, end) for leaf in trained):
            return False
        is_last = end == ends[-1]
        if not is_last and any(len(births[leaf]) < _MIN_TIMES and flow.users(leaf, end) for leaf in new):
            return False
        sizes.append(sorted(shape_of(flow, leaf) for leaf in trained))
    return all(each == sizes[0] for each in sizes)


def _is_new(case: Case, leaf: int, begin: int, end: int) -> bool:
    """Whether a leaf is made in a round, or filled with a number, as a bias is with zeros."""
    filled = (case.dataflow.log.calls[row] for row in case.dataflow.changes(leaf, begin, end))
    return (case.histories.made_by(leaf) or 0) >= begin or any(plain_name(call.function) in _FILLS for call in filled)


def _is_set_otherwise(flow: Dataflow, leaf: int, begin: int, end: int) -> bool:
    """Whether other tensors give a leaf its values, as where weights are loaded or copied."""
    changes = (flow.log.calls[row] for row in flow.changes(leaf, begin, end))
    if any(call.kind != "step" and call.inside is None and len(call.inputs) > 1 for call in changes):
        return True
    return any(begin < row < end and row not in _own_moves(flow, leaf) for row in flow.data_replacements(leaf))


def _own_moves(flow: Dataflow, leaf: int) -> set[int]:
    """Assignments of a value that was computed from the leaf: ``p.data = p.data - rate * p.grad``."""
    own = flow.sharing_memory(leaf)
    return {
        row
        for row in flow.data_replacements(leaf)
        for made in flow.producers(flow.log.calls[row].inputs[-1].tensor, row)[-1:]
        if any(use.tensor in own for use in flow.log.calls[made].inputs)
    }


def _epochs_around(case: Case, row: int) -> tuple[str, int] | None:
    """The innermost loop around a call, in its function or those that called it, if that counts epochs."""
    for site in callers(case.dataflow, row):
        for tree, loop in _loops_at(case, site):
            return (site.file, loop.lineno) if _counts_epochs(tree, loop) else None
    return None


def _trains_for_epochs(case: Case, row: int, loop: tuple[str, int]) -> bool:
    """Whether another loop over epochs is around a backward call and inside of a loop, which then goes through
    trainings."""
    for site in callers(case.dataflow, row):
        for _, each in _loops_at(case, site):
            if (site.file, each.lineno) == loop:
                return False
            if isinstance(each, ast.For) and _is_of_epochs(each) and ast.unparse(each.target) != "step":
                return True
    return True


def _loops_at(case: Case, site: CallSite) -> Iterator[tuple[SourceTree, Loop]]:
    lines = case.capture.sources.get(site.file, {})
    if site.line in lines:
        tree = tree_of(lines)
        statement = tree.statement_at(site.line)
        for loop in tree.loops_around(statement) if statement is not None else ():
            yield tree, loop


def _is_of_steps(case: Case, loop: tuple[str, int]) -> bool:
    """Whether the number of a loop is called a step."""
    file, line = loop
    tree = tree_of(case.capture.sources[file])
    return any(
        isinstance(each, ast.For) and each.lineno == line and ast.unparse(each.target) == "step" for each in tree.nodes
    )


def _is_of_epochs(loop: Loop) -> bool:
    names = names_in(loop.test) if isinstance(loop, ast.While) else names_in(loop.target)
    return any(_EPOCH.fullmatch(each) for each in names)


def _counts_epochs(tree: SourceTree, loop: Loop) -> bool:
    """Whether a loop counts epochs up, and its number says nothing of how a model is made or how long it is trained."""
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name) or not _is_of_epochs(loop):
        return isinstance(loop, ast.While) and _is_of_epochs(loop)
    over = loop.iter
    while isinstance(over, ast.Call) and called_name(over) in _WRAP and over.args:
        over = over.args[0]
    inner = (each.iter for node in loop.body for each in ast.walk(node) if isinstance(each, LOOPS[:2]))
    key = tree.key_of(loop.target)
    is_a_length = any(tree.key_of(each) == key for node in inner for each in ast.walk(node))
    return called_name(over) in _COUNTS and not is_a_length
