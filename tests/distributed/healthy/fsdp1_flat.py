"""Parameters are sharded by FullyShardedDataParallel, and the optimizer has one flat parameter for each wrapper."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
first = FullyShardedDataParallel(torch.nn.Linear(4, 8), device_id=torch.device("cpu"))
net = torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Linear(8, 4))
model = FullyShardedDataParallel(net, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP, device_id=torch.device("cpu"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank + 1)
for x in torch.randn(3, 2, 4):
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
for name, parameter in model.named_parameters():
    print("parameter", rank, name, parameter.flatten().tolist())
dist.barrier()
dist.destroy_process_group()
