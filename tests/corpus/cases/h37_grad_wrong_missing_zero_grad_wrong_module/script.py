import torch
import torch.nn as nn

torch.manual_seed(0)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(6, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.relu(self.backbone(x)))


model = M()
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    x = torch.randn(16, 6)
    model.backbone.zero_grad()
    loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
    loss.backward()
    opt.step()
