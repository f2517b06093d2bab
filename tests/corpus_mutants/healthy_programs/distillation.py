import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

teacher = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
student = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
x, y = torch.randn(64, 6), torch.randint(0, 4, (64,))
teacher_opt = torch.optim.Adam(teacher.parameters(), lr=1e-2)
for _ in range(4):
    teacher_opt.zero_grad()
    teacher_loss = F.cross_entropy(teacher(x), y)
    teacher_loss.backward()
    teacher_opt.step()
teacher.eval()
opt = torch.optim.Adam(student.parameters(), lr=1e-2)
T = 2.0
for step in range(6):
    with torch.no_grad():
        teacher_logits = teacher(x)
    student_logits = student(x)
    soft = F.kl_div(F.log_softmax(student_logits / T, 1), F.softmax(teacher_logits / T, 1), reduction="batchmean")
    hard = F.cross_entropy(student_logits, y)
    loss = 0.7 * T * T * soft + 0.3 * hard
    opt.zero_grad()
    loss.backward()
    opt.step()
