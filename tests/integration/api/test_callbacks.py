"""The callbacks, in training loops of the real libraries."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradviz.callbacks import trainer_callback
from gradviz.errors import BadInput, CheckFailed
from tests.end_to_end.command import python, written_script

ROWS = [{"x": torch.ones(2), "labels": torch.ones(1)} for _ in range(12)]


class Net(nn.Module):
    """Two layers, with or without a cut between them."""

    def __init__(self, *, is_cut: bool) -> None:
        super().__init__()
        self.body, self.head, self.is_cut = nn.Linear(2, 2), nn.Linear(2, 1), is_cut

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        hidden = self.body(x)
        hidden = hidden.detach() if self.is_cut else hidden
        return {"loss": (self.head(hidden) - labels).square().mean()}


def train_with_transformers(callback: Any, folder: Path, *, is_cut: bool) -> None:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        str(folder), max_steps=4, per_device_train_batch_size=3, report_to=[], save_strategy="no", use_cpu=True,
        disable_tqdm=True, gradient_accumulation_steps=1, dataloader_pin_memory=False,
    )  # fmt: skip
    Trainer(Net(is_cut=is_cut), arguments, train_dataset=ROWS, callbacks=[callback]).train()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "gradviz"]


def test_a_cut_in_a_transformers_training_is_reported_once_with_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "gradviz"):
        train_with_transformers(trainer_callback(every=2), tmp_path, is_cut=True)
    (only,) = told(caplog)
    assert only.startswith("step 1: 1 error")
    assert "detached test_callbacks.py:" in only
    assert "body.weight" in only


def test_a_healthy_transformers_training_is_not_disturbed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gradviz"):
        train_with_transformers(trainer_callback(every=1), tmp_path, is_cut=False)
    assert told(caplog) == []


def test_a_grave_finding_can_end_the_training(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="step 1"):
        train_with_transformers(trainer_callback(fail_on="error"), tmp_path, is_cut=True)


LIGHTNING = """
import logging, sys, warnings
warnings.simplefilter("ignore")
import torch
import pytorch_lightning as lightning
import gradviz
from gradviz.callbacks import lightning_callback
from gradviz.errors import CheckFailed

logging.basicConfig(stream=sys.stdout, format="%(name)s %(message)s")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

class Net(lightning.LightningModule):
    def __init__(self, is_cut):
        super().__init__()
        self.body, self.head, self.is_cut = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1), is_cut
    def training_step(self, batch, _):
        hidden = self.body(batch)
        if self.is_cut:
            hidden = hidden.detach()
        return self.head(hidden).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def train(is_cut, **options):
    trainer = lightning.Trainer(max_steps=4, accelerator="cpu", callbacks=[lightning_callback(**options)],
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Net(is_cut), torch.utils.data.DataLoader(torch.ones(12, 2), batch_size=3))

train(False, every=1)
print("healthy so far")
train(True, every=2)
try:
    train(True, fail_on="error")
except CheckFailed as error:
    print("ended:", error)
"""


def test_lightning_trainings_are_checked_alike(tmp_path: Path) -> None:
    """In a separate process: Lightning replaces functions of torch when it is imported."""
    run = python(written_script(tmp_path, LIGHTNING), cwd=tmp_path)
    assert run.exit_code == 0, run.stderr
    healthy, _, cut = run.stdout.partition("healthy so far\n")
    assert "gradviz" not in healthy
    assert cut.count("gradviz step 1: 1 error") == 2
    assert "gradviz step 2" not in cut
    assert "detached train.py:20" in cut
    assert "ended: step 1 has error findings: no gradient for model.body.weight" in cut


@pytest.mark.parametrize("arguments", [{"every": 0}, {"fail_on": "fatal"}, {"select": "GV1O"}])
def test_bad_arguments_are_refused_at_once(arguments: Any) -> None:
    with pytest.raises(BadInput):
        trainer_callback(**arguments)
