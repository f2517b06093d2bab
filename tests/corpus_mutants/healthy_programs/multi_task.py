import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
        self.classify = nn.Linear(24, 3)
        self.regress = nn.Linear(24, 1)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        features = self.trunk(x)
        return self.classify(features), self.regress(features).squeeze(-1)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.history = []

    def losses(self, batch):
        x, label, value = batch
        logits, pred = self.model(x)
        ce = F.cross_entropy(logits, label)
        mse = F.mse_loss(pred, value)
        return ce, mse

    def training_step(self, batch):
        ce, mse = self.losses(batch)
        weights = torch.exp(-self.model.log_vars)
        total = weights[0] * ce + weights[1] * mse + self.model.log_vars.sum()
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        self.history.append(total.item())


trainer = Trainer(MultiTask(), 1e-2)
for step in range(6):
    x = torch.randn(32, 8)
    trainer.training_step((x, torch.randint(0, 3, (32,)), x.mean(1)))
