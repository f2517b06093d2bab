"""Classes that each data set numbers by the names that occur in it, and numbers that all data sets share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
import numpy as np
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split
NAMES = ["ant", "bee", "cat", "dog", "eel"]
profiles = torch.randn(5, 8)
def sample(count, some):
    picks = [some[each] for each in torch.randint(len(some), (count,)).tolist()]
    return profiles[[NAMES.index(each) for each in picks]] + 0.3 * torch.randn(count, 8), picks
x, names = sample(120, NAMES)
x_test, names_test = sample(60, ["ant", "cat", "dog", "eel"])
PARTS
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for x, y in DataLoader(train, 30, shuffle=True):
        loss = F.cross_entropy(model(x), y)
"""
    + TRAIN.replace("    ", "        ")
    + """
    with torch.no_grad():
        print(sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, 20)))
"""
)
ITEMS = """
class Calls(Dataset):
    def __init__(self, x, names, known=None):
        self.x, self.names = x, names
        {init}
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return self.x[i], {label}
"""
EACH = "\ntrain, test = Calls(x, names), Calls(x_test, names_test)"
FUNCTION = """
def encode(names):
    known = sorted(set(names))
    return torch.tensor([known.index(each) for each in names])  # HERE
"""
WRONG = {
    "targets of each data set": ITEMS.format(
        init="classes = sorted(set(names))\n"
        "        places = {name: place for place, name in enumerate(classes)}  # HERE\n"
        "        self.targets = torch.tensor([places[name] for name in names])",
        label="self.targets[i]",
    )
    + EACH,
    "a table of each data set": ITEMS.format(
        init="self.places = {name: place for place, name in enumerate(sorted(set(self.names)))}  # HERE",
        label="self.places[self.names[i]]",
    )
    + EACH,
    "a list of each data set": ITEMS.format(
        init="self.classes = sorted({name for name in names})  # HERE",
        label="self.classes.index(self.names[i])",
    )
    + EACH,
    "a function": FUNCTION + "train, test = TensorDataset(x, encode(names)), TensorDataset(x_test, encode(names_test))",
}
HEALTHY = {
    "the names of the training": ITEMS.format(
        init="self.known = sorted(set(names)) if known is None else known\n"
        "        self.targets = torch.tensor([self.known.index(name) for name in names])",
        label="self.targets[i]",
    )
    + "\ntrain = Calls(x, names)\ntest = Calls(x_test, names_test, train.known)",
    "a list of all names": ITEMS.format(
        init="self.places = {name: place for place, name in enumerate(sorted(set(NAMES)))}",
        label="self.places[self.names[i]]",
    )
    + EACH,
    "all names as an argument": ITEMS.format(
        init="self.places = {name: place for place, name in enumerate(sorted(set(known)))}",
        label="self.places[self.names[i]]",
    )
    + "\ntrain, test = Calls(x, names, NAMES), Calls(x_test, names_test, NAMES)",
    "one data set that is split": ITEMS.format(
        init="self.places = {name: place for place, name in enumerate(sorted(set(names)))}",
        label="self.places[self.names[i]]",
    )
    + "\nwhole = Calls(x, names)\ntrain, test = random_split(whole, [112, 8])",
    "a function for all": FUNCTION.replace("  # HERE", "")
    + "y = encode(names + names_test)\n"
    + "train, test = TensorDataset(x, y[:120]), TensorDataset(x_test, y[120:])",
    "the same names in both": ITEMS.format(
        init="self.places = {name: place for place, name in enumerate(sorted(set(names)))}",
        label="self.places[self.names[i]]",
    )
    + "\nx_test, names_test = sample(90, NAMES)"
    + EACH,
    "names that are only counted": ITEMS.format(
        init="self.classes = sorted(set(names))",
        label="NAMES.index(self.names[i])",
    )
    + "\ntrain = Calls(x, names)\ntest = Calls(*sample(60, NAMES[:4]))",
}


@pytest.mark.parametrize("shape", list(WRONG))
def test_classes_that_each_data_set_numbers_are_told(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(SCRIPT.replace("PARTS", WRONG[shape]), "fitted_on_each_part", tmp_path)


@pytest.mark.parametrize("look", list(HEALTHY))
def test_classes_that_all_data_sets_share_raise_no_alarm(look: str, tmp_path: Path) -> None:
    found = [f"{each.cause}: {each.message}" for each in alarms(SCRIPT.replace("PARTS", HEALTHY[look]), tmp_path)]
    assert found == []
