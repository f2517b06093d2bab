"""A small CNN on images made up here, through a Dataset with augmentations written in torch, and a DataLoader."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class RandomCrop:
    def __init__(self, size, padding):
        self.size, self.padding = size, padding

    def __call__(self, image):
        image = F.pad(image, (self.padding,) * 4)
        top = int(torch.randint(0, image.shape[-2] - self.size + 1, (1,)))
        left = int(torch.randint(0, image.shape[-1] - self.size + 1, (1,)))
        return image[:, top : top + self.size, left : left + self.size]


class RandomFlip:
    def __call__(self, image):
        return image.flip(-1) if torch.rand(1).item() < 0.5 else image


class Jitter:
    def __call__(self, image):
        factor = torch.empty(1).uniform_(0.8, 1.2)
        return (image * factor).clamp(0, 1)


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, image):
        mean = torch.as_tensor(self.mean).view(-1, 1, 1)
        std = torch.as_tensor(self.std).view(-1, 1, 1)
        return image.sub(mean).div(std)


class Images(Dataset):
    def __init__(self, count, transform):
        generator = torch.Generator().manual_seed(1)
        self.targets = torch.randint(0, 10, (count,), generator=generator)
        base = torch.randint(0, 256, (10, 3, 32, 32), generator=generator)
        noise = torch.randint(-60, 60, (count, 3, 32, 32), generator=generator)
        self.data = (base[self.targets] + noise).clamp(0, 255).to(torch.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image = self.data[index].to(torch.float32).div(255)
        for step in self.transform:
            image = step(image)
        return image, int(self.targets[index])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


normalize = Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
train = Images(1600, [RandomCrop(32, 4), RandomFlip(), Jitter(), normalize])
test = Images(300, [normalize])
train_loader = DataLoader(train, batch_size=64, shuffle=True)
test_loader = DataLoader(test, batch_size=100)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
for epoch in range(2):
    model.train()
    for images, targets in train_loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), targets)
        loss.backward()
        optimizer.step()
    scheduler.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for images, targets in test_loader:
            correct += (model(images).argmax(1) == targets).sum().item()
    print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {correct / len(test):.3f}")
