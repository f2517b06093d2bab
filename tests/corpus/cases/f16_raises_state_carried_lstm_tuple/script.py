import torch
import torch.nn as nn

torch.manual_seed(0)


class CharRNN(nn.Module):
    def __init__(self, vocab=15, dim=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)
        self.hidden = None

    def forward(self, ids):
        y, self.hidden = self.lstm(self.emb(ids), self.hidden)
        return self.out(y)


model = CharRNN()
opt = torch.optim.Adam(model.parameters())
text = torch.randint(0, 15, (3, 40))
for i in range(0, 30, 10):
    loss = nn.functional.cross_entropy(model(text[:, i:i + 10]).transpose(1, 2), text[:, i + 1:i + 11])
    opt.zero_grad()
    loss.backward()
    opt.step()
