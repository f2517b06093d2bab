"""Expected: uneven_steps."""

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
stage_module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
stage = PipelineStage(stage_module, rank, size, torch.device("cpu"))
schedule = Schedule1F1B(stage, size, loss_fn=lambda output, target: (output - target).pow(2).mean())
optimizer = torch.optim.SGD(stage_module.parameters(), lr=0.1)
torch.manual_seed(0)
for x in torch.randn(3 - (rank == 0), 2 * size, 4):  # <- cause
    optimizer.zero_grad()
    if rank == 0:
        schedule.step(x)
    elif rank == size - 1:
        schedule.step(target=torch.ones_like(x), losses=[])
    else:
        schedule.step()
    optimizer.step()
for name, parameter in stage_module.named_parameters():
    print("parameter", rank, name, parameter.flatten().tolist())
dist.barrier()
dist.destroy_process_group()
