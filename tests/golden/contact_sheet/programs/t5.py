"""T5 with four layers in the encoder and in the decoder, narrow and with random weights."""

import torch
from transformers import T5Config, T5ForConditionalGeneration

torch.manual_seed(0)

config = T5Config(
    d_model=32,
    d_ff=64,
    d_kv=8,
    num_layers=4,
    num_decoder_layers=4,
    num_heads=4,
    vocab_size=99,
    decoder_start_token_id=0,
)
model = T5ForConditionalGeneration(config)
tokens = torch.randint(3, 99, (2, 16))
answer = torch.randint(3, 99, (2, 12))

loss = model(input_ids=tokens, labels=answer).loss
loss.backward()
