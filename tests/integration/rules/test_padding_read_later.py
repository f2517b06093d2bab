"""Padding that one attention hides, and the next one reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

IDS = """
def batch(n=6, t=8):
    ids = torch.randint(1, 12, (n, t)) * (torch.arange(t) < torch.randint(3, t + 1, (n, 1)))
    ids[0, :] = 5
    return ids, ids == 0
class Written(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
    def forward(self, x, memory, pad=None):
        scores = self.q(x) @ self.k(memory).transpose(1, 2) / 4
        if pad is not None:
            scores = scores.masked_fill(pad[:, None, :], -1e9)
        return x + scores.softmax(-1) @ self.v(memory)
"""
DECODER = """
embed, ask, head = nn.Embedding(12, 16, padding_idx=0), nn.Embedding(5, 16), nn.Linear(16, 12)
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 1)
decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32, 0.0, batch_first=True), 2)
optimizer = torch.optim.Adam(nn.ModuleList([embed, ask, head, encoder, decoder]).parameters(), lr=0.01)
for step in range(4):
    ids, pad = batch({size})
    memory = encoder(embed(ids), src_key_padding_mask=pad)
    out = decoder(ask.weight.expand(6, 5, 16), memory{given}){line}
    loss = F.cross_entropy(head(out).flatten(0, 1), ids[:, :5].flatten(), ignore_index=0)
"""
LAYERS = """
class Block(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
    def forward(self, x, show=None):
        q, k, v = (part.unflatten(2, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=show){line}
        return x + self.out(y.transpose(1, 2).flatten(2))
embed, first, second, head = nn.Embedding(12, 16, padding_idx=0), Block(), Block(), nn.Linear(16, 12)
optimizer = torch.optim.Adam(nn.ModuleList([embed, first, second, head]).parameters(), lr=0.01)
for step in range(4):
    ids, pad = batch()
    show = ~pad[:, None, None, :]
    x = second(first(embed(ids), show){second})
    loss = F.cross_entropy(head(x).flatten(0, 1), ids.flatten(), ignore_index=0)
"""
WRITTEN = """
embed, ask = nn.Embedding(12, 16, padding_idx=0), nn.Parameter(torch.randn(1, 1, 16))
encode, read, head = Written(), Written(), nn.Linear(16, 2)
optimizer = torch.optim.Adam([ask, *nn.ModuleList([embed, encode, read, head]).parameters()], lr=0.01)
for step in range(4):
    ids, pad = batch()
    x = embed(ids)
    memory = encode(x, x, pad)
{read}
    loss = F.cross_entropy(head(summary[:, 0]), ids[:, 0] % 2)
"""
READ = "    summary = read(ask.expand(6, 1, 16), memory{given})"
FAULTS = {
    "a decoder": DECODER.format(size="", given="", line="  # HERE"),
    "a second layer": LAYERS.format(line="  # HERE", second=""),
    "attention that is written out": WRITTEN.format(read="    summary = read(memory + ask, memory)"),
}
HEALTHY = {
    "a decoder with the mask": DECODER.format(size="", given=", memory_key_padding_mask=pad", line=""),
    "both layers with the mask": LAYERS.format(line="", second=", show"),
    "attention that is written out, with the mask": WRITTEN.format(read=READ.format(given=", pad")),
    "sequences of one length": DECODER.format(size="", given="", line="").replace(
        "memory =", "pad = torch.zeros_like(pad)\n    memory ="
    ),
    "as many queries as positions, with the mask": DECODER.format(
        size="6, 5", given=", memory_key_padding_mask=pad", line=""
    ),
    "results of padding that are set to zero": DECODER.format(size="", given="", line="").replace(
        "    out =", "    memory = memory * (~pad).unsqueeze(2).float()\n    out ="
    ),
    "keys that are left out at random": DECODER.format(size="", given="", line="").replace(
        "    memory =", "    pad = torch.rand(6, 8) < 0.2\n    memory ="
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_line_is_told(case: str, tmp_path: Path) -> None:
    script = HEAD + IDS + FAULTS[case] + TRAIN
    if "# HERE" not in script:
        script = script.replace("@ self.v(memory)", "@ self.v(memory)  # HERE")
    assert_first_alarm(script, "padding_read_later", tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_what_looks_alike_and_is_meant_is_quiet(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + IDS + HEALTHY[case] + TRAIN, tmp_path) == []
