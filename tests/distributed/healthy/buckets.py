"""DDP with small buckets, gradients as views of them, and a hook that sends them in half precision."""

from hashlib import sha256

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 20), torch.nn.Tanh(), torch.nn.Linear(20, 8), torch.nn.Linear(8, 4))
model = DistributedDataParallel(net, bucket_cap_mb=0.001, gradient_as_bucket_view=True)
model.register_comm_hook(None, fp16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank + 1)
for x in torch.randn(3, 2, 8):
    optimizer.zero_grad()
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
for name, parameter in net.named_parameters():
    # Whole, it would be longer than what a process can write to a pipe at once.
    print("parameter", rank, name, sha256(parameter.detach().numpy().tobytes()).hexdigest())
dist.barrier()
dist.destroy_process_group()
