import itertools
import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(0)


class Separator(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = nn.Linear(12, 24)
        self.bias = nn.Parameter(torch.zeros(2, 12))

    def forward(self, mix):
        return torch.sigmoid(self.mask(mix)).view(-1, 2, 12) * mix[:, None]


def best_permutation(est, ref):
    est_np = est.data.cpu().numpy()
    out = []
    for e, r in zip(est_np, ref.numpy()):
        perms = [e[list(p)] for p in itertools.permutations(range(2))]
        out.append(min(perms, key=lambda q: np.square(q - r).sum()))
    return torch.as_tensor(np.stack(out))


sep = Separator()
opt = torch.optim.Adam(sep.parameters())
for step in range(3):
    ref = torch.rand(6, 2, 12)
    est = best_permutation(sep(ref.sum(1)), ref)
    loss = (est + sep.bias - ref).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
