"""One training step of a GPT-2 with all its 12 layers, narrow and with random weights."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)

config = GPT2Config(n_embd=96, n_head=4, n_positions=64, vocab_size=500, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config)
tokens = torch.randint(0, config.vocab_size, (2, 16))

out = model(input_ids=tokens, labels=tokens)
out.loss.backward()
