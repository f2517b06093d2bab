"""Items whose number is also that with which sequences are filled up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
from torch.nn.utils.rnn import pad_sequence
items, layer = nn.Embedding(21, 8, padding_idx=PAD), nn.GRU(8, 8, batch_first=True)
head = nn.Linear(8, 21)
optimizer = torch.optim.Adam([*items.parameters(), *layer.parameters(), *head.parameters()], lr=0.01)
for step in range(8):
    lengths = torch.randint(3, 9, (24,)).tolist()
    SEQUENCES
    LOOKUP
    loss = F.cross_entropy(head(layer(items(x))[0]).flatten(0, 1), y.flatten(), ignore_index=PAD)
"""
    + TRAIN
)
FROM_ZERO = "sequences = [torch.randint(0, 20, (n,)) for n in lengths]"
FROM_ONE = "sequences = [torch.randint(1, 21, (n,)) for n in lengths]"
RARE = FROM_ONE + "\n    sequences = [torch.where(torch.rand(len(s)) < 0.004, 0, s) for s in sequences]"
BEGUN = FROM_ONE + "\n    sequences = [F.pad(s, (1, 0)) for s in sequences]"
ONE = "x = pad_sequence([s[:-1] for s in sequences], batch_first=True)%s\n" \
    "    y = pad_sequence([s[1:] for s in sequences], batch_first=True)"  # fmt: skip
BOTH = "ids = pad_sequence(sequences, True, 0)%s\n    x, y = ids[:, :-1], ids[:, 1:]"


def of(sequences: str, lookup: str, pad: int = 0) -> str:
    return SCRIPT.replace("SEQUENCES", sequences).replace("LOOKUP", lookup).replace("PAD", str(pad))


@pytest.mark.parametrize("lookup", [ONE % "  # HERE", BOTH % "  # HERE"])
def test_an_item_with_the_number_of_the_padding_is_told(lookup: str, tmp_path: Path) -> None:
    assert_first_alarm(of(FROM_ZERO, lookup), "padding_row_used", tmp_path)


@pytest.mark.parametrize(
    ("sequences", "lookup", "pad"),
    [
        (FROM_ONE, ONE % "", 0),
        (FROM_ONE, BOTH % "", 0),
        (RARE, BOTH % "", 0),
        (BEGUN, BOTH % "", 0),
        (FROM_ZERO, "ids = pad_sequence(sequences, True, 20)\n    x, y = ids[:, :-1], ids[:, 1:]", 20),
    ],
    ids=["counted from 1", "both at once", "a rare unknown item", "a first token", "a number of its own"],
)
def test_padding_that_is_no_item_is_right(sequences: str, lookup: str, pad: int, tmp_path: Path) -> None:
    assert not alarms(of(sequences, lookup, pad), tmp_path)


TAGS = (
    HEAD
    + """
from torch.nn.utils.rnn import pad_sequence
words, layer, head = nn.Embedding(20, 8, padding_idx=0), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 5)
optimizer = torch.optim.Adam([*words.parameters(), *layer.parameters(), *head.parameters()], lr=0.01)
for step in range(8):
    ids = [torch.randint(1, 20, (n,)) for n in torch.randint(3, 9, (24,)).tolist()]
    tags = [each % 4 FIRST for each in ids]
    x, y = pad_sequence(ids, batch_first=True), pad_sequence(tags, True, FILL)
    loss = F.cross_entropy(head(layer(words(x))[0]).transpose(1, 2), y, ignore_index=FILL)  # HERE
"""
    + TRAIN
)


def test_a_class_with_the_number_of_the_padding_is_told(tmp_path: Path) -> None:
    assert_first_alarm(TAGS.replace("FIRST", "").replace("FILL", "0"), "padding_row_used", tmp_path)


@pytest.mark.parametrize(
    ("first", "fill"),
    [("", "-100"), ("+ 1", "0"), ("* (torch.rand(len(each)) < 0.1)", "0"), ("+ 1 - (each == 5).long()", "0")],
    ids=["filled up with -100", "classes from 1", "few labels are asked for", "a few are unknown"],
)
def test_labels_that_pad_with_no_class_are_right(first: str, fill: str, tmp_path: Path) -> None:
    assert not alarms(TAGS.replace("FIRST", first).replace("FILL", fill), tmp_path)


LABELS = (
    HEAD
    + """
table, net = nn.Embedding(6, 4, padding_idx=0), nn.Linear(8, 4)  # HERE
optimizer = torch.optim.Adam([*table.parameters(), *net.parameters()], lr=0.01)
for step in range(8):
    x, y = torch.randn(64, 4), torch.randint(0, 5, (64,))
    FILL
    loss = (net(torch.cat([x, table(y)], 1)) - x).square().mean()
"""
    + TRAIN
)


@pytest.mark.parametrize(
    "fill",
    [
        "y = torch.where(torch.rand(64) < 0.1, torch.full_like(y, 5), y)",
        "y = torch.where(torch.rand(64) < 0.1, 5, y)",
        "y = y.masked_fill(torch.rand(64) < 0.1, 5)",
    ],
)
def test_a_class_is_no_padding_where_another_number_stands_for_no_class(fill: str, tmp_path: Path) -> None:
    assert_first_alarm(LABELS.replace("FILL", fill), "padding_row_used", tmp_path)


@pytest.mark.parametrize("fill", ["pass", "y = torch.where(torch.rand(64) < 0.1, 0, y)"])
def test_a_number_that_may_mean_unknown_raises_no_alarm(fill: str, tmp_path: Path) -> None:
    assert not alarms(LABELS.replace("FILL", fill), tmp_path)


