"""The table of what each loss adds to every gradient, and which losses conflict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from gradviz.analysis.flow.gradient_flow import FlowRow
from gradviz.analysis.flow.loss_shares import CONFLICT, Pair, pairs, products_of_rows
from gradviz.graph.root_shares import Products, RootShares
from gradviz.rendering.reports.terminal_tables import empty_table, shortened_name, shortened_paths
from gradviz.rendering.words.common_words import listed

_NAME = 22
_NORM, _SHARE, _COSINE = 10, 7, 8
_MAX_PAIRS = 4


def loss_table(shares: RootShares, rows: Sequence[FlowRow], width: int, ellipsis: str) -> Table:
    """A row for each parameter or module: norm and share of each loss, and the cosine of the two that agree least."""
    measured = [(row, own) for row, own in zip(rows, products_of_rows(shares, rows), strict=True) if own is not None]
    everything = shares.together()
    if everything is not None and len(measured) > 1:
        measured.append((FlowRow("all together"), everything))
    has_two = len(shares.losses) == 2
    names = [loss.name for loss in shares.losses]
    least = _COSINE if has_two else _COSINE + 2 + max(map(len, names))
    has_norms = width >= _NAME + (_NORM + _SHARE + 4) * len(names) + least
    has_pairs = not has_two and width >= _NAME + (_NORM * has_norms + _SHARE + 2) * len(names) + least
    table = empty_table()
    table.add_column("parameter", no_wrap=True)
    for name in names:
        if has_norms:
            table.add_column(shortened_name(name, _NORM, ellipsis), justify="right", no_wrap=True)
            table.add_column("share", justify="right", no_wrap=True)
        else:
            table.add_column(shortened_name(name, _SHARE + 2, ellipsis), justify="right", no_wrap=True)
    table.add_column("cosine" if has_two else "least cosine", justify="right" if has_two else "left", no_wrap=True)
    name_width = max(_NAME, width - (_NORM * has_norms + _SHARE + 4) * len(names) - least - 2)
    paths = shortened_paths([row.name for row, _ in measured], name_width, ellipsis)
    for shown, (_, products) in zip(paths, measured, strict=True):
        cells = [cell for loss in range(len(names)) for cell in _cells(products, loss, has_norm=has_norms)]
        worst = next(iter(pairs(shares, products)), None)
        style = "yellow" if worst is not None and worst.is_conflict else ""
        table.add_row(shown, *cells, _worst(worst, names, has_pairs=has_pairs), style=style)
    return table


def conflicts(shares: RootShares, rows: Sequence[FlowRow]) -> Iterator[str]:
    """Which losses conflict over all parameters, and in how many rows some do."""
    products = shares.together()
    found = pairs(shares, products) if products is not None else []
    if not found:
        return
    names = [loss.name for loss in shares.losses]
    against = [f"{names[pair.one]} and {names[pair.other]} ({pair.cosine:.2f})" for pair in found if pair.is_conflict]
    worst = [next(iter(pairs(shares, own)), None) for own in products_of_rows(shares, rows) if own is not None]
    count = sum(pair is not None and pair.is_conflict for pair in worst)
    if against:
        yield f"conflicts over all parameters: {listed(against, _MAX_PAIRS)}"
    else:
        yield "no two losses conflict over all parameters"
    if count:
        yield f"in {count:,} of {len(worst):,} rows two losses conflict (cosine below {CONFLICT})"


def _cells(products: Products, loss: int, *, has_norm: bool) -> list[str]:
    share = products.share(loss)
    share_words = "-" if share is None else f"{share:.0%}" if abs(share) < 10 else f"{share:+.0e}"
    norm = products.norm(loss)
    norm_words = "NaN/Inf" if norm is None else f"{norm:.3g}"
    return [norm_words, share_words] if has_norm else [share_words]


def _worst(pair: Pair | None, names: Sequence[str], *, has_pairs: bool) -> str:
    if pair is None:
        return "-"
    return f"{pair.cosine:+.2f}" + (f" {names[pair.one]}/{names[pair.other]}" if has_pairs else "")
