"""GV503."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import (
    at_line,
    call_words,
    is_in_library,
    line_in_function_of,
    line_outside_modules,
    location_of_call,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.retained_graphs import Retained
from gradviz.analysis.finding import Finding, Location, NodeAt, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.cached_results import function_on
from gradviz.analysis.rules.bases.sources.lines.lines_that_keep import kept_by
from gradviz.analysis.rules.bases.sources.own_files import own_files, own_tree
from gradviz.analysis.rules.bases.storing_lines import next_in_function
from gradviz.analysis.sources.source_tree import all_parameters_of, called_name
from gradviz.graph.call_log import Holder
from gradviz.graph.model import CallSite, Node
from gradviz.graph.saved_tensors import SavedTensor


class GraphRetainedLeak(Rule):
    """Graphs of earlier steps stay in memory, more with every step.

    What it finds
    -------------
    A variable, list or attribute that holds results with their graphs (a running loss, collected outputs), also an
    average of weights that is computed with gradients on, and that each step makes longer by its own graph;
    ``backward(create_graph=True)``, after which ``.grad`` and the graph hold each other; and a custom function that
    keeps its own result on ``ctx``, which is a cycle as well.

    Why it matters
    --------------
    A result that requires grad holds the graph that computed it, and the graph holds activations. One loss that is kept
    for a plot keeps a whole forward pass, and memory grows until none is left.

    Example
    -------
    weight = torch.ones(3, requires_grad=True)
    history = []
    for step in range(8):
        loss = weight.exp().sum()
        loss.backward()
        history.append(loss)

    Instead
    -------
    weight = torch.ones(3, requires_grad=True)
    history = []
    for step in range(8):
        loss = weight.exp().sum()
        loss.backward()
        history.append(loss.item())
    """

    code = "GV503"
    name = "graph_retained_leak"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        if case.capture.error is not None:
            return
        for retained in case.retained_graphs:
            yield self._held(case, retained) if retained.holder is not None else self._hanging_on_grad(flow, retained)
        yield from self._on_ctx(case, flow)

    def _held(self, case: Case, retained: Retained) -> Finding:
        assert retained.holder is not None
        flow, carried = case.dataflow, retained.carried
        line = _line_of_holder(flow, retained)
        made = location_of_line(line)
        kept = _location_of_keeping(case, retained.holder, made)
        state = ""
        if carried is not None:
            kept = location_of_line(line_in_function_of(flow, carried, retained.backward or retained.maker))
            state = f", as the result of {call_words(flow.log.calls[carried])}{at_line(kept)} goes on with its graph"
        variable = retained.holder.path
        many = len(retained.tensors) > 1
        return self.finding(
            f"{variable}{' and others like it' if many else ''} {'hold' if many else 'holds'} the graphs of "
            f"{'at least ' if flow.log.dropped else ''}{retained.graphs:,} forward passes{at_line(line)}{state}",
            why="a tensor that requires grad holds the graph that computed it, with the memory of its activations",
            fix="keep the value without its graph: .item() for a number, .detach() for a tensor; compute what does not "
            "train under torch.no_grad()",
            symptom="memory_leak",
            location=kept or made,
            symptom_location=made if kept is not None else None,
            tensors=(variable,),
            evidence={"graphs": retained.graphs, "tensors": len(retained.tensors), "holder": variable},
        )

    def _hanging_on_grad(self, flow: Dataflow, retained: Retained) -> Finding:
        assert retained.backward is not None
        line = flow.line_of(retained.backward)
        return self.finding(
            f"backward(create_graph=True){at_line(line)} left {retained.graphs:,} graphs that nothing frees: each "
            ".grad holds its graph, and the graph holds the tensor with that .grad",
            why="Python's garbage collector does not see the graph, so it cannot free such a cycle",
            fix="use torch.autograd.grad(..., create_graph=True), which writes no .grad; or set .grad = None on every "
            "leaf, inputs as well, after its use",
            symptom="memory_leak",
            location=location_of_line(line),
            evidence={"graphs": retained.graphs, "tensors": len(retained.tensors)},
        )

    # -- on ctx --------------------------------------------------------------------------------------------------

    def _on_ctx(self, case: Case, flow: Dataflow) -> Iterator[Finding]:
        reported: set[tuple[str, str]] = set()
        for number, graph in enumerate(case.graphs):
            for node in graph.nodes:
                for saved in node.saved if node.kind == "custom" else ():
                    is_new = (node.name, saved.slot) not in reported
                    if saved.kept_in == "ctx" and saved.source == node.id and is_new:
                        reported.add((node.name, saved.slot))
                        yield self._cycle(flow, NodeAt(number, node.id), node, saved)

    def _cycle(self, flow: Dataflow, at: NodeAt, node: Node, saved: SavedTensor) -> Finding:
        call = flow.call_of_node(node)
        used = None if call is None else location_of_call(flow, call)
        is_of_library = call is not None and is_in_library(flow, call)
        return self.finding(
            f"{node.name.removesuffix('Backward')} keeps its own result in ctx.{saved.slot}: the result holds ctx and "
            "ctx holds the result",
            why="such a cycle stays, with all that the graph keeps, until Python's garbage collector runs",
            fix="nothing, if memory does not grow; else call gc.collect() now and then, or look for a newer version"
            if is_of_library
            else "pass results and inputs to ctx.save_for_backward(...), and read ctx.saved_tensors in backward",
            severity="note" if is_of_library else self.severity,
            symptom="memory_leak",
            location=_line_on_ctx(flow, call, saved.slot) or used,
            symptom_location=used,
            op=node.name,
            nodes=(at,),
            evidence={"bytes": saved.bytes},
        )


def _line_of_holder(flow: Dataflow, retained: Retained) -> CallSite | None:
    """The line whose result is held: inside of the module that keeps it, or where the result of a model is kept."""
    if retained.holder is not None and retained.holder.is_in_module:
        return flow.line_of(retained.maker)
    if retained.backward is not None:
        return line_in_function_of(flow, retained.maker, retained.backward)
    return line_outside_modules(flow, retained.maker)


def _location_of_keeping(case: Case, holder: Holder, made: Location | None) -> Location | None:
    """The line that puts results into the list or dict that holds them, if another line makes them: the only one, or
    the next one in the function that makes them."""
    locations = tuple(Location(file, line) for file, line in holder.lines)
    if len(locations) == 1:
        kept = _line_that_hands_over(case, locations[0])
        return kept if kept != made else None
    return None if made is None or made in locations else next_in_function(case, made, locations)


def _line_that_hands_over(case: Case, keeping: Location) -> Location:
    """The only call of the function that keeps what it is given, ``history.add(loss)``; else the line that keeps it."""
    tree = own_tree(case, keeping.file)
    function = None if tree is None else function_on(tree, keeping.line)
    if tree is None or function is None:
        return keeping
    given = all_parameters_of(function)
    if not any(isinstance(each, ast.Name) and each.id in given for each in kept_by(tree.statement_at(keeping.line))):
        return keeping
    calls = [
        Location(file, node.lineno)
        for file, other in own_files(case)
        for node in other.nodes
        if isinstance(node, ast.Call) and called_name(node) == function.name
    ]
    return calls[0] if len(calls) == 1 else keeping


def _line_on_ctx(flow: Dataflow, call: int | None, slot: str) -> Location | None:
    definition = None if call is None else flow.log.calls[call].definition
    if definition is None:
        return None
    known = flow.log.definitions[definition]
    line = dict(known.attributes).get(slot.partition("[")[0].partition(".")[0])
    return None if line is None else Location(known.file, line)
