import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 10)
        self.gru = nn.GRU(10, 16, batch_first=True)

    def forward(self, src):
        emb = self.embed(src)
        outputs, hidden = self.gru(emb)
        return outputs, hidden


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 10)
        self.cell = nn.GRUCell(10 + 16, 16)
        self.out = nn.Linear(16, 12)

    def step(self, token, hidden, memory):
        scores = torch.bmm(memory, hidden.unsqueeze(2)).squeeze(2)
        weights = torch.softmax(scores, dim=1)
        context = (weights.unsqueeze(2) * memory).sum(1)
        hidden = self.cell(torch.cat([self.embed(token), context], 1), hidden)
        return self.out(hidden), hidden


encoder, decoder = Encoder(), Decoder()
enc_opt = torch.optim.Adam(encoder.parameters(), lr=5e-3)
dec_opt = torch.optim.Adam(decoder.parameters(), lr=5e-3)
for it in range(4):
    src = torch.randint(0, 12, (8, 6))
    tgt = src.flip(1)
    enc_opt.zero_grad()
    dec_opt.zero_grad()
    memory, hidden = encoder(src)
    hidden = hidden.squeeze(0)
    token = torch.zeros(8, dtype=torch.long)
    loss = 0.0
    for t in range(6):
        logits, hidden = decoder.step(token, hidden, memory)
        loss = loss + F.cross_entropy(logits, tgt[:, t])
        token = logits.argmax(1).detach()
    loss.backward()
    enc_opt.step()
    dec_opt.step()
