import torch
import torch.nn as nn

torch.manual_seed(0)
TASKS = {"age": 1, "sex": 2}


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(9, 20), nn.ReLU())
        self.heads = {task: nn.Linear(20, n) for task, n in TASKS.items()}

    def forward(self, x):
        z = self.stem(x)
        return {task: head(z) for task, head in self.heads.items()}


net = MultiTask()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(4):
    x = torch.randn(16, 9)
    out = net(x)
    loss = nn.functional.mse_loss(out["age"].squeeze(1), x.sum(1)) + nn.functional.cross_entropy(out["sex"], (x[:, 0] > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
