import collections
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
features = collections.defaultdict(list)


def spy(name):
    def hook(module, args, output):
        features[name].append(output)
    return hook


for name, module in net.named_children():
    module.register_forward_hook(spy(name))

opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(8):
    x, y = torch.randn(16, 1, 8, 8), torch.randint(0, 5, (16,))
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print({k: len(v) for k, v in features.items()})
