"""A tagger with `nn.LSTM`."""

import torch
from torch import Tensor, nn

torch.manual_seed(0)


class Tagger(nn.Module):
    """Embedding, two layers of LSTM, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, batch_first=True)
        self.classifier = nn.Linear(24, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(tokens))
        return self.classifier(hidden)


model = Tagger()
tokens = torch.randint(0, 50, (4, 7))
tags = torch.randint(0, 5, (4, 7))

loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tags.flatten())
loss.backward()
