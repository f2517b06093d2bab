"""GV743."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files, own_tree
from gradviz.analysis.rules.bases.sources.rates.copied_groups import rates_set_in_copies
from gradviz.analysis.rules.bases.sources.rates.rates_by_hand import rates_set
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name
from gradviz.graph.call_log import LoggedOptimizer


class RateSetElsewhere(Rule):
    """A line sets a learning rate where the optimizer does not read it, or for one of its groups only.

    What it finds
    -------------
    ``optimizer.lr = ...`` and ``optimizer.defaults["lr"] = ...``, a rate in a copy of the groups, such as those of
    ``optimizer.state_dict()``, and ``group["learning_rate"]``, where the rate of the optimizer never changes; and
    ``optimizer.param_groups[0]["lr"] = ...`` for an optimizer with several groups of one rate, of which only the first
    one changes its rate, though no line names the others. Attributes that the program reads itself are left alone, as
    are those of something else that has the same name, such as options, and notes of a rate that the groups get, too.

    Why it matters
    --------------
    ``step()`` reads the rate of each group from ``param_groups``. An attribute with another name is only Python's, and
    the defaults are read when a group is added: the schedule has no effect, and nothing says so.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.lr = 0.1 * 0.5**step
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * 0.5**step
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV743"
    name = "rate_set_elsewhere"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for optimizer in case.dataflow.log.optimizers:
            is_own = optimizer.class_name not in _OF_TORCH or _is_defined(case, optimizer.class_name)
            if optimizer.steps < _MIN_STEPS or is_own:
                continue  # An optimizer of the program may read what it likes.
            for place, location in (*_lines_that_set(case, optimizer), *_lines_of_copies(case, optimizer)):
                if _has_no_effect(case, optimizer, place):
                    yield self._finding(optimizer, place, location)
                    break

    def _finding(self, optimizer: LoggedOptimizer, place: str, location: Location) -> Finding:
        who = optimizer_words(optimizer)
        is_first = "param_groups" in place
        return self.finding(
            f"this line sets the learning rate of the first group of {who} only: that of the second one is "
            f"{_words(optimizer.learning_rates[1])} in all {optimizer.steps:,} steps"
            if is_first
            else f"this line sets {place}, which step() of {who} does not read: its learning rate is "
            f"{_words(optimizer.learning_rates[0])} in all {optimizer.steps:,} steps",
            symptom="grad_wrong",
            why="step() reads the learning rate of each group from optimizer.param_groups",
            fix='set it for each group: for group in optimizer.param_groups: group["lr"] = rate',
            location=location,
            evidence={"steps": optimizer.steps},
        )


_MIN_STEPS = 3
_OF_TORCH = frozenset({
    "SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "LBFGS", "NAdam", "RAdam", "RMSprop", "Rprop",
    "SparseAdam", "Adafactor", "Muon",
})  # fmt: skip
_PLACES = r"""lr|learning_rate|defaults\[['"]lr['"]\]|param_groups\[0\]\[['"]lr['"]\]"""


def _words(rate: float | None) -> str:
    return "theirs" if rate is None else f"{rate:.3g}"


def _lines_that_set(case: Case, optimizer: LoggedOptimizer) -> Iterator[tuple[str, Location]]:
    """The lines that assign a rate to an optimizer, with what they assign to."""
    for name in sorted(_names_of(case, optimizer)):
        assigned = re.compile(rf"\b({re.escape(name)}\.(?:{_PLACES}))\s*[-+*/]?=(?!=)")
        for file, lines in case.capture.sources.items():
            for number, text in lines.items():
                found = assigned.search(text.partition("#")[0])
                if not found or _is_read(case, name, found[1].rpartition(".")[2]):
                    continue
                location = Location(file, number)
                if not _is_of_another(case, optimizer, location, name) and not _is_copy_of_a_group(case, location):
                    yield found[1], location


