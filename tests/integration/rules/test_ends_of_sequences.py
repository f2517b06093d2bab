"""Ids that end sequences and also pad them, and labels that leave them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = """
embed, mix, head = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 20)
optimizer = torch.optim.Adam([*embed.parameters(), *mix.parameters(), *head.parameters()], lr=0.01)
END, PAD = 0, {pad}
for step in range(5):
    lengths = torch.randint(2, 9 + step, (12,)).tolist()
    rows = [torch.cat([torch.randint(1, 19, (n,)), torch.tensor([END])]) for n in lengths]
    width = {width}
    ids = torch.stack([F.pad(row, (0, width - len(row)), value=PAD) for row in rows])
    labels = ids.clone()
    {labels}
    scores = head(mix(embed(ids))[0])[:, :-1]
    loss = F.cross_entropy(scores.reshape(-1, 20), labels[:, 1:].reshape(-1){more})
"""
MASKED = """attention_mask = torch.stack([F.pad(torch.ones(len(row)), (0, width - len(row))) for row in rows])
    labels[attention_mask == 0] = -100"""
LONGEST = "max(len(row) for row in rows)"
IGNORED = (
    ("labels[labels == PAD] = -100  # HERE", ""),
    ("labels = labels.masked_fill(ids.eq(PAD), -100)  # HERE", ""),
    ("labels = torch.where(ids != PAD, ids, -100)  # HERE", ""),
    ("pass", ", ignore_index=PAD)  # HERE"),
)


def _script(labels: str, more: str = "", pad: str = "0", width: str = LONGEST) -> str:
    script = MODEL.format(pad=pad, width=width, labels=labels, more=more.removesuffix(")  # HERE"))
    if more.endswith("# HERE"):
        script = script.rstrip() + "  # HERE"
    return HEAD + script + TRAIN


@pytest.mark.parametrize(("labels", "more"), IGNORED)
def test_ends_that_are_ignored_as_padding_are_told(labels: str, more: str, tmp_path: Path) -> None:
    assert_first_alarm(_script(labels, more), "end_of_sequences_ignored", tmp_path)


@pytest.mark.parametrize(
    ("labels", "more", "pad", "width"),
    [
        (MASKED, "", "0", LONGEST),
        ("labels[labels == PAD] = -100", "", "19", LONGEST),
        ("pass", ", ignore_index=PAD", "19", LONGEST),
        # All batches have one width, which no sequence reaches.
        ("labels[labels == PAD] = -100", "", "0", "16"),
    ],
)
def test_ends_that_are_targets_are_right(labels: str, more: str, pad: str, width: str, tmp_path: Path) -> None:
    found = alarms(_script(labels, more, pad, width), tmp_path)
    assert "end_of_sequences_ignored" not in {each.cause for each in found}


MASKED_MODEL = """
embed, mix, head = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 20)
attend = nn.MultiheadAttention(8, 2, batch_first=True)
optimizer = torch.optim.Adam(nn.ModuleList([embed, mix, head, attend]).parameters(), lr=0.01)
END = PAD = 0
LATER = torch.ones(12, 12, dtype=torch.bool).triu(1)
for step in range(5):
    lengths = torch.randint(2, 11, (12,)).tolist()
    rows = [torch.cat([torch.randint(1, 19, (n,)), torch.tensor([END])]) for n in lengths]
    ids = torch.stack([F.pad(row, (0, 12 - len(row)), value=PAD) for row in rows])
    mask = torch.arange(12) < torch.tensor(lengths)[:, None] + 1
    labels = ids.clone()
    {labels}
    h = embed(ids)
    h = {hidden}
    loss = F.cross_entropy(head(mix(h)[0])[:, :-1].reshape(-1, 20), labels[:, 1:].reshape(-1))
"""
HIDDEN = (
    "attend(h, h, h, attn_mask=LATER)[0] * mask[:, :, None]",
    "attend(h, h, h, key_padding_mask=~mask, attn_mask=LATER)[0]",
)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_one_more_label_than_the_mask_hides_is_told(hidden: str, tmp_path: Path) -> None:
    script = HEAD + MASKED_MODEL.format(hidden=hidden, labels="labels[labels == PAD] = -100  # HERE") + TRAIN
    assert_first_alarm(script, "end_of_sequences_ignored", tmp_path)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("labels", ["labels[~mask] = -100", "labels[labels == PAD] = -100; mask = ids != PAD"])
def test_labels_that_the_mask_hides_are_right(hidden: str, labels: str, tmp_path: Path) -> None:
    found = alarms(HEAD + MASKED_MODEL.format(hidden=hidden, labels=labels) + TRAIN, tmp_path)
    assert "end_of_sequences_ignored" not in {each.cause for each in found}


def test_ids_that_begin_sequences_and_pad_them_are_right(tmp_path: Path) -> None:
    script = MASKED_MODEL.format(hidden=HIDDEN[0], labels="labels[labels == PAD] = -100")
    script = script.replace("torch.cat([torch.randint(1, 19, (n,)), torch.tensor([END])])",
                            "torch.cat([torch.tensor([END]), torch.randint(1, 19, (n,))])")  # fmt: skip
    assert "end_of_sequences_ignored" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}


TOKENIZER = """
class Tokenizer:
    eos_token_id, pad_token_id = 0, {pad}

tok = Tokenizer()
{set}
embed, mix, head = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 20)
optimizer = torch.optim.Adam([*embed.parameters(), *mix.parameters(), *head.parameters()], lr=0.01)
for step in range(5):
    lengths = [7, *torch.randint(2, 8, (11,)).tolist()]
    rows = [torch.cat([torch.randint(1, 19, (n,)), torch.tensor([tok.eos_token_id])]) for n in lengths]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=tok.pad_token_id)
    labels = ids.clone()
    labels[labels == tok.pad_token_id] = -100  # HERE
    loss = F.cross_entropy(head(mix(embed(ids))[0])[:, :-1].reshape(-1, 20), labels[:, 1:].reshape(-1))
"""


def test_a_pad_token_that_is_set_to_the_end_is_told_in_batches_of_one_width(tmp_path: Path) -> None:
    script = HEAD + TOKENIZER.format(pad=None, set="tok.pad_token_id = tok.eos_token_id") + TRAIN
    assert_first_alarm(script, "end_of_sequences_ignored", tmp_path)


def test_a_pad_token_of_its_own_is_right(tmp_path: Path) -> None:
    assert not alarms(HEAD + TOKENIZER.format(pad=19, set="") + TRAIN, tmp_path)
