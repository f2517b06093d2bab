"""Puts script, style and data of the page into one file that loads nothing else.

Problems solved here:

* The data comes from other people's programs. It is compressed and in base64, so no name can end an element. The script
  makes text of it, never markup.
* The content security policy lists the one script and the one style by their hashes. Nothing else may run or load.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from zlib import compressobj

import msgspec

from gradviz.capture.encoding import encoded
from gradviz.rendering.page.document import PageDetails, PageDocument
from gradviz.rendering.page.style import colours_and_shapes
from gradviz.safe_text import json_printable, one_line

ITEMS_IN_A_PIECE = 2_000
"""The number of items whose details are unpacked together."""

PageContent = tuple[PageDocument, Sequence[PageDetails]]
"""The data of the picture of a graph, and the details of its items."""


def page_file(contents: Iterable[PageContent], version: int | None = None) -> str:
    """The whole file.

    Args:
        contents: the graphs to show. The page unpacks a graph when it is looked at.
        version: the number of a page that is served. The page asks for ``version`` beside its own address, and reloads
            itself when that number changes. Without it, the page asks for nothing.
    """
    first, data = None, []
    for index, (document, details) in enumerate(contents):
        first = first or document
        data.append(_data(f'class="data" data-graph="{index}"', document))
        for start in range(0, len(details), ITEMS_IN_A_PIECE):
            piece = details[start : start + ITEMS_IN_A_PIECE]
            data.append(_data(f'class="details" data-graph="{index}" data-items="{ITEMS_IN_A_PIECE}"', piece))
    assert first is not None, "a page shows something"
    scripts, style = [asset("page.js")], colours_and_shapes() + asset("page.css")
    number, connections = "", "'none'"
    if version is not None:
        scripts.append(asset("served.js"))
        number, connections = f'<meta name="gradviz-version" content="{version}">\n', "'self'"
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash_of, scripts))}; style-src {_hash_of(style)}; "
        f"connect-src {connections}; font-src data:; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n{number}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(one_line(first.name))} · gradviz</title>\n"
        f"<style>{style}</style>\n</head>\n<body>\n{asset('page.html')}{_without_script(first)}"
        + "".join(data)
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body>\n</html>\n"
    )


def _data(attributes: str, content: object) -> str:
    text = packed(json_printable(encoded(content, msgspec.json.encode).decode()).encode())
    return f'<script {attributes} type="application/octet-stream">{text}</script>\n'


def _without_script(document: PageDocument) -> str:
    """The text that the page shows if scripts are not allowed."""
    lines = (
        document.name,
        document.facts,
        document.error,
        *document.notes,
        "To show the graph, this page needs JavaScript.",
    )
    return f"<noscript>{''.join(f'<p>{escape(one_line(line))}</p>' for line in lines if line)}</noscript>\n"


def _hash_of(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode('ascii')}'"


# The files that the page is made of, and the compression of its data.

FOLDER = files("gradviz.rendering.page") / "assets"


LEVEL = 7
"""Of compression: a third of the time of the highest level, and 5 % larger."""


def asset(name: str) -> str:
    """The text of one of the files."""
    return (FOLDER / name).read_text(encoding="utf-8")


def packed(content: bytes) -> str:
    """In base64, deflated without a header: browsers call this ``deflate-raw``."""
    packer = compressobj(LEVEL, wbits=-15)
    return b64encode(packer.compress(content) + packer.flush()).decode("ascii")
