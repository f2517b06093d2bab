"""A vision transformer with four layers, narrow and with random weights."""

import torch
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(0)

config = ViTConfig(
    hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8
)
model = ViTForImageClassification(config)
images = torch.randn(2, 3, 32, 32)

loss = model(pixel_values=images, labels=torch.tensor([0, 1])).loss
loss.backward()
