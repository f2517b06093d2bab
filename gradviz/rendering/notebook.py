"""Text and pictures that display themselves at a prompt and in a notebook.

Problems solved here:

* JupyterLab draws ``image/svg+xml`` as an image, without tooltips or selectable text. So the picture is also HTML,
  which JupyterLab, VS Code, Colab and pages made by nbconvert insert into the page itself.
* In such a page, a style sheet would apply to everything around it, and two arrowheads would share one id. So each
  rule applies only inside the element that holds the picture, and each id starts with that element's id.
* A notebook has its own theme, whatever the system's theme is. So the dark rules follow the attributes and classes by
  which notebooks mark a dark page, not ``prefers-color-scheme``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256

DARK_PAGES = (
    '[data-jp-theme-light="false"]',  # JupyterLab, Notebook 7, nbconvert
    ".vscode-dark",
    ".vscode-high-contrast:not(.vscode-high-contrast-light)",
    'html[theme="dark"]',  # Colab
    'html[data-theme="dark"]',  # documentation made with Sphinx themes
)
"""Selectors of elements that say that a page is dark."""

_UNSTYLED = (
    "This picture needs a page that keeps its style. GitHub's preview removes it: open the notebook in Jupyter, "
    "VS Code or Colab, or on nbviewer.org."
)
_STYLE = re.compile(r"(?<=<style>).*?(?=</style>)", re.DOTALL)
_DEFINITIONS = re.compile(r"<defs>.*?</defs>", re.DOTALL)
_DARK_MEDIA = "@media (prefers-color-scheme:dark)"
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^()\[\]]*[)\]])")


class TreeText(str):
    """Text that an interactive prompt shows as it is, without quotes and ``\\n``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self).rstrip("\n")


class SvgPicture(str):
    """The text of an SVG file. A notebook shows it as a picture."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<SVG of {len(self):,} characters: a notebook shows it, .save('graph.svg') of its inspection writes it>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/html": html_of(self), "image/svg+xml": str(self), "text/plain": repr(self)}


def html_of(svg: str) -> str:
    """An SVG made by gradviz as a piece of HTML. It can be inserted into any page, several times."""
    # The same picture has the same name in every run. Twice on a page, both copies have the same rules.
    name = f"gradviz-{sha256(svg.encode()).hexdigest()[:12]}"
    style = confined(_STYLE.search(svg)[0], f"#{name}") + f"#{name}>p{{display:none}}"  # type: ignore[index]
    svg = _STYLE.sub(lambda _: style, svg, count=1)
    return f'<div id="{name}" style="overflow-x:auto">\n<p>{_UNSTYLED}</p>\n{_with_own_names(svg, name)}</div>\n'


def confined(style_sheet: str, holder: str) -> str:
    """The style sheet with every rule limited to `holder`, and the dark theme limited to dark pages."""
    parts = []
    for prelude, block in _rules(style_sheet):
        if prelude.startswith("@font-face"):
            parts.append(f"{prelude}{{{block}}}")  # font names are global
        elif prelude == _DARK_MEDIA:
            on_dark_page = f":is({','.join(DARK_PAGES)}) {holder}"
            parts.extend(f"{_inside(on_dark_page, selector)}{{{rule}}}" for selector, rule in _rules(block))
        elif prelude.startswith("@"):
            parts.append(f"{prelude}{{{confined(block, holder)}}}")
        else:
            parts.append(f"{_inside(holder, prelude)}{{{block}}}")
    return "\n".join(parts)


def _rules(style_sheet: str) -> Iterator[tuple[str, str]]:
    """Each rule of the outermost level: the text before its braces and the text inside them."""
    depth = start = opened = 0
    for brace in re.finditer(r"[{}]", style_sheet):
        if brace[0] == "{":
            opened = brace.start() if not depth else opened
            depth += 1
        else:
            depth -= 1
            if not depth:
                yield style_sheet[start:opened].strip(), style_sheet[opened + 1 : brace.start()]
                start = brace.end()


def _inside(holder: str, selectors: str) -> str:
    return ",".join(f"{holder} {selector.strip()}" for selector in _COMMA_OUTSIDE_BRACKETS.split(selectors))


def _with_own_names(svg: str, prefix: str) -> str:
    """The SVG with `prefix` before every id that its definitions have."""
    definitions = _DEFINITIONS.search(svg)
    names = re.findall(r' id="([^"]+)"', definitions[0]) if definitions else []
    for name in names:
        svg = svg.replace(f' id="{name}"', f' id="{prefix}-{name}"').replace(f"url(#{name})", f"url(#{prefix}-{name})")
    return svg
