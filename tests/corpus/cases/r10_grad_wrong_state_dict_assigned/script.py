import io
import torch
import torch.nn as nn

torch.manual_seed(0)


def network():
    return nn.Sequential(nn.Linear(3, 12), nn.SiLU(), nn.Linear(12, 1))


buffer = io.BytesIO()
torch.save(network().state_dict(), buffer)
buffer.seek(0)

model = network()
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model.load_state_dict(torch.load(buffer), assign=True)
for p in model.parameters():
    p.requires_grad_()
for _ in range(6):
    x = torch.rand(20, 3)
    loss = (model(x) - x.prod(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
