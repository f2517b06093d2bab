"""A variational autoencoder as in pytorch/examples."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = (torch.rand(4000, 1, 28, 28) * torch.rand(4000, 1, 28, 1)).clamp(0, 1)
train_loader = DataLoader(TensorDataset(data[:3500], torch.zeros(3500)), batch_size=64, shuffle=True)
test_loader = DataLoader(TensorDataset(data[3500:], torch.zeros(500)), batch_size=64)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
        self.fc3, self.fc4 = nn.Linear(20, 400), nn.Linear(400, 784)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 784))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x.view(-1, 784), reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


for epoch in range(4):
    model.train()
    total = 0
    for x, _ in train_loader:
        optimizer.zero_grad()
        recon, mu, logvar = model(x)
        loss = loss_function(recon, x, mu, logvar)
        loss.backward()
        total += loss.item()
        optimizer.step()
    model.eval()
    test = 0
    with torch.no_grad():
        for x, _ in test_loader:
            test += loss_function(*((r := model(x))[0], x), *r[1:]).item()
    print(epoch, total / 3500, test / 500)
