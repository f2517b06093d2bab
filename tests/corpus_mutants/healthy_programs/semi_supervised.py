import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

import copy

student = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)


@torch.no_grad()
def update_teacher(decay):
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.mul_(decay).add_(fast, alpha=1 - decay)
    for slow, fast in zip(teacher.buffers(), student.buffers()):
        slow.copy_(fast)


def consistency(student_logits, teacher_logits):
    p = F.softmax(teacher_logits / 0.5, dim=1)
    return F.kl_div(F.log_softmax(student_logits, dim=1), p, reduction="batchmean")


for step in range(6):
    x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))
    unlabelled = torch.randn(32, 8)
    weak = unlabelled + 0.05 * torch.randn_like(unlabelled)
    strong = unlabelled + 0.3 * torch.randn_like(unlabelled)
    teacher.eval()
    with torch.no_grad():
        targets = teacher(weak)
    student.train()
    supervised = F.cross_entropy(student(x), y)
    unsupervised = consistency(student(strong), targets)
    loss = supervised + 0.3 * unsupervised
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    update_teacher(0.95)
