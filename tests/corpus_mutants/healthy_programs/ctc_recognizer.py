import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Recognizer(nn.Module):
    def __init__(self, features=13, hidden=24, tokens=6):
        super().__init__()
        self.conv = nn.Conv1d(features, hidden, 3, padding=1)
        self.norm = nn.LayerNorm(hidden)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, tokens)

    def forward(self, frames):
        x = F.gelu(self.conv(frames.transpose(1, 2))).transpose(1, 2)
        x = self.norm(x)
        states, _ = self.rnn(x)
        return F.log_softmax(self.head(states), dim=-1)


def train_epoch(model, optimizer, batches):
    total = 0.0
    for frames, labels, frame_lengths, label_lengths in batches:
        optimizer.zero_grad()
        log_probs = model(frames)
        loss = F.ctc_loss(log_probs.transpose(0, 1), labels, frame_lengths, label_lengths, zero_infinity=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        total += loss.item()
    return total / len(batches)


model = Recognizer()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
batches = [
    (torch.randn(4, 20, 13), torch.randint(1, 6, (4, 5)), torch.full((4,), 20), torch.full((4,), 5)) for _ in range(3)
]
for epoch in range(3):
    print(epoch, train_epoch(model, optimizer, batches))
