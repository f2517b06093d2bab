"""A subclass that notes every function it is given to, and one that wraps another tensor."""

import torch
from torch.utils._pytree import tree_map

torch.manual_seed(0)
functions, operators = [], []


class Noting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        functions.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=requires_grad, strides=inner.stride()
        )

    def __init__(self, inner, requires_grad=False):
        self.inner = inner

    def __repr__(self):
        operators.append("repr")
        return "Wrapper(...)"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        operators.append(str(func))
        args = tree_map(lambda value: value.inner if isinstance(value, Wrapper) else value, args)
        result = func(*args, **(kwargs or {}))
        return tree_map(lambda value: Wrapper(value) if isinstance(value, torch.Tensor) else value, result)


noting = torch.nn.Parameter(torch.randn(3)).as_subclass(Noting)
plain = torch.randn(3, requires_grad=True)
(noting * plain).sin().sum().backward()

wrapped = Wrapper(torch.randn(3), requires_grad=True)
(wrapped * wrapped + wrapped.sin()).sum().backward()
inner_gradient = wrapped.grad.inner
