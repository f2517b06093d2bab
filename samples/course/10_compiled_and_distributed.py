"""Compiled code is one node for autograd; between processes, gradients are averaged at the leaves."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
inputs = torch.randn(16, 4)

eager = model(inputs).mean()
compiled = torch.compile(model, backend="aot_eager")(inputs).mean()
assert torch.allclose(eager, compiled)
assert compiled.grad_fn.next_functions[0][0].name() == "CompiledFunctionBackward"  # all layers in one node
compiled.backward()
expected = model[0].weight.grad.clone()

# DistributedDataParallel: each process computes with its own data, and .grad becomes the mean of all. This is a world
# of one process, so the mean is what it computed itself.
with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
    model.zero_grad()
    parallel = nn.parallel.DistributedDataParallel(model)
    parallel(inputs).mean().backward()
    assert torch.allclose(model[0].weight.grad, expected)
    dist.destroy_process_group()
