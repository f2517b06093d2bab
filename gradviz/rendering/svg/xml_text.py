"""Words as the text of an XML element."""

from __future__ import annotations

from xml.sax.saxutils import escape

from gradviz.safe_text import printable, without_build_commands


def xml_text(words: str) -> str:
    """The words escaped, in printable characters, and without commands to a build that logs the file."""
    return escape(without_build_commands(printable(words)))
