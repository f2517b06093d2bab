"""Two networks in DistributedDataParallel with an optimizer each, as in DCGAN."""

from hashlib import sha256

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6), nn.Tanh())
critic = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
make, judge = DistributedDataParallel(generator), DistributedDataParallel(critic)
makes = torch.optim.Adam(make.parameters(), lr=0.01, betas=(0.5, 0.999))
judges = torch.optim.Adam(judge.parameters(), lr=0.01, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
torch.manual_seed(rank + 1)
for _ in range(3):
    real, noise = torch.randn(8, 6) * 0.3 + 0.5, torch.randn(8, 4)
    judges.zero_grad()
    fake = make(noise)
    both = judge(torch.cat([real, fake.detach()]))
    criterion(both, torch.cat([torch.ones(8, 1), torch.zeros(8, 1)])).backward()
    judges.step()
    for parameter in judge.parameters():
        parameter.requires_grad_(False)
    makes.zero_grad()
    criterion(critic(fake), torch.ones(8, 1)).backward()
    makes.step()
    for parameter in judge.parameters():
        parameter.requires_grad_(True)
for net, title in ((generator, "generator"), (critic, "critic")):
    for name, parameter in net.named_parameters():
        print("parameter", rank, title, name, sha256(parameter.detach().numpy().tobytes()).hexdigest())
dist.barrier()
dist.destroy_process_group()
