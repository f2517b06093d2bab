"""Uses gradviz itself while the command records it, inspects, and nests blocks wrongly."""

import torch

import gradviz

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
loss = (w.sin() * 2).sum()
versions = [w._version, loss._version]
inspected = str(len(gradviz.inspect(loss).graph.nodes))
loss.backward()
with gradviz.record() as recording:
    (w * 3).sum().backward()
count = len(recording.capture.graphs)
try:
    with gradviz.record(), gradviz.record():
        pass
except gradviz.errors.BadInput as error:
    message = str(error)
del recording
