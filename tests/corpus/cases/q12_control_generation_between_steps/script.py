import torch
import torch.nn as nn


class LM(nn.Module):
    def __init__(self, vocab=30, dim=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.block = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, ids, memory=None):
        h = self.tok(ids)
        keys = h if memory is None else torch.cat([memory, h], 1)
        size = keys.shape[1]
        mask = torch.ones(size, size, dtype=torch.bool).triu(1)[-ids.shape[1]:]
        a, _ = self.block(h, keys, keys, attn_mask=mask, need_weights=False)
        return self.head(self.norm(h + a)), keys

    @torch.inference_mode()
    def generate(self, ids, steps):
        self.eval()
        memory = None
        token, out = ids, [ids]
        for _ in range(steps):
            logits, memory = self(token, memory)
            token = logits[:, -1].argmax(-1, keepdim=True)
            out.append(token)
        self.train()
        return torch.cat(out, 1)


torch.manual_seed(0)
lm = LM()
opt = torch.optim.AdamW(lm.parameters(), lr=1e-3)
for step in range(4):
    ids = torch.randint(0, 30, (6, 10))
    logits, _ = lm(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 2:
        print(lm.generate(ids[:1, :3], 4).tolist())
