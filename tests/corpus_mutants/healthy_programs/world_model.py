import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

encoder, dynamics = nn.Linear(6, 8), nn.GRUCell(2, 8)
reward_head, decoder = nn.Linear(8, 1), nn.Linear(8, 6)
params = [*encoder.parameters(), *dynamics.parameters(), *reward_head.parameters(), *decoder.parameters()]
opt = torch.optim.Adam(params, lr=3e-3)
for step in range(5):
    obs, actions = torch.randn(16, 5, 6), torch.randn(16, 5, 2)
    rewards = obs.mean(-1)
    h = torch.tanh(encoder(obs[:, 0]))
    recon_loss, reward_loss = 0.0, 0.0
    for t in range(1, 5):
        h = dynamics(actions[:, t - 1], h)
        recon = decoder(h)
        recon_loss = recon_loss + F.mse_loss(recon, obs[:, t])
        predicted = reward_head(h).squeeze(-1)
        reward_loss = reward_loss + F.mse_loss(predicted, rewards[:, t])
    loss = recon_loss + reward_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
