"""The source of a custom function, and whether its backward agrees with its forward."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.custom_page import CheckedInput, CustomPage
from gradviz.graph.source_lines import file_name
from gradviz.rendering.value_words import number_words
from gradviz.rendering.words import counted

Row = tuple[str, str]


def custom_sections(page: CustomPage) -> Iterator[tuple[str, list[Row]]]:
    """Sections of the page, each with its title."""
    name = file_name(page.file)
    lines = [(str(line.number), line.text) for line in page.lines]
    yield f"source{f' in {name}' if name else ''}", lines or [("", _why_no_source(page))]
    if not all(page.wants_gradient):
        yield (
            "gradients that are wanted",
            [
                (f"input {place}", "wanted" if wants else "not wanted: backward may give None for it")
                for place, wants in enumerate(page.wants_gradient)
            ],
        )
    checks = [(f"argument {check.argument}", _words(check)) for check in page.checks]
    checks += [("", sentence) for sentence in page.unchecked]
    yield "backward compared with finite differences of forward", checks or [("", _why_not(page))]


def _why_no_source(page: CustomPage) -> str:
    return "the recording does not hold it" + ("" if page.file else ": what exec() or a prompt defines has no file")


def _why_not(page: CustomPage) -> str:
    if page.was_asked_for:
        return "not compared: no call of it by apply() was seen that wanted a gradient"
    return "not compared: gradviz explain WHAT SCRIPT --gradcheck runs the script to its end and does"


def _words(check: CheckedInput) -> str:
    compared = counted(check.compared, "element")
    if check.given is not None and check.measured is not None:
        given, measured = number_words(check.given), number_words(check.measured)
        return f"WRONG: {given} where the slope of forward is {measured}; {compared} compared"
    if check.verdict == "another on purpose":
        return "another gradient than the slope of forward, which is handed on or flat: on purpose, it seems"
    return f"{check.verdict} in {compared}" if check.compared else check.verdict
