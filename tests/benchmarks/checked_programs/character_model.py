"""A small GPT on characters, as nanoGPT trains it."""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
TEXT = "".join(chr(97 + (i * i + i // 7) % 26) if i % 6 else " " for i in range(20000))
CHARS = sorted(set(TEXT))
data = torch.tensor([CHARS.index(c) for c in TEXT])
BLOCK, BATCH, WIDTH, HEADS, LAYERS = 64, 12, 96, 4, 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(BLOCK, BLOCK)).view(1, 1, BLOCK, BLOCK))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, HEADS, c // HEADS).transpose(1, 2) for z in self.qkv(x).split(WIDTH, dim=2))
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        att = self.drop(F.softmax(att, dim=-1))
        return self.proj((att @ v).transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.att = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(len(CHARS), WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(CHARS), bias=False)
        self.wte.weight = self.head.weight
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, index, targets=None):
        x = self.wte(index) + self.wpe(torch.arange(index.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


def batch(split):
    part = data[:18000] if split == "train" else data[18000:]
    starts = torch.randint(len(part) - BLOCK - 1, (BATCH,))
    x = torch.stack([part[i : i + BLOCK] for i in starts])
    y = torch.stack([part[i + 1 : i + 1 + BLOCK] for i in starts])
    return x, y


model = GPT()
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3)
STEPS, WARMUP = 40, 8
for step in range(STEPS):
    lr = (
        1e-3 * (step + 1) / WARMUP
        if step < WARMUP
        else 5e-4 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))
    )
    for group in optimizer.param_groups:
        group["lr"] = lr
    if step % 20 == 0:
        model.eval()
        with torch.no_grad():
            val = sum(model(*batch("val"))[1].item() for _ in range(5)) / 5
        model.train()
        print(step, val)
    _, loss = model(*batch("train"))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
model.eval()
with torch.no_grad():
    context = torch.zeros(1, 1, dtype=torch.long)
    for _ in range(60):
        logits, _ = model(context[:, -BLOCK:])
        context = torch.cat([context, torch.multinomial(F.softmax(logits[:, -1], -1), 1)], 1)
print("".join(CHARS[i] for i in context[0].tolist()))
