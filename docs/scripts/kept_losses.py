import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

history = []
for _ in range(6):
    inputs = torch.randn(128, 64)
    prediction = model(inputs).squeeze(1)
    loss = (prediction - inputs.mean(1)).square().mean()
    history.append(prediction)  # keeps the graph of every step
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
