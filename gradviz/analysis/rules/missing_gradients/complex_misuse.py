"""GV109."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_paths import alive_above
from gradviz.analysis.dataflow.call_words import short_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import together
from gradviz.analysis.finding import Finding, Location, NodeAt
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class ComplexMisuse(Rule):
    """A complex result was cast to real numbers: the loss does not depend on its imaginary part.

    What it finds
    -------------
    A cast of complex numbers to real ones (``float()``, ``to(torch.float32)``, ``type()``, ``copy_`` or an assignment
    into a real tensor) through which a gradient flows back.

    Why it matters
    --------------
    Such a cast keeps the real part and drops the imaginary part, in the forward and in the backward. The loss sees half
    of a spectrum, and what changes only the other half gets no gradient.

    Example
    -------
    model = torch.nn.Linear(8, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    spectrum = torch.fft.rfft(model(torch.randn(4, 8)))
    spectrum.to(torch.float32).square().mean().backward()
    optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(8, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    spectrum = torch.fft.rfft(model(torch.randn(4, 8)))
    spectrum.abs().square().mean().backward()
    optimizer.step()
    """

    code = "GV109"
    name = "complex_misuse"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        by_location: dict[Location | None, list[int]] = {}
        for row, call in enumerate(flow.log.calls):
            if _drops_imaginary_part(flow, call):
                by_location.setdefault(case.location_of_call(row), []).append(row)
        for location, rows in by_location.items():
            found_nodes = [node for row in rows if (node := case.node_of_call(row)) is not None]
            if found_nodes:
                yield self._finding(case, flow, location, rows, found_nodes[0])

    def _finding(self, case: Case, flow: Dataflow, location: Location | None, rows: list[int], mark: NodeAt) -> Finding:
        call = flow.log.calls[rows[0]]
        live = [(use.tensor, rows[0]) for use in call.inputs if use.requires_grad]
        known = set(flow.log.parameters)
        tensors = [case.tensor_name(number) for number in sorted(alive_above(flow, live) & known)]
        name = short_name(call.function)
        of_what = f" of what {together(tensors)} made" if tensors else ""
        return self.finding(
            f"{name + '()' if name.isidentifier() else name} drops the imaginary part{of_what}",
            symptom="grad_wrong",
            why="a cast to real numbers keeps the real part only, so the loss and the gradient use half of the numbers",
            fix="write what you mean: .abs() for magnitudes, .real where the rest is zero, torch.view_as_real for both",
            location=location,
            op=case.graphs[mark.graph].nodes[mark.node].name,
            tensors=tuple(tensors),
            nodes=(mark,),
            evidence={"calls": len(rows), "from": _dtype(flow, live[0][0]), "to": _dtype(flow, call.outputs[0].tensor)},
        )


_CASTS = frozenset(
    f"torch.Tensor.{name}"
    for name in ("to", "type", "type_as", "float", "double", "half", "bfloat16", "copy_", "__setitem__", "index_put_")
)


def _drops_imaginary_part(flow: Dataflow, call: Call) -> bool:
    return (
        call.function in _CASTS
        and any(use.requires_grad and _is_complex(flow, use.tensor) for use in call.inputs)
        and any(use.requires_grad for use in call.outputs)
        and not any(_is_complex(flow, use.tensor) for use in call.outputs)
    )


def _is_complex(flow: Dataflow, tensor: int) -> bool:
    return _dtype(flow, tensor).startswith("complex")


def _dtype(flow: Dataflow, tensor: int) -> str:
    return flow.log.tensors[tensor].facts.dtype
