import torch
import torch.nn as nn

torch.manual_seed(0)
edges = torch.tensor([[0, 1, 2, 3, 1], [1, 2, 3, 0, 0]])
x, y = torch.randn(6, 5), torch.randint(0, 2, (6,))
w1, w2 = nn.Linear(5, 8), nn.Linear(8, 2)
train = torch.tensor([True, True, False, True, False, True])


def propagate(h):
    out = torch.zeros(6, h.size(1)).scatter_add_(0, edges[1][:, None].expand(-1, h.size(1)), h[edges[0]])
    deg = torch.bincount(edges[1], minlength=6).clamp(min=1)
    return h + out / deg[:, None]


opt = torch.optim.Adam([*w1.parameters(), *w2.parameters()], weight_decay=5e-4)
for epoch in range(4):
    logits = propagate(w2(torch.relu(propagate(w1(x)))))
    loss = nn.functional.cross_entropy(logits[train], y[train])
    opt.zero_grad()
    loss.backward()
    opt.step()
    acc = (logits.argmax(1)[~train] == y[~train]).float().mean()
