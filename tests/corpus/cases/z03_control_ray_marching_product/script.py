import torch
import torch.nn as nn

torch.manual_seed(0)
field = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 2))
opt = torch.optim.Adam(field.parameters(), lr=1e-2)
depths = torch.linspace(0, 1, 24)
target = torch.rand(8)
origins = torch.rand(8, 1)
for _ in range(6):
    transmittance, colour = torch.ones(8), torch.zeros(8)
    for t in depths:
        density, shade = field(origins + t).unbind(-1)
        alpha = 1 - torch.exp(-torch.relu(density) * 2.0)
        colour = colour + transmittance * alpha * torch.sigmoid(shade)
        transmittance = transmittance * (1 - alpha)
    loss = (colour - target).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
