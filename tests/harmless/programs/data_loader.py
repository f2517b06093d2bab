"""A DataLoader with workers, random augmentation in them, a sampler and a generator."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class Points(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((3,), float(index)) + torch.rand(3), index % 2


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train, held_out = random_split(Points(), [20, 4])
    order = []
    for workers in (2, 0):
        loader = DataLoader(train, batch_size=5, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
        for inputs, targets in loader:
            order.append((inputs.sum().item(), targets.tolist()))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    del loader
