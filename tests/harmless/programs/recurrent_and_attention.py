"""Recurrent and attention layers, in training and in evaluation, where torch has faster paths of its own."""

import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
x = torch.randn(2, 5, 8)
layers = {
    "lstm": nn.LSTM(8, 8, 2, batch_first=True, dropout=0.2, bidirectional=True),
    "gru": nn.GRU(8, 8, batch_first=True),
    "attention": nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
    "decoder": nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
}
outputs = {}
for name, layer in layers.items():
    for training in (True, False):
        layer.train(training)
        out = layer(x, x) if name == "decoder" else layer(x)
        out = out[0] if isinstance(out, tuple) else out
        out.square().mean().backward()
        with torch.no_grad():
            out = layer(x, x) if name == "decoder" else layer(x)
        outputs[name, training] = out
