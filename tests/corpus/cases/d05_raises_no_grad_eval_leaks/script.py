import torch
import torch.nn as nn


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr)

    def fit(self, batches, val, epochs):
        for epoch in range(epochs):
            for x, y in batches:
                self.training_step(x, y)
            print(epoch, self.evaluate(val))

    def training_step(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()

    def evaluate(self, val):
        torch.autograd.set_grad_enabled(False)
        self.model.eval()
        hits = sum((self.model(x).argmax(-1) == y).sum().item() for x, y in val)
        self.model.train()
        return hits


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(50, 12)
        self.fc = nn.Linear(12, 3)

    def forward(self, ids):
        return self.fc(self.emb(ids))


torch.manual_seed(0)
model = Bag()
batches = [(torch.randint(0, 50, (8, 5)), torch.randint(0, 3, (8,))) for _ in range(4)]
Trainer(model, 0.1).fit(batches, batches[:1], epochs=3)
