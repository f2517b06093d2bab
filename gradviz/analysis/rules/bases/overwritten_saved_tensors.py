"""The facts of a tensor that was changed in place after it had been saved: which call saved it, which changed it."""

from __future__ import annotations

from typing import Any

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, operation
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.failed_backward import Overwritten
from gradviz.analysis.dataflow.reached_calls import ReachedCalls
from gradviz.analysis.dataflow.refused_calls import views_between
from gradviz.analysis.dataflow.tensor_words import names_of, tensor_words


def overwritten_facts(case: Case, flow: Dataflow, reached: ReachedCalls, found: Overwritten) -> dict[str, Any]:
    """The fields of a finding that do not depend on the cause."""
    change, calls = found.changes[0], flow.log.calls
    return {
        "symptom": "raises",
        "location": location_of_call(flow, change),
        "symptom_location": location_of_call(flow, found.backward),
        "tensors": names_of(flow, reached.above(found.saver).leaves),
        "path": _path(flow, found),
        "evidence": {
            "saved_by": operation(calls[found.saver]),
            "saved_version": found.version,
            "version": version_after(flow, found),
            "changes": len(found.changes),
        },
        **case.facts_of_node(found.node),
    }


def version_after(flow: Dataflow, found: Overwritten) -> int:
    """The tensor's version when backward needed it."""
    uses = (use for change in found.changes for use in flow.log.calls[change].changed)
    shared = set(flow.sharing_memory(found.tensor))
    return max(use.version for use in uses if use.tensor in shared and use.version is not None)


def is_nameless_result(flow: Dataflow, found: Overwritten) -> bool:
    """Whether the call saved its own result, which has no name: its description already names the call."""
    tensor = flow.log.tensors[found.tensor]
    return not tensor.names and tensor.producer == found.saver


def written_through(flow: Dataflow, found: Overwritten) -> tuple[int, ...]:
    """The calls that made the changed tensor a view of the saved one, or of its base."""
    shared = set(flow.sharing_memory(found.tensor))
    change = found.changes[0]
    written = next(use.tensor for use in flow.log.calls[change].changed if use.tensor in shared)
    return views_between(flow, written, change, found.tensor)


def _path(flow: Dataflow, found: Overwritten) -> tuple[str, ...]:
    saved = "its result" if is_nameless_result(flow, found) else tensor_words(flow, found.tensor)
    stations = [(found.saver, f"saves {saved}")]
    stations += [(view, "makes a view") for view in written_through(flow, found)]
    stations += [(change, "changes it") for change in found.changes[:_MAX_CHANGES]]
    stations.append((found.backward, "needs it"))
    return tuple(f"{operation(flow.log.calls[call])} {what}{at_line(flow.line_of(call))}" for call, what in stations)


_MAX_CHANGES = 3
