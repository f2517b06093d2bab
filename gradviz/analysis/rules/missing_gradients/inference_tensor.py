"""GV103."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import short_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import together
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class InferenceTensor(Rule):
    """A tensor that was made in inference mode is used in a computation that autograd must record.

    What it finds
    -------------
    A call that raised because one of its inputs is an inference tensor, and the line that switched inference mode on
    when that tensor was made.

    Why it matters
    --------------
    A tensor that is made under ``torch.inference_mode()`` never has a version counter, also not outside of the block.
    Autograd could not know whether it was changed, so it refuses to save it for backward.

    Example
    -------
    backbone, head = torch.nn.Linear(8, 4), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    with torch.inference_mode():
        features = backbone(torch.randn(16, 8))
    head(features).square().mean().backward()

    Instead
    -------
    backbone, head = torch.nn.Linear(8, 4), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    with torch.no_grad():
        features = backbone(torch.randn(16, 8))
    head(features).square().mean().backward()
    optimizer.step()
    """

    code = "GV103"
    name = "inference_tensor"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for row, call in enumerate(flow.log.calls):
            if call.raised is not None and _SAYS in call.raised.lower() and call.grad_mode != "inference":
                yield from self._findings(case, flow, row, call)

    def _findings(self, case: Case, flow: Dataflow, row: int, call: Call) -> Iterator[Finding]:
        made = [(use.tensor, maker) for use in call.inputs if (maker := _made_in_inference(flow, use.tensor, row))]
        if not made:
            return
        tensor, maker = made[0]
        site = flow.log.calls[maker].grad_mode_site
        location = case.location_of_site(flow.log.calls[maker].call_site if site is None else site)
        text = case.source_line(location)
        live_inputs = [case.tensor_name(use.tensor) for use in call.inputs if use.requires_grad]
        name = case.tensor_name(tensor)
        refused = (
            f"{short_name(call.function)} with {together(live_inputs)}" if live_inputs else short_name(call.function)
        )
        yield self.finding(
            f"{name} was made in inference mode, and autograd refuses to save it in {refused}",
            symptom="raises",
            why="inference tensors have no version counter, so autograd cannot save them for backward",
            fix="compute it under torch.no_grad() instead, or copy it outside of inference mode with .clone()",
            changed_line=None if text is None else _with_no_grad(text),
            location=location,
            symptom_location=case.location_of_site(call.call_site),
            tensors=tuple(live_inputs) or (name,),
            path=(f"{short_name(flow.log.calls[maker].function)} in inference mode", name, short_name(call.function)),
            evidence={"tensor": name, "made_by": flow.log.calls[maker].function, "refused_by": call.function},
        )


_SAYS = "inference tensor"
"""In each of torch's refusals; a call with such a tensor may fail for another reason, too."""


def _made_in_inference(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The call that made the tensor in inference mode, or the memory that it is a view of."""
    for shared in (tensor, *flow.sharing_memory(tensor)):
        for maker in flow.producers(shared, before):
            if flow.log.calls[maker].grad_mode == "inference":
                return maker
    return None


def _with_no_grad(text: str) -> str | None:
    return text.replace("inference_mode()", "no_grad()") if text.count("inference_mode()") == 1 else None
