import torch
import torch.nn as nn

torch.manual_seed(0)


class Orthogonalised(nn.Linear):
    def reset(self):
        q, _ = torch.linalg.qr(torch.randn(self.out_features, self.in_features))
        self.weight[:] = q


layer = Orthogonalised(6, 6)
opt = torch.optim.SGD(layer.parameters(), lr=0.1)
layer.reset()
for step in range(3):
    x = torch.randn(10, 6)
    loss = (layer(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