COLUMNS = (
    HEAD
    + """
table, net = nn.Embedding(SIZE, 4, padding_idx=LAST), nn.Linear(8, 1)  # HERE
optimizer = torch.optim.Adam([*table.parameters(), *net.parameters()], lr=0.01)
codes = torch.where(torch.rand(300) < 0.05, -1, torch.randint(0, 6, (300,)))
x = torch.randn(300, 4)
for rows in torch.randperm(300).split(30):
    code = codes[rows]
    LOOKUP
    loss = (net(torch.cat([x[rows], h], 1)).squeeze(1) - code.float()).square().mean()
"""
    + TRAIN
)
MASKED = "h = table(code.clamp(min=0)) * (code >= 0)[:, None]"


@pytest.mark.parametrize(
    ("size", "last", "lookup"),
    [
        ("6", "-1", MASKED),
        ("6", "-1", "h = table(F.relu(code))"),
        ("6", "5", "h = table(torch.where(code < 0, 0, code))"),
        ("6", "-1", "h = table(code.masked_fill(code < 0, 0)) * (code >= 0)[:, None]"),
    ],
    ids=["raised and masked", "raised", "the last one by its number", "filled in"],
)
def test_a_last_category_that_is_declared_as_padding_is_told(size: str, last: str, lookup: str, tmp_path: Path) -> None:
    script = COLUMNS.replace("SIZE", size).replace("LAST", last).replace("LOOKUP", lookup)
    assert_first_alarm(script, "padding_row_used", tmp_path)


@pytest.mark.parametrize(
    ("size", "last", "lookup"),
    [
        ("7", "-1", "h = table(code % 7)"),
        ("7", "-1", "h = table(code.masked_fill(code < 0, 6))"),
        ("7", "6", "h = table(torch.where(code < 0, 6, code))"),
        ("7", "0", "h = table(code + 1)"),
        ("7", "0", "h = table((code + 1).clamp(min=0))"),
        ("6", "0", "h = table(code.clamp(min=0))"),
        ("6", "None", MASKED),
    ],
    ids=[
        "a remainder",
        "the last is missing",
        "by number",
        "0 is missing",
        "0 as a floor",
        "raised to 0",
        "no padding",
    ],
)
def test_a_row_for_missing_codes_is_right(size: str, last: str, lookup: str, tmp_path: Path) -> None:
    assert not alarms(COLUMNS.replace("SIZE", size).replace("LAST", last).replace("LOOKUP", lookup), tmp_path)


def tokens(padding: str, fill: str) -> str:
    """Sequences that are filled up with a number; their tokens are all the others."""
    of_tokens = FROM_ZERO if fill == "20" else FROM_ONE
    lookup = f"ids = pad_sequence(sequences, True, {fill})\n    x, y = ids[:, :-1], ids[:, 1:]"
    script = of(of_tokens, lookup, int(fill)).replace(f"padding_idx={fill})", f"padding_idx={padding})", 1)
    return script.replace("nn.GRU(8, 8, batch_first=True)", "nn.GRU(8, 8, batch_first=True)  # HERE", 1)


def test_sequences_that_are_filled_up_with_another_number_than_the_last_are_told(tmp_path: Path) -> None:
    assert_first_alarm(tokens("-1", "0"), "padding_row_used", tmp_path)


def test_sequences_that_are_filled_up_with_the_last_number_are_right(tmp_path: Path) -> None:
    assert not alarms(tokens("-1", "20"), tmp_path)


APPS = (
    HEAD
    + """
from collections import Counter
days = [["mail", "maps", "news", "chat", "bank"][i:] + ["mail", "maps", "news", "chat", "bank"][:i] for i in (0, 3, 1)]
days = [[*day[:2], day[2]] for day in days] * 20
counts = Counter(app for day in days for app in day)
NUMBERS
table, net = nn.Embedding(len(number) + 1, 4, padding_idx=0), nn.Linear(4, 1)  # HERE
optimizer = torch.optim.Adam([*table.parameters(), *net.parameters()], lr=0.01)
ids = torch.tensor([[number[app] for app in day] for day in days])
for step in range(4):
    x = ids[torch.randperm(60)[:30]]
    loss = (net(table(x).mean(1)).squeeze(1) - x.float().mean(1)).square().mean()
"""
    + TRAIN
)


@pytest.mark.parametrize(
    "numbers",
    [
        "number = {app: i for i, app in enumerate(sorted(counts))}",
        "apps = [app for app, _ in counts.most_common()]\nnumber = {app: i for i, app in enumerate(apps)}",
    ],
)
def test_the_first_item_of_a_vocabulary_without_padding_is_told(numbers: str, tmp_path: Path) -> None:
    assert_first_alarm(APPS.replace("NUMBERS", numbers), "padding_row_used", tmp_path)


@pytest.mark.parametrize(
    "numbers",
    [
        "number = {app: i for i, app in enumerate(sorted(counts), start=1)}",
        "number = {app: i + 1 for i, app in enumerate(sorted(counts))}",
        'number = {app: i for i, app in enumerate(["<pad>", *sorted(counts)])}',
        'number = {app: i for i, app in enumerate(["", *sorted(counts)])}',
        "PAD = 'mail'\nnumber = {app: i for i, app in enumerate([PAD, *sorted(set(counts) - {PAD})])}",
    ],
    ids=["from 1", "one more", "a padding item", "an empty item", "a named item"],
)
def test_a_vocabulary_with_padding_is_right(numbers: str, tmp_path: Path) -> None:
    assert not alarms(APPS.replace("NUMBERS", numbers), tmp_path)
