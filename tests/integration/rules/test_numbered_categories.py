"""Categories that are numbered anew for each part of the data, by functions, dicts and lists; and numbers that all
parts share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
import numpy as np
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split
rng = np.random.default_rng(0)
cities = np.array(["b", "c", "d", "e", "f", "a"])
def table(count, some):
    return {"city": rng.choice(some, count), "price": rng.normal(size=count).astype("float32")}
whole, bought, held_out = table(130, cities), table(90, cities), table(40, cities[2:])
PARTS
embed, head = nn.Embedding(6, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
for epoch in range(2):
    for x, y in DataLoader(train, 30, shuffle=True):
        loss = F.mse_loss(head(embed(x)).squeeze(1), y)
"""
    + TRAIN.replace("    ", "        ")
    + """
    with torch.no_grad():
        print(sum(F.mse_loss(head(embed(x)).squeeze(1), y) for x, y in DataLoader(test, 20)))
"""
)
DATA_SET = """
class Sales(Dataset):
    def __init__(self, table, known=None):
        {codes}
        self.city, self.price = torch.tensor(codes), torch.from_numpy(table["price"])
    def __len__(self):
        return len(self.price)
    def __getitem__(self, i):
        return self.city[i], self.price[i]
"""
EACH = "\ntrain, test = Sales(bought), Sales(held_out)"
BY_FUNCTION = """
def encode(column):
    _, codes = np.unique(column, return_inverse=True)  # HERE
    return codes
def tensors(table):
    columns = []
    for name in ("city", "city"):
        columns.append(encode(table[name]))
    ids = np.stack(columns, axis=1)
    return TensorDataset(torch.from_numpy(ids).long()[:, 0], torch.from_numpy(table["price"]))
train, test = tensors(bought), tensors(held_out)
"""
BY_DICT = """
def number(values):
    names = sorted(set(values))
    places = {name: place for place, name in enumerate(names)}  # HERE
    return [places[value] for value in values]
"""
TWO_LINES = """
ids = torch.tensor(np.unique(bought["city"], return_inverse=True)[1]).long()
others = torch.tensor(np.unique(held_out["city"], return_inverse=True)[1]).long()  # HERE
train = TensorDataset(ids, torch.from_numpy(bought["price"]))
test = TensorDataset(others, torch.from_numpy(held_out["price"]))
"""
FAULTY = {
    "a function for each column": BY_FUNCTION,
    "a dict": BY_DICT + DATA_SET.format(codes='codes = number(table["city"])') + EACH,
    "places in a list": DATA_SET.format(
        codes='names = sorted(set(table["city"]))\n'
        '        codes = [names.index(each) for each in table["city"]]  # HERE'
    )
    + EACH,
    "two lines": TWO_LINES,
}
HEALTHY = {
    "one split behind": BY_DICT
    + DATA_SET.format(codes='codes = number(table["city"])')
    + "\ntrain, test = random_split(Sales(whole), [90, 40])",
    "known ones, if there are any": DATA_SET.format(
        codes='known = sorted(set(table["city"])) if known is None else known\n'
        '        self.known, codes = known, [known.index(each) for each in table["city"]]'
    )
    + "\ntrain = Sales(bought)\ntest = Sales(held_out, train.known)",
    "in a branch": DATA_SET.format(
        codes='if known is None:\n            known = {v: i for i, v in enumerate(sorted(set(table["city"])))}\n'
        '        self.known, codes = known, [known[each] for each in table["city"]]'
    )
    + "\ntrain = Sales(bought)\ntest = Sales(held_out, train.known)",
    "those of the whole table": DATA_SET.format(
        codes='names = sorted(set(cities))\n        codes = [names.index(each) for each in table["city"]]'
    )
    + EACH,
    "a coder that is fitted once": """
class Coder:
    def fit(self, column):
        self.places = {name: place for place, name in enumerate(sorted(set(column)))}
        return self
    def transform(self, column):
        return [self.places[each] for each in column]
coder = Coder().fit(bought["city"])
"""
    + DATA_SET.format(codes='codes = coder.transform(table["city"])')
    + EACH,
    "numbered before the split": """
def encode(column):
    return np.unique(column, return_inverse=True)[1]
codes = encode(whole["city"])
ids, others = torch.tensor(codes[:90]).long(), torch.tensor(codes[90:]).long()
train = TensorDataset(ids, torch.from_numpy(whole["price"][:90]))
test = TensorDataset(others, torch.from_numpy(whole["price"][90:]))
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_categories_that_are_numbered_anew_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(SCRIPT.replace("PARTS", FAULTY[name]), "fitted_on_each_part", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_numbers_that_both_parts_share_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(SCRIPT.replace("PARTS", HEALTHY[name]), tmp_path)
