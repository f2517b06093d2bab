import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Factorization(nn.Module):
    def __init__(self, users=20, items=15, k=4):
        super().__init__()
        self.user = nn.Embedding(users, k)
        self.item = nn.Embedding(items, k)
        self.user_bias = nn.Embedding(users, 1)
        self.item_bias = nn.Embedding(items, 1)
        self.mu = nn.Parameter(torch.zeros(1))

    def forward(self, u, i):
        dot = (self.user(u) * self.item(i)).sum(1)
        bias = self.user_bias(u).squeeze(1) + self.item_bias(i).squeeze(1)
        return dot + bias + self.mu


model = Factorization()
opt = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(5):
    u, i = torch.randint(0, 20, (64,)), torch.randint(0, 15, (64,))
    rating = (u + i).float() / 10
    pred = model(u, i)
    reg = model.user(u).square().mean() + model.item(i).square().mean()
    loss = F.mse_loss(pred, rating) + 0.01 * reg
    opt.zero_grad()
    loss.backward()
    opt.step()
