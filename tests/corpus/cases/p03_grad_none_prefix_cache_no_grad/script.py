import math
import torch
import torch.nn as nn


class PrefixLM(nn.Module):
    def __init__(self, vocab=50, dim=16, prefix=4):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.prefix = nn.Parameter(torch.randn(1, prefix, dim) * 0.1)
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.head = nn.Linear(dim, vocab)
        self.cache = None

    @torch.no_grad()
    def prefill(self, batch):
        prefix = self.prefix.expand(batch, -1, -1)
        self.cache = (self.k(prefix), self.v(prefix))

    def forward(self, tokens):
        h = self.tok(tokens)
        past_k, past_v = self.cache
        k = torch.cat([past_k, self.k(h)], dim=1)
        v = torch.cat([past_v, self.v(h)], dim=1)
        scores = self.q(h) @ k.transpose(1, 2) / math.sqrt(h.shape[-1])
        return self.head(h + scores.softmax(-1) @ v)


torch.manual_seed(0)
lm = PrefixLM()
opt = torch.optim.AdamW(lm.parameters(), lr=3e-3)
data = torch.randint(0, 50, (8, 12))
for it in range(4):
    lm.prefill(len(data))
    logits = lm(data[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), data[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
