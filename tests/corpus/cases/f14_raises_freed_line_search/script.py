import torch

torch.manual_seed(0)
A = torch.randn(8, 4)
p = torch.randn(4, requires_grad=True)


def objective():
    return (A @ p).pow(4).sum()


class Bfgs:
    def __init__(self, f):
        self.value = f()

    def gradient(self):
        self.value.backward()
        g, p.grad = p.grad, None
        return g


solver = Bfgs(objective)
first = solver.gradient()
for k in range(3):
    with torch.no_grad():
        direction = -first / first.norm()
    slope = solver.gradient() @ direction
    print(k, slope.item())
