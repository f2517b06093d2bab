import torch
import torch.nn as nn

stats = {}


class GradientLogger:
    def __init__(self, model):
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                module.register_full_backward_hook(self.make(name))

    @staticmethod
    def make(name):
        def log(module, grad_input, grad_output):
            stats[name] = grad_output[0].abs().mean().item()
            if grad_input[0] is not None:
                return (grad_input[0].mean(0),)
        return log


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
GradientLogger(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 10, 6):
    loss = net(x).logsumexp(-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
