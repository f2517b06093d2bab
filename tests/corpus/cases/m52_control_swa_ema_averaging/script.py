import torch
import torch.nn as nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = [(torch.randn(16, 4), torch.randint(0, 2, (16,))) for _ in range(4)]
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update_parameters(net)
update_bn((x for x, _ in loader), ema)
with torch.no_grad():
    ema.eval()(loader[0][0])
