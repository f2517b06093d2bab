import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 2))
activations = {}


def watch(name):
    def hook(module, args, output):
        activations.setdefault(name, []).append(output)
    return hook


model[0].register_forward_hook(watch("hidden"))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(25):
    x = torch.randn(12, 8)
    loss = nn.functional.cross_entropy(model(x), torch.randint(0, 2, (12,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(len(activations["hidden"]))
