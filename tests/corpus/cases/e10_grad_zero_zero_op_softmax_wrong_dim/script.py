import torch
import torch.nn as nn

torch.manual_seed(0)


class PoolingAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)

    def forward(self, query, memory):
        score = (self.q(query)[:, None] * self.k(memory)).sum(-1, keepdim=True)
        weights = torch.softmax(score, dim=-1)
        return (weights * self.v(memory)).sum(1)


attn = PoolingAttention(8)
opt = torch.optim.Adam(attn.parameters(), lr=1e-3)
for step in range(3):
    memory, query = torch.randn(6, 5, 8), torch.randn(6, 8)
    loss = (attn(query, memory) - query).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
