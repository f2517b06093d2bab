"""Frames, tracebacks, names of torch's functions, pickles of them: what a curious program can see."""

import inspect
import sys
import traceback

import torch
from torch import nn

torch.manual_seed(0)
seen = []


def depth():
    return len([frame for frame in traceback.extract_stack() if frame.filename == __file__])


class Curious(nn.Module):
    def forward(self, x):
        seen.append([frame.name for frame in traceback.extract_stack() if frame.filename == __file__])
        seen.append(inspect.currentframe().f_back.f_code.co_name in ("_call_impl", "inner"))
        return x * 2


model = nn.Sequential(Curious(), nn.Linear(2, 2))
x = torch.randn(1, 2, requires_grad=True)
loss = model(x).sum()
loss.backward()
names = [torch.Tensor.backward.__qualname__, torch.autograd.grad.__module__, nn.Module.__call__.__qualname__]
signatures = [str(inspect.signature(torch.autograd.backward)), str(inspect.signature(nn.Module.__call__))]
try:
    model(torch.ones(1, 3))
except RuntimeError:
    kind, error, trace = sys.exc_info()
    summary = [(frame.name, frame.lineno) for frame in traceback.extract_tb(trace) if frame.filename == __file__]
    del trace, error
tracing = [sys.gettrace(), threading.gettrace() if (threading := __import__("threading")) else None]
