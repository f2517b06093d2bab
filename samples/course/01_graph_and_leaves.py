"""What autograd records: a graph from the result back to the leaves."""

import torch

weight = torch.tensor(3.0, requires_grad=True)  # a leaf: no operation made it
x = torch.tensor(2.0)  # data: needs no gradient
product = weight * x
result = product + 1

assert weight.is_leaf and weight.grad_fn is None
assert not product.is_leaf and product.grad_fn.name() == "MulBackward0"
assert not x.requires_grad and result.requires_grad  # one input is enough

# The graph is what grad_fn.next_functions leads to. Data has no node in it.
add, mul = result.grad_fn, product.grad_fn
assert add.next_functions == ((mul, 0), (None, 0))
accumulate = mul.next_functions[0][0]
assert type(accumulate).__name__ == "AccumulateGrad"
assert accumulate.variable is weight
assert mul.next_functions[1] == (None, 0)

result.backward()
assert weight.grad == 2  # d(weight * x + 1) / d weight = x
assert x.grad is None
