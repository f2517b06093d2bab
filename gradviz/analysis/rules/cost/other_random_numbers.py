"""GV802."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, location_of_call
from gradviz.analysis.dataflow.layer_calls import is_idle_dropout
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.source_tree import called_name, names_in


class OtherRandomNumbers(Rule):
    """A part is computed again in backward with other random numbers, so the gradient belongs to another forward.

    What it finds
    -------------
    ``checkpoint(..., preserve_rng_state=False)`` around dropout in training mode, or around other calls that draw
    random numbers, if a backward goes through it. Also a custom ``autograd.Function`` whose backward computes again
    what its forward did, as reversible layers do, and draws other numbers there. It compares the states of the
    generators: a backward that puts the state of forward back, or that draws nothing, is left out.

    Why it matters
    --------------
    A checkpoint keeps its inputs only, and computes the rest again in backward. With other random numbers, dropout
    drops other units there: the gradient is that of a forward that never ran. Nothing raises.

    Example
    -------
    from torch.utils.checkpoint import checkpoint

    block = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3))
    head = torch.nn.Linear(8, 1)
    h = checkpoint(block, torch.randn(4, 8), use_reentrant=False, preserve_rng_state=False)
    head(h).square().mean().backward()

    Instead
    -------
    from torch.utils.checkpoint import checkpoint

    block = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3))
    head = torch.nn.Linear(8, 1)
    h = checkpoint(block, torch.randn(4, 8), use_reentrant=False)
    head(h).square().mean().backward()
    """

    code = "GV802"
    name = "other_random_numbers"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        calls = case.dataflow.log.calls
        if not case.histories.backward_calls:
            return
        by_line: dict[int, list[int]] = defaultdict(list)
        for row, call in enumerate(calls):
            if call.checkpoint_site is not None and call.grad_mode != "inference" and not is_idle_dropout(call):
                by_line[call.checkpoint_site].append(row)
        last = case.histories.backward_calls[-1]
        for site, rows in by_line.items():
            if rows[0] < last:
                yield self._finding(case, site, rows)
        redrawn: dict[int, list[int]] = defaultdict(list)
        for row, call in enumerate(calls):
            if call.redrawn_site is not None:
                redrawn[call.redrawn_site].append(row)
        for site, rows in redrawn.items():
            yield self._of_function(case, site, rows)

    def _finding(self, case: Case, site: int, rows: list[int]) -> Finding:
        flow, location = case.dataflow, case.location_of_site(site)
        drawing = location_of_call(flow, rows[0])
        return self.finding(
            f"this checkpoint draws other random numbers in backward than in forward, for "
            f"{call_words(flow.log.calls[rows[0]])}: its gradients are those of another forward",
            symptom="grad_wrong",
            why="a checkpoint computes its part again in backward; preserve_rng_state=False lets it draw anew there",
            fix="leave preserve_rng_state=False out: only parts without random numbers can do with it",
            changed_line=_without_the_option(case.source_line(location)),
            location=location,
            symptom_location=drawing if drawing != location else None,
            evidence={"draws": len(rows)},
        )

    def _of_function(self, case: Case, site: int, rows: list[int]) -> Finding:
        flow = case.dataflow
        location = _line_that_computes(case, case.location_of_site(site))
        around = flow.log.calls[rows[0]].inside
        while around is not None and flow.log.calls[around].kind != "custom":
            around = flow.log.calls[around].inside
        name = "this function" if around is None else flow.log.calls[around].function.removesuffix(".apply")
        drawing = location_of_call(flow, rows[0])
        return self.finding(
            f"the backward of {name} computes again here what its forward did, with other random numbers than there, "
            f"for {call_words(flow.log.calls[rows[0]])}: its gradients are those of another forward",
            symptom="grad_wrong",
            why="the generator has gone on since forward, so that the same line draws other numbers in backward",
            fix="keep torch.get_rng_state() in forward, before each part that backward computes again, and compute it "
            "there in torch.random.fork_rng(), after torch.set_rng_state() with what was kept; on a GPU "
            "also its own state",
            location=location,
            symptom_location=drawing if drawing != location else None,
            evidence={"draws": len(rows)},
        )


def _line_that_computes(case: Case, called: Location | None) -> Location | None:
    """The line above a call of backward that computed, in the same function, what it starts from."""
    tree = None if called is None else own_tree(case, called.file)
    statement = None if tree is None or called is None else tree.statement_at(called.line)
    if tree is None or called is None or statement is None:
        return called
    names = set[str]().union(*(_starts_of(node) for node in ast.walk(statement)))
    scope = tree.scope(statement)
    lines = [
        target.lineno
        for target, value in tree.assignments
        if names & names_in(target)
        and target.lineno < called.line
        and tree.scope(target) is scope
        and any(isinstance(each, ast.Call) for each in ast.walk(value))
    ]
    return Location(called.file, max(lines)) if lines else called


def _starts_of(node: ast.AST) -> set[str]:
    """The variables from which a call of ``backward()`` or ``grad()`` starts."""
    if not isinstance(node, ast.Call) or called_name(node) not in ("backward", "grad"):
        return set()
    given = node.args[0] if node.args else next((each.value for each in node.keywords if each.arg in _STARTS), None)
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    of_torch = owner is None or not names_in(owner).isdisjoint({"torch", "autograd"})
    start = given if of_torch else owner
    return set() if start is None else names_in(start)


_STARTS = ("tensors", "outputs")


def _without_the_option(text: str | None) -> str | None:
    """The line without the option; None if it stands on another line of the call."""
    if text is None or text.count(_OPTION) != 1:
        return None
    return text.replace(_OPTION, "")


_OPTION = ", preserve_rng_state=False"
