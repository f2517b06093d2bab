"""The summary of `gradviz render`: the files, what they show, and what to do next."""

from __future__ import annotations

from gradviz.capture.capture import Capture
from gradviz.cli.captures.source import SourceOptions
from gradviz.cli.terminal.printing import print_text
from gradviz.graph.inner_backward import callers_of_backward, words_for_callers
from gradviz.graph.model import Graph, Node
from gradviz.graph.query.own_line import line_words, own_line
from gradviz.rendering.formats import Subject

_OUTCOMES = {
    "stopped": "stopped after it",
    "finished": "ran to its end",
    "failed": "failed; the graph shows what ran before",
    "interrupted": "was interrupted; the graph shows what ran before",
}

_MAX_GRAPHS = 10
"""How many graphs are listed one by one."""


def print_summary(options: SourceOptions, subjects: list[Subject], written: list[str]) -> None:
    """Print a few lines on standard output."""
    lines = _one_graph(subjects[0], options) if len(subjects) == 1 else _several_graphs(subjects)
    lines += [f"note: {sentence}" for sentence in subjects[0].capture.disclosures]
    shown = [*written[:_MAX_GRAPHS], *([f"{written[-1]}, the last of {len(written)}"] * (len(written) > _MAX_GRAPHS))]
    report = [*(f"wrote {path}" for path in shown), *(f"  {line}" for line in lines)]
    report.append(f"next:  {options.command('tree')}")
    if options.check:
        report.append(f"       {options.command('check')}   says why, and what to do")
    elif not options.is_capture:
        keeping = "saves the recording, so that the script need not run again"
        report.append(f"       {options.command('record')}   {keeping}")
    # As output, so that a closed pipe is no error.
    print_text("\n".join(report) + "\n")


def _one_graph(subject: Subject, options: SourceOptions) -> list[str]:
    outcome = _OUTCOMES[subject.capture.outcome]
    if subject.capture.outcome == "stopped" and options.can_run_on:
        outcome += " (--keep-going runs it to its end)"
    # A part of the graph may lack parameters that backward reaches.
    parameters = "" if subject.selection_notes else _parameters(subject.capture, subject.graph)
    size = f"{_size(subject.graph)}{parameters}"
    further = [_next_call(subject.graph)] if subject.capture.outcome == "stopped" and options.can_run_on else []
    return [f"{_origin(subject.graph)}; the script {outcome}", size, *filter(None, further), *subject.view.notes]


def _next_call(graph: Graph) -> str:
    """What to do where the first call is no training, as one that makes the data with ``autograd.grad()``, or where a
    layer that starts at zero, as the last one of a residual branch does, lets nothing through before the first step."""
    call, parameters = graph.backward, [node for node in graph.nodes if node.kind == "parameter"]
    if call is None:
        return ""
    following = f"--backward {call.number + 1} draws the next call, if there is one"
    if not parameters and call.function == "grad":
        return f"no parameter is in it; {following}"
    zeros = sum(map(_is_zero, parameters))
    if not zeros or call.number > 1:
        return ""
    return (
        f"{zeros:,} of {len(parameters):,} parameters get a gradient of 0 in it: usual before the first step, if a "
        f"layer starts at zero; {following}"
    )


def _is_zero(leaf: Node) -> bool:
    """Whether the gradient of a leaf was measured, and is zero."""
    return bool(leaf.arrived) and all(arrived is not None and arrived.norm == 0 for arrived in leaf.arrived)


def _several_graphs(subjects: list[Subject]) -> list[str]:
    lines = [f"{_origin(subject.graph)}: {_size(subject.graph)}" for subject in subjects[:_MAX_GRAPHS]]
    if len(subjects) > _MAX_GRAPHS:
        lines.append(f"and {len(subjects) - _MAX_GRAPHS} more graphs")
    lines.append(f"the script {_OUTCOMES[subjects[0].capture.outcome]}")
    return [*lines, *dict.fromkeys(note for subject in subjects for note in subject.view.notes)]


def _origin(graph: Graph) -> str:
    if graph.backward is not None:
        return f"{graph.backward.function} {graph.backward.number}{_at(graph, graph.backward.call_site)}"
    roots = ", ".join(root.name or "an unnamed tensor" for root in graph.roots[:4])
    return f"graph of {roots}" + (f" and {len(graph.roots) - 4} more" if len(graph.roots) > 4 else "")


def _size(graph: Graph) -> str:
    leaves = sum(1 for node in graph.nodes if node.is_leaf)
    if len(graph.nodes) == 1:
        return "1 node, a leaf" if leaves else "1 node"
    nodes = f"{len(graph.nodes):,} nodes"
    return f"{nodes}, {leaves:,} of them {'a leaf' if leaves == 1 else 'leaves'}"


def _at(graph: Graph, call_site: int | None) -> str:
    return "" if call_site is None else f" at {line_words(graph.call_sites[own_line(graph.call_sites, call_site)])}"


def _parameters(capture: Capture, graph: Graph) -> str:
    if not capture.parameters or graph.refused:
        return ""
    reached = {name for node in graph.nodes if node.kind == "parameter" for name in node.names}
    # The graph does not have what they compute, nor the parameters they use.
    callers = callers_of_backward(graph)
    missed = [p for p in capture.parameters if not reached.intersection(p.names)]
    trainable = [p.names[0] for p in missed if p.requires_grad]
    frozen = len(missed) - len(trainable)
    words = f"; {len(capture.parameters) - len(missed):,} of {len(capture.parameters):,} parameters reached"
    if frozen:
        words += f", {frozen:,} frozen"
    if trainable and callers:
        words += f", others perhaps inside {words_for_callers(callers)}"
    elif trainable:
        words += f"; not reached: {', '.join(trainable[:3])}" + (", ..." if len(trainable) > 3 else "")
    unnamed = sum(node.is_leaf and node.kind == "parameter" and not node.names for node in graph.nodes)
    if unnamed:
        words += f"; {unnamed:,} more in the graph {'is' if unnamed == 1 else 'are'} in no known module's parameters()"
    return words
