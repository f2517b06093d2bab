"""The page inside a notebook.

Problems solved here:

* A notebook page is other people's page: neither may change the other, and the data has other people's names. So the
  page is in a frame with an origin of its own. All of it is in the notebook, which can be opened again without Python.
* Notebooks grow, so the page is compressed: to about half of the size of the file.
* Where frames are not allowed (an untrusted notebook, GitHub) or frames may run no scripts, a still picture is visible:
  it is below the frame, which is transparent until the page is ready.
* A frame does not know the height of its content, so its height follows that of the picture.
* Only the notebook knows whether it is dark. It tells the frame by ``color-scheme``, which sets the system theme there.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from html import escape

from gradviz.rendering.notebook import DARK_PAGES, SvgPicture
from gradviz.rendering.page.html_file import asset, packed

LOWEST, HIGHEST = 420, 600
"""Of frames, in pixels: the panel must have space, and the frame must fit on a screen."""
_BARS = 110
"""The height of the page above and below the graph."""
MAX_IN_A_NOTEBOOK = 1_500_000
"""Characters of a page: a notebook with larger ones opens and saves slowly."""
_ALLOWED = "allow-scripts allow-downloads allow-top-navigation-to-custom-protocols"
"""The last one is for links that open an editor."""
_HEIGHT = re.compile(r'<svg [^>]*\bheight="([\d.]+)"')


class NotebookPage(str):
    """The text of an HTML page. A notebook shows it in a frame."""

    def __new__(cls, page: str, draw: Callable[[], str]) -> NotebookPage:
        """`draw` makes the SVG that is shown where the page cannot be shown."""
        made = super().__new__(cls, page)
        made._draw = draw
        return made

    _draw: Callable[[], str]

    def __repr__(self) -> str:
        return f"<page of {len(self):,} characters: a notebook shows it, .show() of its inspection opens it>"

    @property
    def fits_in_a_notebook(self) -> bool:
        """False for a page so large that a notebook shows a picture instead."""
        return len(self._framed) <= MAX_IN_A_NOTEBOOK

    @cached_property
    def _picture(self) -> SvgPicture:
        return SvgPicture(self._draw())

    @cached_property
    def _framed(self) -> str:
        return in_a_frame(self, self._picture)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        shown = {"text/html": self._framed} if self.fits_in_a_notebook else self._picture._repr_mimebundle_()
        return {"image/svg+xml": str(self._picture), **shown, "text/plain": repr(self)}


def in_a_frame(page: str, picture: str) -> str:
    """The page as a piece of HTML that can be inserted into any other, several times; the picture if it cannot run."""
    name = f"gradviz-{sha256(page.encode()).hexdigest()[:12]}"
    found = _HEIGHT.search(picture)
    height = round(min(max(float(found[1]) + _BARS if found else 0, LOWEST), HIGHEST))
    frame = asset("frame.html").replace("{page}", packed(page.encode()))
    return (
        f'<div id="{name}">\n<style>{_style(f"#{name}", height)}</style>\n'
        f'<iframe sandbox="{_ALLOWED}" allow="clipboard-write" title="autograd graph" '
        f'height="{height}" srcdoc="{escape(frame)}"></iframe>\n'
        f'<img alt="autograd graph, as a still picture" '
        f'src="data:image/svg+xml;base64,{b64encode(picture.encode()).decode("ascii")}">\n</div>\n'
    )


def _style(holder: str, height: int) -> str:
    return (
        f"{holder}{{display:grid}}\n"
        f"{holder}>*{{grid-area:1/1;min-width:0;color-scheme:light}}\n"
        f":is({','.join(DARK_PAGES)}) {holder}>*{{color-scheme:dark}}\n"
        f"{holder}>iframe{{z-index:1;box-sizing:border-box;width:100%;height:{height}px;border:1px solid #8884}}\n"
        f"{holder}>img{{max-width:100%;justify-self:center}}\n"
        f"{holder}>iframe~img{{max-height:{height}px}}\n"
    )
