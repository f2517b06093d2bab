import torch
import torch.nn as nn
from torch.autograd import Variable

torch.manual_seed(0)
model = nn.Linear(5, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for batch in range(4):
    data, target = torch.randn(8, 5), torch.randint(0, 3, (8,))
    data, target = Variable(data, requires_grad=False), Variable(target)
    output = model(data)
    loss = nn.functional.nll_loss(nn.functional.log_softmax(output, dim=1), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    total += loss.data.item()
    hits = output.data.max(1)[1].eq(target.data).sum()
    shown = Variable(output.data.clone())
print(total, int(hits), shown.shape)
