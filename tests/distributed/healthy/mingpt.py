"""A language model as in torch's minGPT: sampler, autocast, accumulation inside no_sync, clipping, snapshots."""

import tempfile
from hashlib import sha256
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCABULARY, WIDTH, LENGTH, ACCUMULATED = 17, 16, 8, 2


class Words(Dataset):
    def __init__(self):
        self.data = torch.randint(VOCABULARY, (16, LENGTH + 1), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index, :-1], self.data[index, 1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        q, k, v = self.attention(self.norm_1(x)).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words, targets):
        x = self.words(words) + self.positions(torch.arange(words.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Trainer:
    def __init__(self, snapshot):
        self.rank = dist.get_rank()
        torch.manual_seed(0)
        net = GPT()
        self.snapshot = snapshot
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        self.model = DistributedDataParallel(net)
        data = Words()
        self.sampler = DistributedSampler(data, shuffle=True, seed=3)
        self.loader = DataLoader(data, batch_size=2, sampler=self.sampler)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 10)
        torch.manual_seed(self.rank)

    def batch(self, words, targets):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            _, loss = self.model(words, targets)
        (loss / ACCUMULATED).backward()
        return loss.detach()

    def epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        for number, (words, targets) in enumerate(self.loader):
            if (number + 1) % ACCUMULATED:
                with self.model.no_sync():
                    loss = self.batch(words, targets)
                continue
            loss = self.batch(words, targets)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.schedule.step()
        dist.all_reduce(loss, dist.ReduceOp.AVG if dist.get_backend() == "nccl" else dist.ReduceOp.SUM)

    def save(self, epoch):
        if self.rank == 0:
            torch.save({"model": self.model.module.state_dict(), "epoch": epoch}, self.snapshot)
        dist.barrier()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        if self.rank == 0:
            words, targets = Words()[0]
            self.model.module(words[None], targets[None])
        self.model.train()


def main():
    dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(Path(folder, "snapshot.pt"))
        for epoch in range(2):
            trainer.epoch(epoch)
            trainer.save(epoch)
            trainer.evaluate()
        state = torch.load(trainer.snapshot) if trainer.rank == 0 else {}
        assert trainer.rank or state["epoch"] == 1
        dist.barrier()
    for name, parameter in trainer.model.module.named_parameters():
        print("parameter", trainer.rank, name, sha256(parameter.detach().numpy().tobytes()).hexdigest())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
