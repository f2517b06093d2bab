import torch
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(16, 4)
        self.decoder = nn.Linear(4, 16)

    def forward(self, images):
        code = torch.tanh(self.encoder(images))
        self.last_code = code.detach()  # kept to be looked at
        return self.decoder(self.last_code)


torch.manual_seed(0)
model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    images = torch.rand(32, 16)
    loss = nn.functional.mse_loss(model(images), images)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
