"""Each rank trains alone for some steps, then parameters are averaged."""

from hashlib import sha256

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
model = DistributedDataParallel(net)
model.register_comm_hook(PostLocalSGDState(None, dist.new_subgroups(1)[0], start_localSGD_iter=2), post_localSGD_hook)
optimizer = PostLocalSGDOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1), PeriodicModelAverager(period=2, warmup_steps=2)
)
torch.manual_seed(rank + 1)
for x in torch.randn(6, 4, 4):
    optimizer.zero_grad()
    (model(x) - 1).pow(2).mean().backward()
    optimizer.step()
for name, parameter in net.named_parameters():
    print("parameter", rank, name, sha256(parameter.detach().numpy().tobytes()).hexdigest())
dist.barrier()
dist.destroy_process_group()
