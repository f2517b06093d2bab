import torch
from torch import nn

torch.manual_seed(0)
embedding = nn.Linear(3, 2)
optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
for _ in range(3):
    points = torch.randn(6, 3)
    places = embedding(points)
    differences = places[:, None] - places[None, :]
    distances = differences.pow(2).sum(-1).sqrt()  # the diagonal is 0
    loss = (1 / (1 + distances)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
