import torch
import torch.nn as nn

torch.manual_seed(0)
shared = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU())
heads = nn.ModuleDict({"a": nn.Linear(12, 2), "b": nn.Linear(12, 3)})
opts = {name: torch.optim.SGD([*shared.parameters(), *head.parameters()], lr=0.1) for name, head in heads.items()}
sizes = {"a": 2, "b": 3}


def step_all(losses):
    for name, loss in losses.items():
        opts[name].zero_grad()
        loss.backward(retain_graph=name == "a")
        opts[name].step()


for _ in range(2):
    z = shared(torch.randn(10, 6))
    step_all({n: nn.functional.cross_entropy(heads[n](z), torch.randint(0, k, (10,))) for n, k in sizes.items()})
