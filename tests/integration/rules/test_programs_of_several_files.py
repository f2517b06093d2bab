"""What one file of a program defines, and another one uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.check.report import check_report
from gradviz.analysis.rules import RULES
from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, in_files, recorded

MODEL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))
    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = h + torch.tanh(block(h))
        return self.head(h)
model = Net()
"""
STEPS = (
    """
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(16, 4)), torch.randint(0, 3, (16,)))
"""
    + TRAIN
)
FREEZE = """
def freeze(model, beginnings):
    for name, p in model.named_parameters():
        if any(name.startswith(each) for each in beginnings):
            p.requires_grad_(False)
"""
FIELD = """
from dataclasses import dataclass, field
@dataclass
class Settings:
    frozen: list = field(default_factory=lambda: ["embed", "blocks.1"])  # HERE
"""
FAULTY = {
    "a field of settings": (
        {"own_settings": FIELD, "own_freeze": FREEZE},
        "from own_settings import Settings\nfrom own_freeze import freeze\nfreeze(model, Settings().frozen)\n",
        "prefix_matches_more",
    ),
    "a constant of a module": (
        {"own_settings": 'FROZEN = ("embed", "blocks.1")  # HERE\n', "own_freeze": FREEZE},
        "import own_settings\nfrom own_freeze import freeze\nfreeze(model, own_settings.FROZEN)\n",
        "prefix_matches_more",
    ),
    "a name that is imported": (
        {"own_settings": 'FROZEN = ["encoder"]  # HERE\n', "own_freeze": FREEZE.replace("any(", "any(  ")},
        "from own_settings import FROZEN\nfrom own_freeze import freeze\nfreeze(model, FROZEN)\n",
        "names_match_nothing",
    ),
    "a function under another name, with a loop over texts": (
        {
            "own_freeze": "def freeze(model, beginnings):\n    for name, p in model.named_parameters():\n"
            "        for each in beginnings:\n            if name.startswith(each):\n"
            "                p.requires_grad_(False)\n"
        },
        'from own_freeze import freeze as freeze_below\nfreeze_below(model, ["embed", "blocks.1"])  # HERE\n',
        "prefix_matches_more",
    ),
    "a call in another file": (
        {"own_freeze": FREEZE, "own_plan": 'def of(model, freeze):\n    freeze(model, ["blocks.1"])  # HERE\n'},
        "import own_plan\nfrom own_freeze import freeze\nown_plan.of(model, freeze)\n",
        "prefix_matches_more",
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_names_are_followed_into_other_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, script, cause = FAULTY[name]
    (first, *_) = alarms(HEAD + MODEL + in_files(files, tmp_path, monkeypatch) + script + STEPS, tmp_path)
    assert first.cause == cause
    assert first.location is not None
    assert Path(first.location.file).read_text().splitlines()[first.location.line - 1].endswith("# HERE")


def test_a_name_that_two_files_define_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "own_settings": 'FROZEN = ["embed."]\n',
        "own_others": 'FROZEN = ["blocks.1"]\n',
        "own_freeze": FREEZE,
    }
    script = "import own_others, own_settings\nfrom own_freeze import freeze\nfreeze(model, own_settings.FROZEN)\n"
    assert not alarms(HEAD + MODEL + in_files(files, tmp_path, monkeypatch) + script + STEPS, tmp_path)


def test_a_recording_has_the_files_that_the_program_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"own_settings": FIELD, "own_empty": "", "own_layers": "import torch\ndef f(x):\n    return x.tanh()\n"}
    script = "import own_empty\nfrom own_settings import Settings\nfrom own_layers import f\n" + STEPS.replace(
        "torch.randn(16, 4)", "f(torch.randn(16, 4))"
    )
    case = recorded(HEAD + MODEL + in_files(files, tmp_path, monkeypatch) + script, tmp_path)
    assert case.capture.imported == (str(tmp_path / "own_settings.py"),)
    assert case.capture.sources[str(tmp_path / "own_settings.py")][4] == FIELD.splitlines()[3]


def test_files_that_are_too_long_to_be_read_are_disclosed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = 'FROZEN = ["embed", "blocks.1"]\n' + "LEFT = 1\n" * 2_000
    script = "from own_settings import FROZEN\nfrom own_freeze import freeze\nfreeze(model, FROZEN)\n"
    for settings, disclosed in ((long, True), (long[:100], False)):
        files = {"own_settings": settings, "own_freeze": FREEZE}
        case = recorded(HEAD + MODEL + in_files(files, tmp_path, monkeypatch) + script + STEPS, tmp_path)
        sentences = check_report(case, RULES).disclosures
        assert any("1 more file of the program" in each for each in sentences) == disclosed
