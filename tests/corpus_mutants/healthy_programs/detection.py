import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Detector(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.tower = nn.Conv2d(8, 16, 3, padding=1)
        self.class_head = nn.Conv2d(16, classes, 1)
        self.box_head = nn.Conv2d(16, 4, 1)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, image):
        features = F.relu(self.tower(self.backbone(image)))
        logits = self.class_head(features).flatten(2).transpose(1, 2)
        boxes = F.softplus(self.box_head(features) * self.scale).flatten(2).transpose(1, 2)
        return logits, boxes


def focal_loss(logits, targets, gamma=2.0):
    bce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p = torch.sigmoid(logits)
    pt = p * targets + (1 - p) * (1 - targets)
    return ((1 - pt) ** gamma * bce).sum() / targets.sum().clamp(min=1.0)


def box_loss(boxes, targets, foreground):
    left, right = boxes[..., :2], boxes[..., 2:]
    t_left, t_right = targets[..., :2], targets[..., 2:]
    area = (left + right).prod(-1)
    t_area = (t_left + t_right).prod(-1)
    overlap = (torch.minimum(left, t_left) + torch.minimum(right, t_right)).prod(-1)
    iou = overlap / (area + t_area - overlap + 1e-6)
    return (1 - iou)[foreground].mean()


model = Detector()
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(params, lr=0.01, momentum=0.9, weight_decay=1e-4)
for step in range(5):
    images = torch.randn(2, 3, 8, 8)
    foreground = torch.rand(2, 16) > 0.6
    classes = F.one_hot(torch.randint(0, 4, (2, 16)), 4).float() * foreground.unsqueeze(-1)
    target_boxes = torch.rand(2, 16, 4) + 0.5
    logits, boxes = model(images)
    class_loss = focal_loss(logits, classes)
    regression = box_loss(boxes, target_boxes, foreground)
    loss = class_loss + 2.0 * regression
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
