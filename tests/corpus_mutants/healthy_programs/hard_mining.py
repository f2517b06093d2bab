import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(10, 32), nn.Linear(32, 32)])
        self.out = nn.Linear(32, 8)

    def forward(self, x):
        for layer in self.layers:
            x = F.leaky_relu(layer(x))
        return F.normalize(self.out(x), dim=1)


def batch_hard(embeddings, labels, margin=0.3):
    distances = torch.cdist(embeddings, embeddings)
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    with torch.no_grad():
        hardest_positive = (distances - 1e3 * (~same)).argmax(1)
        hardest_negative = (distances + 1e3 * same).argmin(1)
    d_pos = distances.gather(1, hardest_positive.unsqueeze(1)).squeeze(1)
    d_neg = distances.gather(1, hardest_negative.unsqueeze(1)).squeeze(1)
    return F.softplus(d_pos - d_neg + margin).mean()


model = Embedder()
proxies = nn.Parameter(torch.randn(4, 8))
optimizer = torch.optim.Adam([{"params": model.parameters()}, {"params": [proxies], "lr": 1e-2}], lr=1e-3)
for epoch in range(2):
    for step in range(3):
        labels = torch.arange(4).repeat_interleave(4)
        x = torch.randn(16, 10) + labels.unsqueeze(1)
        embeddings = model(x)
        triplet = batch_hard(embeddings, labels)
        logits = embeddings @ F.normalize(proxies, dim=1).t() / 0.1
        proxy_loss = F.cross_entropy(logits, labels)
        loss = triplet + 0.5 * proxy_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x) @ F.normalize(proxies, dim=1).t()).argmax(1).eq(labels).float().mean()
    model.train()
    print(epoch, accuracy.item())
