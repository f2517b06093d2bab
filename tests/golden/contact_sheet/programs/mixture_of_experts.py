"""Mixtral with two layers of four experts, narrow and with random weights."""

import torch
from transformers import MixtralConfig, MixtralForCausalLM

torch.manual_seed(0)

config = MixtralConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=64,
    vocab_size=99,
    num_local_experts=4,
)
model = MixtralForCausalLM(config)
tokens = torch.randint(3, 99, (2, 16))

loss = model(input_ids=tokens, labels=tokens).loss
loss.backward()
