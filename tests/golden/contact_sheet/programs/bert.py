"""BERT with four layers, narrow and with random weights: one step of masked language modelling."""

import torch
from transformers import BertConfig, BertForMaskedLM

torch.manual_seed(0)

config = BertConfig(hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, vocab_size=99)
model = BertForMaskedLM(config)
tokens = torch.randint(3, 99, (2, 16))

loss = model(input_ids=tokens, labels=tokens).loss
loss.backward()
