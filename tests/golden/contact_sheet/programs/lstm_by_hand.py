"""An LSTM written with matrices, over seven steps."""

import torch
from torch import Tensor, nn

torch.manual_seed(0)


class Cell(nn.Module):
    """One step."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.of_input = nn.Linear(inputs, 4 * hidden)
        self.of_hidden = nn.Linear(hidden, 4 * hidden)

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        gates = self.of_input(x) + self.of_hidden(hidden)
        enter, forget, new, leave = gates.chunk(4, dim=1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        return torch.sigmoid(leave) * torch.tanh(cell), cell


cell_of, head = Cell(8, 12), nn.Linear(12, 1)
inputs, targets = torch.randn(7, 4, 8), torch.randn(4, 1)
hidden, cell = torch.zeros(4, 12), torch.zeros(4, 12)
for x in inputs:
    hidden, cell = cell_of(x, hidden, cell)

loss = nn.functional.mse_loss(head(hidden), targets)
loss.backward()
