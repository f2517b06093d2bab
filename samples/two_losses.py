"""Two losses that share a part of their graph, weighted 1 and 2 by grad_tensors and then one after the other."""

import torch

x = torch.tensor(2.0)
w = torch.tensor(1.0, requires_grad=True)

a = w + x
b = w + 1
product = a * b
total = a + b

weights = [torch.tensor(1.0), torch.tensor(2.0)]
torch.autograd.backward([product, total], grad_tensors=weights, retain_graph=True)
assert w.grad == 9  # 1 * (a + b) + 2 * 2

w.grad = None
product.backward(retain_graph=True)  # total still needs the graph of a and b
assert w.grad == 5
total.backward()
assert w.grad == 5 + 2
