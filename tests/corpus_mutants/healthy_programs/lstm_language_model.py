import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class RNNModel(nn.Module):
    def __init__(self, vocab=30, dim=16):
        super().__init__()
        self.encoder = nn.Embedding(vocab, dim)
        self.drop = nn.Dropout(0.2)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.decoder = nn.Linear(dim, vocab)
        self.decoder.weight = self.encoder.weight

    def forward(self, tokens, hidden):
        emb = self.drop(self.encoder(tokens))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output))
        return decoded, hidden


def repackage(hidden):
    return tuple(h.detach() for h in hidden)


model = RNNModel()
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
tokens = torch.randint(0, 30, (4, 61))
hidden = (torch.zeros(1, 4, 16), torch.zeros(1, 4, 16))
total_loss = 0.0
for i in range(0, 60, 12):
    data, targets = tokens[:, i:i + 12], tokens[:, i + 1:i + 13]
    hidden = repackage(hidden)
    optimizer.zero_grad()
    output, hidden = model(data, hidden)
    loss = F.cross_entropy(output.reshape(-1, 30), targets.reshape(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    total_loss += loss.item()
