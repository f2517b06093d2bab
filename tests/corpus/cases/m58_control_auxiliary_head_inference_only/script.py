import torch
import torch.nn as nn

torch.manual_seed(0)


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.main, self.aux = nn.Linear(6, 12), nn.Linear(12, 3), nn.Linear(12, 3)

    def forward(self, x):
        h = torch.relu(self.stem(x))
        if self.training:
            return self.main(h), self.aux(h)
        return self.main(h)


net = Inception()
opt = torch.optim.Adam(net.parameters())
for epoch in range(3):
    net.train()
    x, y = torch.randn(20, 6), torch.randint(0, 3, (20,))
    main, aux = net(x)
    loss = nn.functional.cross_entropy(main, y) + 0.3 * nn.functional.cross_entropy(aux, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.eval()
    with torch.no_grad():
        acc = (net(x).argmax(1) == y).float().mean().item()
