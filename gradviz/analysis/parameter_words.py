"""Parameters and their lines as findings name them."""

from __future__ import annotations

from collections.abc import Sequence

from gradviz.analysis.dataflow import Dataflow
from gradviz.analysis.finding import Place
from gradviz.analysis.parameter_fates import ParameterFates
from gradviz.graph.model import CallSite


def listed(fates: ParameterFates, tensors: Sequence[int]) -> tuple[str, ...]:
    """The names of those that have one, each once."""
    return tuple(dict.fromkeys(fates.name(number) for number in tensors if fates.tensor(number).names))


def together(fates: ParameterFates, tensors: Sequence[int]) -> str:
    """One or two by name; of more, the first and how many."""
    names = list(dict.fromkeys(fates.name(number) for number in tensors))
    if len(names) <= 2:
        return " and ".join(names)
    return f"{names[0]} and {len(names) - 1} more parameters"


def place_of_line(line: CallSite | None) -> Place | None:
    return None if line is None else Place(line.file, line.line)


def place_of_call(flow: Dataflow, row: int) -> Place | None:
    """The reader's own line that made a call of the log."""
    return place_of_line(flow.line_of(row))
