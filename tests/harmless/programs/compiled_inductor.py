"""torch.compile with its own code generator, where a C++ compiler is installed."""

import shutil

import torch

torch.manual_seed(0)
x = torch.randn(16, requires_grad=True)
if shutil.which("g++"):

    @torch.compile
    def fused(x):
        return (x.sin() * x.cos() + x).exp().sum()

    for _ in range(2):
        fused(x).backward()
