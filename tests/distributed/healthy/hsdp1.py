"""FullyShardedDataParallel with groups of two ranks that are replicas of each other. Checked on 4 ranks."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = FullyShardedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)),
    device_mesh=init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("replicate", "shard")),
    sharding_strategy=ShardingStrategy.HYBRID_SHARD,
    device_id=torch.device("cpu"),
    use_orig_params=True,
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank + 1)
for x in torch.randn(3, 2, 4):
    optimizer.zero_grad()
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
for name, parameter in model.named_parameters():
    print("parameter", rank, name, parameter.flatten().tolist())
dist.barrier()
dist.destroy_process_group()
