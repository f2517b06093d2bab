"""From a source line to a link that opens it in an editor.

Links have the paths of one machine, so they are only made if the user names an editor or writes a template.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from gradviz.errors import BadInput, near_matches

EDITORS: dict[str, str] = {
    "vscode": "vscode://file{file}:{line}",
    "vscode-insiders": "vscode-insiders://file{file}:{line}",
    "vscodium": "vscodium://file{file}:{line}",
    "cursor": "cursor://file{file}:{line}",
    "windsurf": "windsurf://file{file}:{line}",
    "zed": "zed://file{file}:{line}",
    "pycharm": "pycharm://open?file={file}&line={line}",
    "idea": "idea://open?file={file}&line={line}",
    "sublime": "subl://open?url=file://{file}&line={line}",
    "textmate": "txmt://open?url=file://{file}&line={line}",
    "macvim": "mvim://open?url=file://{file}&line={line}",
    "emacs": "emacs://open?url=file://{file}&line={line}",
    "file": "file://{file}",
}
"""Editors with a URL scheme, some of them with an extension. ``file`` lets the system choose."""

_OR_TEMPLATE = "; a template such as vscode://file{file}:{line} works too"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


def editor_template(editor: str) -> str:
    """The template of an editor, or `editor` itself if it is a template such as ``my://open?f={file}&l={line}``.

    Raises `BadInput` with near matches for an unknown editor, and for a template without a scheme or ``{file}``.
    """
    if "{" not in editor and "/" not in editor:
        if editor.lower() not in EDITORS:
            raise BadInput(f"unknown editor {editor!r}", hint=f"{near_matches(editor.lower(), EDITORS)}{_OR_TEMPLATE}")
        return EDITORS[editor.lower()]
    if not editor.isprintable():
        raise BadInput(
            f"the link {editor!r} has unprintable characters", hint="write it like vscode://file{file}:{line}"
        )
    if not _SCHEME.match(editor):
        raise BadInput(f"the link {editor!r} begins with no scheme", hint="write it like vscode://file{file}:{line}")
    unknown = [name for name in _PLACEHOLDER.findall(editor) if name not in ("file", "line")]
    if unknown:
        raise BadInput(f"the link {editor!r} has an unknown {{{unknown[0]}}}", hint="it may have {file} and {line}")
    if "{file}" not in editor:
        raise BadInput(f"the link {editor!r} lacks {{file}}", hint="write it like vscode://file{file}:{line}")
    return editor


def source_link(template: str, file: str, line: int) -> str | None:
    """The link to a line; None for code without a file, such as a notebook's cell.

    Args:
        template: as `editor_template` returns it.
        file: an absolute path. In the link it is percent-encoded and starts with a slash on every system.
        line: counted from 1.
    """
    if not file.startswith("/") and not _DRIVE.match(file):
        return None
    path = quote(_bytes_of("/" + file.replace("\\", "/").lstrip("/")), safe="/:")
    return template.replace("{file}", path).replace("{line}", str(line))


def _bytes_of(path: str) -> bytes:
    """The bytes of a path. Lone surrogates represent bytes that are not UTF-8; Windows allows other surrogates."""
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogatepass")
