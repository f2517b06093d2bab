import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class GraphConv(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.lin = nn.Linear(inp, out)
        self.root = nn.Linear(inp, out, bias=False)

    def forward(self, x, src, dst):
        messages = self.lin(x[src])
        out = torch.zeros(x.shape[0], messages.shape[1])
        out = out.index_add(0, dst, messages)
        degree = torch.zeros(x.shape[0]).scatter_add_(0, dst, torch.ones(len(dst))).clamp(min=1)
        return out / degree.unsqueeze(1) + self.root(x)


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GraphConv(6, 16)
        self.conv2 = GraphConv(16, 3)

    def forward(self, x, src, dst):
        h = torch.tanh(self.conv1(x, src, dst))
        h = F.dropout(h, 0.2, self.training)
        return self.conv2(h, src, dst)


x, labels = torch.randn(30, 6), torch.randint(0, 3, (30,))
src, dst = torch.randint(0, 30, (90,)), torch.randint(0, 30, (90,))
model = GNN()
opt = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
for epoch in range(5):
    model.train()
    opt.zero_grad()
    logits = model(x, src, dst)
    loss = F.cross_entropy(logits[:20], labels[:20])
    loss.backward()
    opt.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x, src, dst)[20:].argmax(1) == labels[20:]).float().mean()
