import torch
import torch.nn as nn
from torch.autograd import Variable

torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def contrastive(a, b, margin=1.0):
    distance = Variable((a - b).norm(dim=1).data)
    return torch.clamp(margin - distance, min=0).mean()


for i in range(3):
    a, b = torch.randn(10, 4), torch.randn(10, 4)
    loss = contrastive(model(a), model(b))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
