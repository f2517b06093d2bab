import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.scale * grad, None


extractor = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
label_head, domain_head = nn.Linear(16, 2), nn.Linear(16, 2)
modules = nn.ModuleList([extractor, label_head, domain_head])
opt = torch.optim.SGD(modules.parameters(), lr=0.05)
for step in range(5):
    source, target = torch.randn(24, 8), torch.randn(24, 8) + 0.5
    labels = (source[:, 0] > 0).long()
    f_source, f_target = extractor(source), extractor(target)
    class_loss = F.cross_entropy(label_head(f_source), labels)
    both = Reverse.apply(torch.cat([f_source, f_target]), 0.3)
    domains = torch.cat([torch.zeros(24), torch.ones(24)]).long()
    domain_loss = F.cross_entropy(domain_head(both), domains)
    loss = class_loss + domain_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
