"""Text and pictures that show themselves at a prompt and in a notebook.

Problems solved here:

* JupyterLab draws ``image/svg+xml`` as an image: no tooltips, no selectable text. So the picture also comes as HTML,
  which JupyterLab, VS Code, Colab and the pages that nbconvert makes put into the page itself.
* There, a style sheet would rule every other picture and the page around it, and two arrow heads would share a name.
  So each rule is confined to the element that holds the picture, and each name begins with that element's.
* A notebook has a theme of its own, whatever the system's is. The dark rules follow the marks that notebooks put on
  their pages, not ``prefers-color-scheme``.
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
"""Elements of a page that say that it is dark."""

_UNSTYLED = (
    "This picture needs a page that keeps its style, which GitHub's preview does not: open the notebook in Jupyter, "
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
    """The text of an SVG file, which a notebook shows as a picture."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<SVG of {len(self):,} characters: a notebook shows it, .save('graph.svg') of its inspection writes it>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/html": html_of(self), "image/svg+xml": str(self), "text/plain": repr(self)}


def html_of(svg: str) -> str:
    """An SVG of ours as a piece of HTML that can stand in any page, several times, beside others."""
    # The same picture has the same name, in every run; twice on a page, both have the same rules.
    name = f"gradviz-{sha256(svg.encode()).hexdigest()[:12]}"
    style = confined(_STYLE.search(svg)[0], f"#{name}") + f"#{name}>p{{display:none}}"  # type: ignore[index]
    svg = _STYLE.sub(lambda _: style, svg, count=1)
    return f'<div id="{name}" style="overflow-x:auto">\n<p>{_UNSTYLED}</p>\n{_with_own_names(svg, name)}</div>\n'


def confined(style_sheet: str, holder: str) -> str:
    """The style sheet with every rule applying inside `holder` only; a dark theme on dark pages."""
    parts = []
    for prelude, block in _rules(style_sheet):
        if prelude.startswith("@font-face"):
            parts.append(f"{prelude}{{{block}}}")  # a font has a name of its own
        elif prelude == _DARK_MEDIA:
            on_dark_page = f":is({','.join(DARK_PAGES)}) {holder}"
            parts.extend(f"{_inside(on_dark_page, selector)}{{{rule}}}" for selector, rule in _rules(block))
        elif prelude.startswith("@"):
            parts.append(f"{prelude}{{{confined(block, holder)}}}")
        else:
            parts.append(f"{_inside(holder, prelude)}{{{block}}}")
    return "\n".join(parts)


def _rules(style_sheet: str) -> Iterator[tuple[str, str]]:
    """Each rule of the outermost level: what stands before its braces, and what stands in them."""
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
    """The SVG with `prefix` in front of every name that its definitions have."""
    definitions = _DEFINITIONS.search(svg)
    names = re.findall(r' id="([^"]+)"', definitions[0]) if definitions else []
    for name in names:
        svg = svg.replace(f' id="{name}"', f' id="{prefix}-{name}"').replace(f"url(#{name})", f"url(#{prefix}-{name})")
    return svg
