import torch
import torch.nn as nn

torch.manual_seed(0)
ranker = nn.Linear(6, 1)
opt = torch.optim.Adam(ranker.parameters())


def rank_of(scores):
    order = torch.argsort(scores, dim=1, descending=True)
    return torch.argsort(order, dim=1).float()


for step in range(3):
    docs, relevance = torch.randn(4, 10, 6), torch.rand(4, 10)
    scores = ranker(docs).squeeze(-1)
    dcg = (relevance / torch.log2(rank_of(scores) + 2)).sum(1)
    loss = -dcg.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
