"""Parameters are sharded by FullyShardedDataParallel, and the optimizer has the original ones."""

from functools import partial

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
wrap = partial(FullyShardedDataParallel, auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}), use_orig_params=True)
model = wrap(net, device_id=torch.device("cpu"))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
torch.manual_seed(rank + 1)
for x in torch.randn(3, 2, 4):
    optimizer.zero_grad()
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
for name, parameter in model.named_parameters():
    print("parameter", rank, name, parameter.flatten().tolist())
dist.barrier()
dist.destroy_process_group()
