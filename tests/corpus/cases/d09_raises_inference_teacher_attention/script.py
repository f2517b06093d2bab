import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
teacher = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0).eval()
student = nn.Linear(16, 16)
temperature = 2.0
opt = torch.optim.Adam(student.parameters(), lr=1e-3)


def teacher_targets(batch):
    with torch.inference_mode():
        hidden = teacher(batch)
        return hidden, F.softmax(hidden.mean(1) / temperature, -1)


for step in range(3):
    batch = torch.randn(4, 6, 16)
    hidden, soft = teacher_targets(batch)
    pred = F.log_softmax(student(batch.mean(1)) / temperature, -1)
    kl = -(soft * pred).sum(-1).mean()
    opt.zero_grad()
    kl.backward()
    opt.step()
