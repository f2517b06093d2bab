"""The generator of faults: where a mutant is to be edited is known by construction."""

from __future__ import annotations

import ast

from tests.corpus_mutants.mutants import is_program_set_aside, mutants, programs
from tests.corpus_mutants.planting import OPERATORS, Planted, Program

TEXT = "x = make()\nfor i in range(3):\n    y = use(x)\n    y.backward()\n    opt.step()\n"


def test_the_lines_of_a_mutant_are_the_written_ones_and_the_named_ones_after_the_edits() -> None:
    program = Program("small", TEXT)
    loop = next(program.all(ast.For))
    step = loop.body[2]
    planted = Planted((program.before(loop, "first = 1"), program.within(loop.body[0], "with off():")), (step.lineno,))
    made = program.mutant(OPERATORS[0], planted, 0)
    assert made is not None
    lines = made.source.splitlines()
    assert [lines[line - 1].strip() for line in sorted(made.lines)] == [
        "first = 1",
        "with off():",
        "y = use(x)",
        "opt.step()",
    ]


def test_there_are_many_programs_and_operators_and_a_quarter_of_the_programs_is_set_aside() -> None:
    names = [program.name for program in programs()]
    aside = sum(map(is_program_set_aside, names))
    assert len(names) >= 100
    assert len(OPERATORS) >= 70
    assert 0.2 < aside / len(names) < 0.3


def test_every_mutant_of_a_program_is_python_that_differs_and_has_a_line_to_edit() -> None:
    program = next(each for each in programs() if each.name == "vae")
    made = list(mutants(program))
    assert len({mutant.operator.name for mutant in made}) > 20
    for mutant in made:
        ast.parse(mutant.source)
        assert mutant.source != program.text
        assert mutant.lines
        assert max(mutant.lines) <= mutant.source.count("\n") + 1
