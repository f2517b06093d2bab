"""Ten steps with AdamW of small models of every sort from transformers, in training mode with dropout."""

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    BertConfig,
    MambaConfig,
    MixtralConfig,
    T5Config,
)

SMALL = {"vocab_size": 50, "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 32}
HEADS = {"num_attention_heads": 2, "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2}

torch.manual_seed(0)
MODELS = {
    "encoder": AutoModelForMaskedLM.from_config(BertConfig(**SMALL, **HEADS)),
    "mixture": AutoModelForCausalLM.from_config(
        MixtralConfig(**SMALL, **HEADS, num_key_value_heads=1, num_local_experts=3, attention_dropout=0.1)
    ),
    "state_space": AutoModelForCausalLM.from_config(
        MambaConfig(**SMALL, state_size=4, time_step_rank=2, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    ),
    "translator": AutoModelForSeq2SeqLM.from_config(
        T5Config(vocab_size=50, num_layers=2, d_model=16, d_ff=32, d_kv=8, num_heads=2, decoder_start_token_id=0)
    ),
}
tokens = torch.randint(3, 50, (2, 8))
losses = []
for model in MODELS.values():
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
