"""The comparison of the ranks of a job as one HTML file, which has no script and loads nothing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape

from gradviz.analysis.ranks.rank_difference import RankComparison, RankDifference
from gradviz.analysis.ranks.rank_words import rank_words
from gradviz.graph.query.own_line import line_words_of
from gradviz.rendering.job_page.charts import chart
from gradviz.rendering.look.palette import THEMES, Theme
from gradviz.rendering.look.text_metrics import FONT_FAMILY
from gradviz.rendering.reports.rank_tables import RankTable, rank_table, titled_tables
from gradviz.rendering.reports.ranks_text import NO_DIFFERENCE, ranks_title
from gradviz.rendering.svg.style import font_faces
from gradviz.safe_text import one_line

_RULES = """
body{margin:0 auto;padding:24px;max-width:960px;font-size:15px;line-height:1.45;background:var(--page);
color:var(--text)}
h1{font-size:21px;margin:0 0 16px;overflow-wrap:anywhere}h2{font-size:16px;margin:28px 0 8px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}.wide{overflow-x:auto}
th,td{padding:4px 18px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{color:var(--quiet);font-weight:500}.number{text-align:right;white-space:nowrap}
article{border-left:4px solid var(--line);padding:6px 12px;margin:10px 0;overflow-wrap:anywhere}
article.alarm{border-color:var(--failed)}article p{margin:0}article ul{margin:6px 0 0;padding-left:20px}
.quiet,.who{color:var(--quiet)}.charts{display:flex;flex-wrap:wrap;gap:16px}figure{margin:0;flex:1 1 320px}
figcaption{color:var(--quiet)}svg{width:100%;height:auto}svg text{font-size:12px;fill:var(--quiet)}
.end{text-anchor:end}.axis{stroke:var(--line);fill:none}
polyline{fill:none;stroke-width:2;stroke-linejoin:round}.usual{stroke:var(--accent)}.differs{stroke:var(--failed)}
"""


def ranks_page(comparison: RankComparison) -> str:
    """The whole file."""
    title, style = ranks_title(comparison), _style()
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; font-src data:; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} · gradviz</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(_parts(comparison)) + "\n</body>\n</html>\n"
    )


def _parts(comparison: RankComparison) -> Iterator[str]:
    for each in comparison.differences:
        yield _difference(comparison, each)
    if not comparison.differences:
        yield f"<p>{NO_DIFFERENCE}</p>"
    marked = sorted({rank for each in comparison.differences if each.is_alarm for rank in each.missing})
    legend = f"; in red: {rank_words(marked, comparison.ranks[0].rank, comparison.world_size)}" if marked else ""
    charts = (
        chart(f"loss of each rank{legend}", comparison.ranks, lambda call: call.loss, marked),
        chart(f"norm of each rank's own gradient{legend}", comparison.ranks, lambda call: call.norm, marked),
    )
    if any(charts):
        yield f'<div class="charts">{"".join(charts)}</div>'
    yield _section("ranks", rank_table(comparison))
    for title, table in titled_tables(comparison):
        yield _section(title, table)
    if comparison.disclosures:
        yield "<h2>not compared</h2><ul>"
        yield from (f'<li class="quiet">{_text(sentence)}</li>' for sentence in comparison.disclosures)
        yield "</ul>"


def _difference(comparison: RankComparison, difference: RankDifference) -> str:
    rank = comparison.ranks[0].rank
    details = "".join(f"<li>{_text(each)}</li>" for each in difference.details)
    who = rank_words(difference.missing, rank, comparison.world_size) if difference.missing else ""
    at = difference.location
    location = "" if at is None else line_words_of(at.file, at.line)
    about = " · ".join(filter(None, (who, location)))
    return (
        f'<article class="{"alarm" if difference.is_alarm else "note"}"><p>{_text(difference.what)}</p>'
        + (f'<p class="who">{_text(about)}</p>' if about else "")
        + (f"<ul>{details}</ul>" if details else "")
        + "</article>"
    )


def _section(title: str, table: RankTable) -> str:
    head = "".join(f"<th{_of(column.is_number)}>{_text(column.title)}</th>" for column in table.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_of(column.is_number)}>{_text(cell)}</td>" for column, cell in zip(table.columns, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<h2>{_text(title)}</h2><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _of(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _text(words: str) -> str:
    return escape(one_line(words))


def _style() -> str:
    themes = (
        f":root{{{_colours(THEMES['light'])}}}@media(prefers-color-scheme:dark){{:root{{{_colours(THEMES['dark'])}}}}}"
    )
    font = f'body{{font-family:"{FONT_FAMILY}",Inter,system-ui,sans-serif}}'
    return font_faces() + themes + font + _RULES


def _colours(theme: Theme) -> str:
    named = {
        "page": theme.page, "text": theme.text, "quiet": theme.quiet_text, "line": theme.nested[3],
        "accent": theme.roles["parameter"].line, "failed": theme.failed.line,
    }  # fmt: skip
    return "".join(f"--{name}:{colour};" for name, colour in named.items())
