"""Maps of classes that are brought to another size, and what else may be interpolated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
from torch.utils.data import DataLoader, Dataset
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
class Scenes(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        mask = torch.zeros(24, 24, dtype=torch.long)
        mask[4:14, 3:9], mask[10:20, 8:21] = 1 + index % 3, 4
        image = torch.randn(3, 24, 24) + mask
        return resize(image, mask)
"""
)
LOOP = (
    """
for image, mask in DataLoader(Scenes(), batch_size=4):
    loss = F.cross_entropy(net(image), mask)
"""
    + TRAIN
)
FAULTY = {
    "bilinear, and rounded": """
def resize(image, mask):
    image = F.interpolate(image[None], size=(16, 16), mode="bilinear")[0]
    mask = F.interpolate(mask[None, None].float(), size=(16, 16), mode="bicubic")  # HERE
    return image, mask[0, 0].round().clamp(0, 4).long()
""",
    "turned with a grid": """
def resize(image, mask):
    both = torch.cat([image, mask[None].float()])[None]
    grid = F.affine_grid(torch.tensor([[[0.9, -0.3, 0.0], [0.3, 0.9, 0.0]]]), both.shape, align_corners=False)
    image = F.grid_sample(image[None], grid, align_corners=False)[0]
    return image, F.grid_sample(mask[None, None].float(), grid, align_corners=False).squeeze().to(torch.int64)  # HERE
""",
    "together with the image": """
def resize(image, mask):
    both = torch.cat([image, mask[None].float()])
    both = F.interpolate(both[None], size=(16, 16), mode="bilinear", align_corners=False)[0]  # HERE
    return both[:-1], both[-1].long()
""",
    "by a function for both": """
def smaller(values, size=16):
    values = torch.as_tensor(values.numpy(), dtype=torch.float32)
    return F.interpolate(values[None], size=(size, size), mode="bilinear")[0]
def resize(image, mask):
    image = smaller(image)
    return image, smaller(mask[None])[0].round().long()  # HERE
""",
    "pooled": """
def resize(image, mask):
    small = F.adaptive_avg_pool2d(mask[None].float(), 12)  # HERE
    return F.adaptive_avg_pool2d(image, 12), small[0].long()
""",
}
HEALTHY = {
    "nearest": """
def resize(image, mask):
    image = F.interpolate(image[None], size=(16, 16), mode="bilinear")[0]
    return image, F.interpolate(mask[None, None].float(), size=(16, 16), mode="nearest")[0, 0].long()
""",
    "together with the image, by the nearest": """
def resize(image, mask):
    both = F.interpolate(torch.cat([image, mask[None].float()])[None], size=(16, 16), mode="nearest")[0]
    return both[:-1], both[-1].long()
""",
    "an image and where it is known": """
def resize(image, mask):
    both = F.interpolate(torch.cat([image, (mask > 0)[None].float()])[None], size=(24, 24), mode="bilinear")[0]
    return both[:-1] * both[-1:], mask
""",
    "a grid with the nearest class": """
def resize(image, mask):
    grid = F.affine_grid(torch.tensor([[[0.9, -0.3, 0.0], [0.3, 0.9, 0.0]]]), (1, 3, 24, 24), align_corners=False)
    image = F.grid_sample(image[None], grid, align_corners=False)[0]
    return image, F.grid_sample(mask[None, None].float(), grid, mode="nearest", align_corners=False)[0, 0].long()
""",
    "the share of each class": """
def resize(image, mask):
    shares = F.interpolate(F.one_hot(mask, 5).permute(2, 0, 1)[None].float(), size=(16, 16), mode="bilinear")
    return F.interpolate(image[None], size=(16, 16), mode="bilinear")[0], shares[0].argmax(0)
""",
    "a function for both that knows the mode": """
def smaller(values, mode="bilinear"):
    return F.interpolate(torch.as_tensor(values.numpy(), dtype=torch.float32)[None], size=(16, 16), mode=mode)[0]
def resize(image, mask):
    image = smaller(image)
    return image, smaller(mask[None], "nearest")[0].round().long()
""",
    "bins of an average of whole numbers": """
def resize(image, mask):
    height = F.interpolate(torch.as_tensor(mask.numpy(), dtype=torch.float32)[None, None], size=(16, 16), mode="area")
    edges = torch.tensor([0.5, 1.5, 2.5, 3.5])
    return F.interpolate(image[None], size=(16, 16), mode="area")[0], torch.bucketize(height[0, 0], edges)
""",
    "levels of what the model sees": """
def resize(image, mask):
    grey = F.interpolate(torch.as_tensor(mask.numpy(), dtype=torch.float32)[None, None], size=(16, 16), mode="area")
    return (grey[0] / 4).expand(3, -1, -1), grey[0, 0].round().long()
""",
    "levels of a smooth map": """
def resize(image, mask):
    depth = F.interpolate(image[None, :1].sigmoid(), size=(16, 16), mode="bilinear")[0, 0]
    return F.interpolate(image[None], size=(16, 16), mode="bilinear")[0], (depth * 5).long().clamp(max=4)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_averages_of_classes_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name] + LOOP, "classes_interpolated", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_maps_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name] + LOOP, tmp_path)
