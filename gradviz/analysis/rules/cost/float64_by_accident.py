"""GV904."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, short_name
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse
from gradviz.graph.number_words import byte_words

_NARROW = frozenset({"float32", "float16", "bfloat16"})


class Float64ByAccident(Rule):
    """Data in float64 makes a float32 computation float64, twice as wide.

    What it finds
    -------------
    The first call that gets a float32 result with a gradient and data in float64, and returns float64. It does not
    report casts that the program asks for.

    Why it matters
    --------------
    NumPy's arrays are float64, and so are the tensors that `torch.from_numpy` makes of them. torch computes with the
    wider of two types, so from there to the loss backward keeps twice the memory, and a GPU is much slower.

    Example
    -------
    import numpy as np
    model = torch.nn.Linear(8, 1)
    target = torch.from_numpy(np.ones((16, 1)))
    (model(torch.randn(16, 8)) - target).square().mean().backward()

    Instead
    -------
    import numpy as np
    model = torch.nn.Linear(8, 1)
    target = torch.from_numpy(np.ones((16, 1))).float()
    (model(torch.randn(16, 8)) - target).square().mean().backward()
    """

    code = "GV904"
    name = "float64_by_accident"
    severity = "note"
    needs = ("saved tensors",)

    def check(self, case: Case) -> Iterator[Finding]:
        for row, call in enumerate(case.dataflow.log.calls):
            wide = _widened_by(case, call)
            if wide is not None:
                yield self._finding(case, row, wide)
                return

    def _finding(self, case: Case, row: int, wide: TensorUse) -> Finding:
        flow = case.dataflow
        data = tensor_words(flow, wide.tensor)
        kept = sum(_wide_bytes(case, number) for number in case.measured_graphs[:1])
        cost = f": {byte_words(kept)} of what the first graph saves are that wide" if kept else ""
        wider = short_name(flow.log.calls[row].function)
        return self.finding(
            f"{data} is float64, so {wider} turns a float32 result into float64{cost}",
            why="torch computes with the wider of two types, and so does every operation from there to the loss",
            fix="convert the data to float32 where it enters torch: torch.from_numpy(array).float()",
            location=location_of_call(flow, row),
            tensors=flow.log.tensors[wide.tensor].names[:1],
            evidence={"call": flow.log.calls[row].function, "saved_bytes": kept},
        )


def _widened_by(case: Case, call: Call) -> TensorUse | None:
    """The data that made the result of a call wider than its inputs with a gradient."""
    tensors = case.dataflow.log.tensors
    if not call.node_count or not any(tensors[use.tensor].facts.dtype == "float64" for use in call.outputs):
        return None
    # Not of leaves: the log has a parameter as it was first seen, before a cast of its module.
    live = {tensors[use.tensor].facts.dtype for use in call.inputs if use.has_grad_fn}
    if not live or not live <= _NARROW:
        return None
    wide = (use for use in call.inputs if not use.requires_grad and tensors[use.tensor].facts.dtype == "float64")
    return next(wide, None)


def _wide_bytes(case: Case, number: int) -> int:
    """Bytes of float64 that one graph keeps, each storage once, without parameters and buffers."""
    graph = case.graphs[number]
    kept = {
        saved.storage
        for node in graph.nodes
        for saved in node.saved
        if saved.storage is not None and saved.tensor is not None and saved.tensor.dtype == "float64"
    }
    return sum(graph.storages[index].bytes for index in kept if graph.storages[index].kind == "intermediate")
