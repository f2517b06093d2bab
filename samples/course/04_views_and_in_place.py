"""A view shares memory with its base; a change in place makes saved values stale."""

import torch

base = torch.ones(4, requires_grad=True)
copy = base * 2
part = copy[1:3]  # a view: the same memory
assert part._base is copy

part.mul_(10)  # changes copy, too, and autograd knows
assert copy.tolist() == [2, 20, 20, 2]
copy.sum().backward()
assert base.grad.tolist() == [2, 20, 20, 2]

# exp() saves its result for backward. Changing the result in place makes what was saved wrong, and torch refuses.
x = torch.ones(2, requires_grad=True)
result = x.exp()
saved_at = result._version
result.add_(1)
assert result._version == saved_at + 1
try:
    result.sum().backward()
except RuntimeError as error:
    assert "modified by an inplace operation" in str(error)
else:
    raise AssertionError("torch did not notice")
