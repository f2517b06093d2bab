import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1))
        self.depth = nn.Linear(32, 1)
        self.segment = nn.Linear(32, 3)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        shared = self.trunk(x)
        return self.depth(shared).squeeze(-1), self.segment(shared)

    def loss(self, x, depth, classes):
        d, s = self(x)
        depth_loss = F.smooth_l1_loss(d, depth)
        class_loss = F.cross_entropy(s, classes)
        precision = torch.exp(-self.log_vars)
        weighted = precision[0] * depth_loss + precision[1] * class_loss
        return weighted + self.log_vars.sum()


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.history = []

    def fit(self, loader, epochs=2):
        for epoch in range(epochs):
            self.model.train()
            for x, depth, classes in loader:
                self.optimizer.zero_grad()
                loss = self.model.loss(x, depth, classes)
                loss.backward()
                self.optimizer.step()
                self.history.append(loss.item())
            self.model.eval()
            with torch.no_grad():
                print(epoch, sum(self.model.loss(*batch).item() for batch in loader))


loader = [(torch.randn(12, 8), torch.randn(12), torch.randint(0, 3, (12,))) for _ in range(3)]
Trainer(MultiTask()).fit(loader)
