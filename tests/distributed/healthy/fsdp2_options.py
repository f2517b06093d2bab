"""fully_shard with mixed precision, activation checkpoints, gradient accumulation and clipping."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
blocks = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(2)]
model = torch.nn.Sequential(*map(checkpoint_wrapper, blocks), torch.nn.Linear(8, 4))
mesh = init_device_mesh("cpu", (size,))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for part in (*model, model):
    fully_shard(part, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
torch.manual_seed(rank + 1)
for _ in range(2):
    for part, x in enumerate(torch.randn(2, 2, 8)):
        model.set_requires_gradient_sync(part == 1)
        loss = (model(x).float() - 1).pow(2).mean() / 2
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
for name, parameter in model.named_parameters():
    print("parameter", rank, name, parameter.to_local().flatten().tolist())
dist.barrier()
dist.destroy_process_group()
