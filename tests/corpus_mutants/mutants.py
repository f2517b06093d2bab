"""Which mutants there are: every operator at up to two positions of each program, chosen by a hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

from tests.corpus_mutants.planters import habits, meaning, missing, optimizers
from tests.corpus_mutants.planting import OPERATORS, Mutant, Operator, Program

HERE = Path(__file__).parent
CONTROLS = HERE.parent / "corpus" / "cases"
PLANTERS = (missing, optimizers, meaning, habits)
"""They fill `OPERATORS` when they are imported."""
MAX_POSITIONS = 2


def programs() -> list[Program]:
    """The healthy programs."""
    own = {path.stem: path for path in (HERE / "healthy_programs").glob("*.py")}
    controls = {path.parent.name.partition("_")[0]: path for path in CONTROLS.glob("*_control_*/script.py")}
    return [Program(name, path.read_text(encoding="utf-8")) for name, path in sorted({**own, **controls}.items())]


def mutants(program: Program, asked: Operator | None = None) -> Iterator[Mutant]:
    """Some of those that can be made of a program: the same in every run."""
    for each in OPERATORS:
        if asked is not None and each is not asked:
            continue
        made = [program.mutant(each, planted, number) for number, planted in enumerate(each.plant(program))]
        yield from sorted((mutant for mutant in made if mutant is not None), key=_rank)[:MAX_POSITIONS]


def in_turns(found: list[Mutant]) -> list[Mutant]:
    """One of each operator, then another one of each; within an operator in the order of a hash."""
    by_operator: dict[str, list[Mutant]] = {}
    for mutant in sorted(found, key=_rank):
        by_operator.setdefault(mutant.operator.name, []).append(mutant)
    turns = zip_longest(*(by_operator[name] for name in sorted(by_operator)))
    return [mutant for mutant in chain.from_iterable(turns) if mutant is not None]


def is_set_aside(mutant: Mutant) -> bool:
    """A tenth of the operators and a quarter of the programs: rules are not developed on them."""
    return _hash(mutant.operator.name) % 10 == 0 or is_program_set_aside(mutant.program)


def is_program_set_aside(name: str) -> bool:
    return _hash(name) % 4 == 0


def _rank(mutant: Mutant) -> int:
    return _hash(mutant.name)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
