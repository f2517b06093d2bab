import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5)).eval()
student = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 5))
opt = torch.optim.Adam(student.parameters())
T, alpha = 3.0, 0.7
for step in range(3):
    x, y = torch.randn(24, 8), torch.randint(0, 5, (24,))
    with torch.inference_mode():
        t = F.softmax(teacher(x) / T, -1)
    s = student(x)
    t = t.clone()
    kd = F.kl_div(F.log_softmax(s / T, -1), t, reduction="batchmean") * T * T
    loss = alpha * kd + (1 - alpha) * F.cross_entropy(s, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
