"""What `gradviz render` says when it is done: where the picture is, what it shows, and what to do next."""

from __future__ import annotations

from gradviz.capture.capture import Capture
from gradviz.cli.output import write_output
from gradviz.cli.source import SourceOptions
from gradviz.graph.model import Graph
from gradviz.rendering.renderer import Subject

_OUTCOMES = {
    "stopped": "stopped after it (--keep-going lets it run on)",
    "finished": "ran to its end",
    "failed": "failed; the graph is as it was then",
    "interrupted": "was interrupted; what was recorded until then is kept",
}


_MOST_GRAPHS = 10
"""So many graphs are told about, one by one."""


def print_summary(options: SourceOptions, subjects: list[Subject], written: list[str]) -> None:
    """A few plain lines on standard output."""
    lines = [line for subject in subjects[:_MOST_GRAPHS] for line in (*_graph_lines(subject), *subject.view.notes)]
    if len(subjects) > _MOST_GRAPHS:
        lines.append(f"and {len(subjects) - _MOST_GRAPHS} more graphs")
    lines += [f"note: {sentence}" for sentence in subjects[0].capture.disclosures]
    report = [*(f"wrote {path}" for path in written), *(f"  {line}" for line in dict.fromkeys(lines))]
    report.append(f"next:  {options.command('tree')}")
    if not options.is_capture:
        report.append(
            f"       {options.command('record')}   keeps the recording, so that the script need not run again"
        )
    # As output, so that a reader that has seen enough is no error.
    write_output("-", "\n".join(report) + "\n")


def _graph_lines(subject: Subject) -> list[str]:
    capture, graph = subject.capture, subject.graph
    lines = []
    if graph.backward is not None:
        where = _place(graph, graph.backward.call_site)
        lines.append(
            f"{graph.backward.function} {graph.backward.number}{where}; the script {_OUTCOMES[capture.outcome]}"
        )
    else:
        roots = ", ".join(root.name or "an unnamed tensor" for root in graph.roots[:4])
        more = f" and {len(graph.roots) - 4} more" if len(graph.roots) > 4 else ""
        lines.append(f"graph of {roots}{more}; the script {_OUTCOMES[capture.outcome]}")
    leaves = sum(1 for node in graph.nodes if node.is_leaf)
    nodes = "1 node" if len(graph.nodes) == 1 else f"{len(graph.nodes):,} nodes"
    lines.append(f"{nodes}, {leaves:,} of them {'a leaf' if leaves == 1 else 'leaves'}{_parameters(capture, graph)}")
    return lines


def _place(graph: Graph, call_site: int | None) -> str:
    while call_site is not None:
        site = graph.call_sites[call_site]
        if not site.is_library or site.caller is None:
            return f" at {site.file.rpartition('/')[2]}:{site.line}"
        call_site = site.caller
    return ""


def _parameters(capture: Capture, graph: Graph) -> str:
    if not capture.parameters:
        return ""
    reached = {name for node in graph.nodes if node.kind == "parameter" for name in node.names}
    missed = [p for p in capture.parameters if not reached.intersection(p.names)]
    trainable = [p.names[0] for p in missed if p.requires_grad]
    frozen = len(missed) - len(trainable)
    words = f"; {len(capture.parameters) - len(missed):,} of {len(capture.parameters):,} parameters reached"
    if frozen:
        words += f", {frozen:,} frozen"
    if trainable:
        words += f"; not reached: {', '.join(trainable[:3])}" + (", ..." if len(trainable) > 3 else "")
    return words
