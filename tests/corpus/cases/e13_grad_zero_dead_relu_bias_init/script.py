import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 20)
        self.fc2 = nn.Linear(20, 1)
        nn.init.normal_(self.fc1.weight, std=0.05)
        nn.init.constant_(self.fc1.bias, -2.0)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


net = Gate()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(4):
    x = torch.rand(64, 10)
    loss = F.binary_cross_entropy_with_logits(net(x).squeeze(1), (x.sum(1) > 5).float())
    opt.zero_grad()
    loss.backward()
    opt.step()
