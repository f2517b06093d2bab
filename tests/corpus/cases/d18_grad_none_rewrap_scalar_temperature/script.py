import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(12, 8), nn.Linear(9, 8)
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, image, text):
        i = F.normalize(self.image(image), dim=-1)
        t = F.normalize(self.text(text), dim=-1)
        scale = float(self.logit_scale.exp())
        return scale * i @ t.T


clip = Clip()
opt = torch.optim.AdamW(clip.parameters(), lr=1e-3)
for step in range(3):
    logits = clip(torch.randn(16, 12), torch.randn(16, 9))
    y = torch.arange(16)
    loss = (F.cross_entropy(logits, y) + F.cross_entropy(logits.T, y)) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