def _names_of(case: Case, optimizer: LoggedOptimizer) -> set[str]:
    """The last names of an optimizer, also those that the lines give it which make one of its class: an object that
    no variable holds any more, such as a trainer, may have it."""
    made = (
        last_name(target)
        for _, tree in own_files(case)
        for target, value in tree.assignments
        if called_name(value) == optimizer.class_name
    )
    return {*(name.rpartition(".")[2] for name in optimizer.names), *made} - {""}


def _is_of_another(case: Case, optimizer: LoggedOptimizer, location: Location, name: str) -> bool:
    """Whether the name stands for something else in the function of a line: for options, say, that are called opt."""
    tree = None if name in optimizer.names else own_tree(case, location.file)
    statement = None if tree is None else tree.statement_at(location.line)
    if tree is None or statement is None:
        return False
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id == name and isinstance(tree.parent(node), ast.Attribute):
            values = tree.values_of(tree.key_of(node))
            return bool(values) and not any(_may_be_optimizer(tree, each, optimizer.class_name) for each in values)
    return False


def _may_be_optimizer(tree: SourceTree, value: ast.expr, class_name: str) -> bool:
    """Whether an expression may be an optimizer of a class; not what parses arguments, nor what a function or class of
    the program returns which makes none."""
    called = called_name(value)
    made_by = [node for node in tree.nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == called]
    is_made = any(called_name(each) == class_name for node in made_by for each in ast.walk(node))
    return called not in _OPTIONS and (not made_by or is_made)


_OPTIONS = frozenset({"parse_args", "Namespace", "SimpleNamespace"})


def _is_copy_of_a_group(case: Case, location: Location) -> bool:
    """Whether the function of a line also gives the same rate to the groups, so that the line only notes it."""
    tree = own_tree(case, location.file)
    statement = None if tree is None else tree.statement_at(location.line)
    if tree is None or not isinstance(statement, ast.Assign):
        return False
    return any(
        tree.scope(target) is tree.scope(statement)
        and target.lineno != location.line
        and last_name(target.value) != "defaults"
        and ast.dump(each) == ast.dump(statement.value)
        for target, each in rates_set(tree)
    )


def _is_defined(case: Case, name: str) -> bool:
    """Whether the program has a class of this name."""
    return any(
        isinstance(node, ast.ClassDef) and node.name == name for _, tree in own_files(case) for node in tree.nodes
    )


def _is_read(case: Case, owner: str, name: str) -> bool:
    """Whether the program uses an attribute that it sets, and does not only show it."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Load)
        and last_name(node.value) == owner
        and not any(called_name(each) in _SHOWS for each in tree.around(node))
        for _, tree in own_files(case)
        for node in tree.nodes
    )


_SHOWS = frozenset({"print", "info", "debug", "write", "append", "log"})


def _lines_of_copies(case: Case, optimizer: LoggedOptimizer) -> Iterator[tuple[str, Location]]:
    """The lines that set a rate in a copy of its groups, or under a name that it does not read."""
    is_only_one = len(case.dataflow.log.optimizers) == 1
    names = {name.rpartition(".")[2] for name in optimizer.names}
    for file, tree in own_files(case):
        for found in rates_set_in_copies(tree):
            if is_only_one or found.optimizer in names:
                yield found.place, Location(file, found.line)


def _has_no_effect(case: Case, optimizer: LoggedOptimizer, place: str) -> bool:
    if "param_groups" not in place:
        return not optimizer.rate_changes
    rates = optimizer.learning_rates[1:]
    others = zip(rates, optimizer.highest_rates[1:], strict=False)
    return (
        optimizer.rate_changes > 0
        and len(set(optimizer.made_rates)) <= 1  # Else each group has its own on purpose.
        and bool(rates)
        and all(rate is not None and rate == highest for rate, highest in others)
        and not any("param_groups" in text and "[0]" not in text for text in _texts(case))
    )


def _texts(case: Case) -> Iterator[str]:
    for lines in case.capture.sources.values():
        yield from lines.values()
