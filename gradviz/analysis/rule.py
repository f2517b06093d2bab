"""A rule: one problem, with a stable code, explained by the rule's docstring."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Severity

SECTIONS = ("What it finds", "Why it matters", "Example", "Instead")
"""The sections of a rule's docstring, in this order. The terminal, the page and ``gradviz rules`` print that text."""

FAMILIES = {
    "GV1": "missing gradient",
    "GV2": "zero or vanishing gradient",
    "GV3": "NaN, Inf or exploding gradient",
    "GV4": "in-place changes and versions",
    "GV5": "freed, retained and leaked graphs",
    "GV6": "wrong gradient",
    "GV7": "parameters and modules",
    "GV8": "distributed training and checkpoints",
    "GV9": "cost",
}
_MORE_OF_WRONG = {"GV83x to GV89x": range(830, 900), "GV93x to GV99x": range(930, 1000)}
"""The numbers of wrong gradients go on here, as those from 601 to 699 are used up."""


def family_of(code: str) -> tuple[str, str]:
    """The codes that are listed with a code, and what they are about: ``("GV1xx", "missing gradient")``."""
    number = code.removeprefix("GV")
    for codes, numbers in _MORE_OF_WRONG.items():
        if number.isdecimal() and int(number) in numbers:
            return codes, f"{FAMILIES['GV6']}, continued"
    return f"{code[:3]}xx", FAMILIES.get(code[:3], "of other packages")


class Rule(ABC):
    """Looks for one cause. Instances have no state: everything that a rule knows comes from the `Case`."""

    code: ClassVar[str]
    """``GV101``; the first digit is the family, see `family_of`."""
    name: ClassVar[str]
    """The cause, as findings name it: ``detached``."""
    severity: ClassVar[Severity]
    yields_to: ClassVar[tuple[str, ...]] = ()
    """Names of rules that explain more: if one of them reports the same tensors, or something as severe at the same
    line, it replaces this rule's finding."""

    is_last_resort: ClassVar[bool] = False
    """Whether it only tells what it sees, without a cause: any finding of another rule on the same tensors replaces
    its own, and so does an alarm that names no tensors."""

    is_general: ClassVar[bool] = False
    """Whether its words fit many mistakes, which other rules tell more precisely: a finding of another rule that joins
    the same two lines, about some of the same tensors, replaces its own."""

    only_repeats_error: ClassVar[bool] = False
    """Whether it only repeats the error that ended the program: an alarm of another rule that says why it raises, or an
    error at the same line, replaces its finding."""

    comes_later: ClassVar[bool] = False
    """Whether what it finds may have many causes, or only makes training slower: among findings that are as severe,
    those of other rules come first."""

    needs: ClassVar[tuple[str, ...]] = ()
    """What the recorder must have read from torch, by names of `Capture.missing`; without it the rule cannot run."""

    requested_by: ClassVar[str] = ""
    """The option that requests it; empty for rules that always run."""

    @abstractmethod
    def check(self, case: Case) -> Iterator[Finding]:
        """Everything of this kind that is wrong with the run."""

    def finding(self, message: str, **facts: Any) -> Finding:
        """A finding of this rule; `facts` are fields of `Finding`."""
        return Finding(code=self.code, cause=self.name, message=message, **{"severity": self.severity, **facts})

    @classmethod
    def headline(cls) -> str:
        """The first line of its docstring."""
        return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]

    @classmethod
    def documentation(cls) -> dict[str, str]:
        """The sections of its docstring by their titles."""
        text = inspect.cleandoc(cls.__doc__ or "")
        parts = re.split(rf"^({'|'.join(SECTIONS)})\n-+\n", text, flags=re.MULTILINE)
        return {title: body.strip("\n") for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def is_called(code: str, name: str, word: str) -> bool:
    """Whether a user's word means the rule: its name, its code, or the start of its code."""
    return word in (name, code) or (word[:2].upper() == "GV" and code.startswith(word.upper()))
