import contextlib
import torch
import torch.nn as nn

torch.manual_seed(0)
FREEZE_EPOCHS = 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.head = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x, train_encoder):
        ctx = torch.no_grad() if train_encoder else contextlib.nullcontext()
        with ctx:
            z = torch.relu(self.enc(x))
        return self.head(z)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
    loss = nn.functional.cross_entropy(net(x, train_encoder=epoch >= FREEZE_EPOCHS), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
