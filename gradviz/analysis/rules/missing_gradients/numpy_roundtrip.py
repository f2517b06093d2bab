"""GV105."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rules.bases.cut_rule import CutRule


class NumpyRoundtrip(CutRule):
    """Part of the loss is computed in NumPy, which records no gradients.

    What it finds
    -------------
    A result that left torch through ``numpy()`` (after the ``detach()`` that it requires) and came back as a tensor
    that is used in the loss, where some trained tensors have no other path to it, or nothing else uses the result. A
    call of ``numpy()`` that torch refuses, because the tensor has a history.

    Why it matters
    --------------
    Autograd knows only torch's operations. Values that come back from NumPy are constants for it: the tensors that they
    were computed from get no gradient, and if the whole loss came back this way, ``backward()`` raises.

    Example
    -------
    import numpy as np

    model = torch.nn.Linear(8, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    spectrum = np.fft.rfft(model(torch.randn(4, 8)).detach().numpy())
    loss = torch.tensor(np.abs(spectrum).mean(), requires_grad=True)
    loss.backward()
    optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(8, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    spectrum = torch.fft.rfft(model(torch.randn(4, 8)))
    loss = spectrum.abs().mean()
    loss.backward()
    optimizer.step()
    """

    code = "GV105"
    name = "numpy_roundtrip"

    def check(self, case: Case) -> Iterator[Finding]:
        yield from super().check(case)
        for row, call in enumerate(case.dataflow.log.calls):
            if case.capture.error is not None and _REFUSED in (call.raised or ""):
                yield self._of_refused(case, row)
                return

    def _of_refused(self, case: Case, row: int) -> Finding:
        name = case.tensor_name(case.dataflow.log.calls[row].inputs[0].tensor)
        return self.finding(
            f"torch refuses to convert {name} to NumPy: it has a history, which NumPy would lose",
            symptom="raises",
            why="what is computed in NumPy brings no gradient back",
            fix="convert .detach() of it, or compute it under torch.no_grad(), if the loss does not need it; else "
            "compute on with torch's own functions",
            location=location_of_call(case.dataflow, row),
        )

    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        return "the conversion to NumPy"

    def why(self, flow: Dataflow, found: CutOff) -> str:
        return "NumPy records no gradients, so for the loss the values that come back are a constant"

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        return "compute this with torch's own functions (torch.fft, torch.linalg, torch.special have most of NumPy's)"


_REFUSED = "Can't call numpy() on Tensor that requires grad"
"""What torch says."""
