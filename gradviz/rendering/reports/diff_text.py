"""The text that ``gradviz diff`` prints: the answer, where it began, structure, figures."""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from gradviz.analysis.diff.backward import FORWARD_DIFFERS
from gradviz.analysis.diff.difference import Change, Difference, Figure, Origin, Where
from gradviz.graph.number_words import byte_words, counted
from gradviz.graph.query.own_line import line_words_of
from gradviz.rendering.reports.terminal_tables import empty_table, facts_table, printed, shortened_name, wrapped
from gradviz.safe_text import one_line

MAX_CHANGES = 20
MAX_FIGURES = 12
_SIGNS = {"only_a": "-", "only_b": "+"}
_STYLES = {"only_a": "red", "only_b": "green"}


def diff_text(difference: Difference, width: int, *, color: bool, show_all: bool = False) -> str:
    """The whole report."""
    return printed(_parts(difference, width, show_all=show_all), width, color=color)


def _parts(found: Difference, width: int, *, show_all: bool) -> Iterator[RenderableType]:
    yield wrapped(found.sentence, width, "bold" if found.same else "bold red")
    yield Text()
    counts = f"{counted(found.matched, 'operation')} in both"
    if found.differing:
        counts += f", {found.differing:,} of them with other results"
    if found.backward_calls > 1:
        counts += f"; {counted(found.backward_calls, 'backward call')} compared"
    yield facts_table(
        [
            ("A", f"{one_line(found.a)}  ({counted(found.operations_a, 'operation')})"),
            ("B", f"{one_line(found.b)}  ({counted(found.operations_b, 'operation')})"),
            ("", counts),
        ]
    )
    if found.first is not None:
        yield from _origin("Where it began", found.first, width, is_told=found.first.what in found.sentence)
    if found.rounding is not None:
        yield from _origin("Rounding before that" if found.first else "Rounding", found.rounding, width)
    if found.backward is not None and found.backward != found.first:
        yield from _backward(found.backward, width)
    yield from _growth(found)
    yield from _changes(found, width, show_all=show_all)
    yield from _figures(found, width, show_all=show_all)
    if found.disclosures:
        yield _heading("What was not compared, and what to know")
        yield from (wrapped(f"  {sentence}", width, "yellow") for sentence in found.disclosures)


def _heading(title: str) -> Text:
    return Text(f"\n{title}", style="bold")


def _backward(origin: Origin, width: int) -> Iterator[RenderableType]:
    """What follows from another forward is told in one line."""
    if origin.reason != FORWARD_DIFFERS or origin.a is None:
        yield from _origin("In backward", origin, width)
        return
    yield _heading("In backward")
    line = f" ({line_words_of(origin.a.file, origin.a.line)} in A)" if origin.a.file is not None else ""
    what = f"gradients differ from {origin.a.operation}{line} on, whose forward differs already"
    yield Padding(wrapped(what, width - 2, ""), (0, 0, 0, 2))


def _origin(title: str, origin: Origin, width: int, *, is_told: bool = False) -> Iterator[RenderableType]:
    """Args: `is_told`: whether the first sentence of the report says already what differs."""
    yield _heading(title)
    if not is_told:
        yield Padding(wrapped(origin.what, width - 2, ""), (0, 0, 0, 2))
    facts: list[tuple[str, str]] = []
    for name, where in (("A", origin.a), ("B", origin.b)):
        if where is not None:
            facts += _facts_of(name, where)
    if origin.distance is not None and origin.distance > 0:
        facts.append(("apart", distance_words(origin.distance)))
    if origin.reason is not None:
        facts.append(("why", origin.reason))
    if origin.repetitions:
        facts.append(("again", f"at the same lines {counted(origin.repetitions, 'more time')}"))
    yield facts_table(facts)


def _facts_of(name: str, where: Where) -> Iterator[tuple[str, str]]:
    line = line_words_of(where.file, where.line) if where.file is not None else "line unknown"
    module = f"  in {where.module}" if where.module else ""
    yield name, f"{line}{module}"
    if where.source:
        yield "", where.source
    if where.operands:
        yield "", f"{where.operation} of {', '.join(where.operands)}"
    if where.takes_from:
        yield "", f"takes the result of {where.takes_from}"


def distance_words(distance: float) -> str:
    """``2.8e-04 of the norm``."""
    if isinf(distance):
        return "not comparable: another number of elements, of NaN or of Inf"
    return f"{distance:.1e} of the norm"


def _growth(found: Difference) -> Iterator[RenderableType]:
    if len(found.growth) < 2:
        return
    yield _heading("How the difference grows")
    table = empty_table()
    for title in ("operation", "line", "apart", ""):
        table.add_column(title)
    for point in found.growth:
        beyond = "beyond the tolerance" if point.is_beyond else ""
        table.add_row(f"{point.depth} {point.operation}", point.line or "", f"{point.distance:.1e}", beyond)
    yield Padding(table, (0, 0, 0, 2))


def _changes(found: Difference, width: int, *, show_all: bool) -> Iterator[RenderableType]:
    if not found.changes:
        return
    yield _heading("Structure")
    shown = found.changes if show_all else found.changes[:MAX_CHANGES]
    for change in shown:
        yield wrapped(f"  {_SIGNS.get(change.kind, '~')} {change_words(change)}", width, _STYLES.get(change.kind, ""))
    left = len(found.changes) - len(shown)
    if left:
        yield Text(f"  and {counted(left, 'more difference')} (--all shows them)", style="dim")


def change_words(change: Change) -> str:
    """The sentence with the line."""
    where = change.b if change.a is None else change.a
    if where is None or where.file is None:
        return change.what
    line = line_words_of(where.file, where.line)
    other = change.b
    if change.a is not None and other is not None and other.file is not None:
        other_line = line_words_of(other.file, other.line)
        line = line if line == other_line else f"{line} and {other_line}"
    return f"{change.what}  ({line})"


def _figures(found: Difference, width: int, *, show_all: bool) -> Iterator[RenderableType]:
    changed = [figure for figure in found.figures if figure.a != figure.b]
    if not changed:
        return
    yield _heading("Figures")
    table = empty_table()
    table.add_column("")
    for title in ("A", "B", "B / A"):
        table.add_column(title, justify="right")
    shown = changed if show_all else changed[:MAX_FIGURES]
    for figure in shown:
        table.add_row(shortened_name(figure.name, width - 40, "…"), *_cells(figure))
    yield Padding(table, (0, 0, 0, 2))
    if len(shown) < len(changed):
        yield Text(f"  and {len(changed) - len(shown):,} more (--all shows them)", style="dim")


def _cells(figure: Figure) -> tuple[str, str, str]:
    ratio = "" if figure.ratio is None else f"{figure.ratio:.3g}x"
    return _number(figure.a, figure.unit), _number(figure.b, figure.unit), ratio


def _number(value: float, unit: str) -> str:
    if unit == "bytes":
        return byte_words(int(value))
    if unit == "s":
        return f"{value * 1000:.2f} ms"
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else f"{value:.5g}"
