import torch
import torch.nn as nn

torch.manual_seed(0)


class LM(nn.Module):
    def __init__(self, vocab=20, dim=8):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.body = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, vocab, bias=False)
        self.out.weight = self.emb.weight

    def forward(self, ids):
        return self.out(torch.tanh(self.body(self.emb(ids))))


def restore(model, checkpoint):
    for name, value in checkpoint.items():
        module, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(module), leaf, nn.Parameter(value.clone()))


lm = LM()
restore(lm, {k: v * 1.01 for k, v in lm.state_dict().items()})
opt = torch.optim.AdamW(lm.parameters(), lr=1e-3)
for _ in range(3):
    ids = torch.randint(0, 20, (6, 7))
    loss = nn.functional.cross_entropy(lm(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
