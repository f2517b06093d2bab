"""GV105."""

from __future__ import annotations

from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.cut_rule import CutRule


class NumpyRoundtrip(CutRule):
    """Part of the loss is computed in NumPy, which records no gradients.

    What it finds
    -------------
    A result that left torch through ``numpy()`` (after the ``detach()`` that it requires) and came back as a tensor
    that is used in the loss, where some trained tensors have no other path to it.

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

    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        return "the conversion to NumPy"

    def why(self, flow: Dataflow, found: CutOff) -> str:
        return "NumPy records no gradients, so for the loss the values that come back are a constant"

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        return "compute this with torch's own functions (torch.fft, torch.linalg, torch.special have most of NumPy's)"
