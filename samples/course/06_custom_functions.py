"""A torch.autograd.Function brings its own backward, which torch does not check."""

import torch


class Clamp(torch.autograd.Function):
    """max(x, 0), whose gradient also goes through where x is negative: a straight-through estimator."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        assert grad_output.shape == x.shape  # one number for each element of the result
        return grad_output  # the slope of forward is 0 where x < 0: a decision, not a derivative


x = torch.tensor([-1.0, 2.0], requires_grad=True)
result = Clamp.apply(x)
assert result.grad_fn.name() == "ClampBackward"
(result * torch.tensor([3.0, 5.0])).sum().backward()
assert x.grad.tolist() == [3, 5]

# gradcheck compares backward with differences of forward, and finds where they differ.
negative = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
assert not torch.autograd.gradcheck(Clamp.apply, negative, raise_exception=False)
positive = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
assert torch.autograd.gradcheck(Clamp.apply, positive)
