"""Compares a function of this process with itself, plain and inside ``with gradviz.record():``."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy
import torch

import gradviz
from tests.harmless import surroundings
from tests.harmless.call_log import CallLog
from tests.harmless.comparing import Difference, of_calls, of_facts
from tests.harmless.describing import describe


def recorded_differences(program: Callable[[], Any], seed: int = 0) -> list[Difference]:
    """What differs between a plain and a recorded call of `program`; a defect that gradviz disclosed counts, too.

    What it returns is compared bit for bit, with everything inside: modules, optimizers, tensors and their gradients.
    Both calls begin with the random generators seeded; the program runs twice, so it must make its own model.
    """
    plain, before = _observed(program, seed), _left()
    with gradviz.record() as recording:
        recorded = _observed(program, seed)
    # When the block has ended, everything must be as it was.
    plain["exit"], recorded["exit"] = {"left in torch": before}, {"left in torch": _left()}
    defects = [sentence for sentence in recording.capture.disclosures if "defect of gradviz" in sentence]
    return [
        *of_calls(plain, recorded),
        *of_facts(plain, recorded),
        *(Difference("disclosed", "nothing", sentence) for sentence in defects),
    ]


def _observed(program: Callable[[], Any], seed: int) -> dict[str, Any]:
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    log = CallLog()
    before = torch._C._autograd._get_sequence_nr()
    with log.listening():
        value = program()
    made = torch._C._autograd._get_sequence_nr() - before
    settings = {name: text for name, text in surroundings.torch_facts(torch).items() if name != "sequence number"}
    facts = {"random state": surroundings.random_facts(), "torch": settings, "objects": describe({"returned": value})}
    return {"end": {**facts, "nodes": {"made": str(made)}, "calls": log.calls}}


def _left() -> surroundings.Facts:
    return surroundings.leftover_facts(torch)
