import torch

x = torch.tensor(2.0, requires_grad=True)
y = torch.tensor(3.0, requires_grad=True)
product = x * y
result = torch.sin(product) + product
result.backward()
