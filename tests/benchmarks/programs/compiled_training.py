"""Twenty steps of a GPT-2 of two layers under torch.compile.

Arguments: the backend, and a file, which gets what Dynamo and its caches counted.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from torch._dynamo.utils import counters

STEPS = 20


def main() -> None:
    torch.set_num_threads(1)
    backend, file = sys.argv[1:]
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=2, n_embd=128, n_head=2, n_positions=128, vocab_size=500, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(500, (4, 128))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    compiled = torch.compile(model, backend=backend)
    for _ in range(STEPS):
        optimizer.zero_grad()
        compiled(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
    kinds = ("frames", "stats", "graph_break", "aot_autograd", "recompiles")
    found = {kind: {str(key): value for key, value in counters[kind].items()} for kind in kinds}
    found["caches"] = {str(key): value for key, value in counters["inductor"].items() if "cache" in str(key)}
    Path(file).write_text(json.dumps(found, sort_keys=True))


if __name__ == "__main__":
    main()
