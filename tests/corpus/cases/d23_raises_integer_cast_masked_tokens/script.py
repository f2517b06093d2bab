import torch
import torch.nn as nn

torch.manual_seed(0)


class LM(nn.Module):
    def __init__(self, vocab=20, dim=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def sequence_loss(logits, ids, pad=0):
    per_token = nn.functional.cross_entropy(logits.transpose(1, 2), ids, reduction="none")
    keep = torch.where(ids == pad, 0, per_token).long()
    return keep.sum() / (ids != pad).sum()


lm = LM()
opt = torch.optim.Adam(lm.parameters())
for step in range(2):
    ids = torch.randint(0, 20, (4, 9))
    loss = sequence_loss(lm(ids), ids)
    opt.zero_grad()
    loss.backward()
    opt.step()
