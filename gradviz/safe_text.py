"""Makes text from programs and captures safe to show, whatever it is shown in: a terminal, a page, a picture, a log.

A name, a line of code or a message may hold any character, and a capture may come from a stranger. Some characters act
on what shows them instead of being shown:

- control characters (C0, DEL, C1 and NUL) move the cursor of a terminal, change its title, or end a line;
- separators of lines and paragraphs end a line for some readers and not for others;
- bidirectional overrides show text in another order than it has; other invisible characters make two names look alike;
- lone surrogates cannot be written as UTF-8, and XML allows neither them nor control characters.

Each becomes a question mark. Formats for programs keep them instead: `json_escaped` writes each as JSON's own escape.
What a format itself gives a meaning to, such as ``<`` in HTML, is escaped by the code for that format.
"""

from __future__ import annotations

import re

_ACTING_RANGES = (
    (0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F),  # control characters, without the tab and the line feed
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x0600, 0x0605), (0x06DD, 0x06DD), (0x070F, 0x070F),
    (0x0890, 0x0891), (0x08E2, 0x08E2), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),  # zero width, line separators, bidirectional controls
    (0x2800, 0x2800), (0x3164, 0x3164), (0xD800, 0xDFFF), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),
    (0xFFFE, 0xFFFF),
    (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),  # tags and variation selectors, which can hide whole messages
)  # fmt: skip
_ACTING = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in _ACTING_RANGES)
_ACTING_CHARACTER = re.compile(f"[{_ACTING}]")
# What gradviz itself writes to a terminal: colours, and links of source lines.
_STYLING_OR_ACTING = re.compile(f"(\x1b\\[[0-9;]*m|\x1b\\]8;;[^{_ACTING}\n]*\x1b\\\\)|[{_ACTING}]")
# GitHub Actions and Azure Pipelines read commands from what a build prints.
_BUILD_COMMAND = re.compile(r"^((?:\s|\x1b\[[0-9;]*m)*:)(?=:)|(#)(?=#(?:vso)?\[)", re.MULTILINE)
_JSON_ESCAPED_CONTROL = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u00[01][0-9a-f]|u007f|[bfr])")


def printable(text: str) -> str:
    """`text` with its tabs and line feeds, and a question mark for each other character that is not shown but acts."""
    return text if text.isascii() and text.isprintable() else _ACTING_CHARACTER.sub("?", text)


def one_line(text: str) -> str:
    """`text` as one line of printable characters; a run of white space is one space."""
    return printable(" ".join(text.split()))


def terminal_text(text: str) -> str:
    """Text for a terminal or the log of a build: colours and links stay, and nothing in it is a command to a build.

    Data is made `printable` before it is coloured: so the only colours and links here are gradviz's own.
    """
    if "\x1b" in text:
        shown = _STYLING_OR_ACTING.sub(lambda found: found[1] or "?", text)
    else:
        shown = _ACTING_CHARACTER.sub("?", text)
    return without_build_commands(shown)


def without_build_commands(text: str) -> str:
    """`text` with a space in each place where a build that logs it would read a command."""
    if "::" not in text and "##" not in text:
        return text
    return _BUILD_COMMAND.sub(lambda found: f"{found[1] or found[2]} ", text)


# JSON: between the quotation marks of its texts, and nowhere else, a document may hold any of these characters.


def json_escaped(document: str) -> str:
    """A JSON document with every such character as an escape, and no command to a build: as data it is the same."""
    return _ACTING_CHARACTER.sub(_as_json_escape, document).replace("##", "#\\u0023")


def json_printable(document: str) -> str:
    """A JSON document whose texts are `printable`, for documents that are shown and not read by programs."""
    without_escapes = _JSON_ESCAPED_CONTROL.sub(r"\1?", document) if "\\" in document else document
    return _ACTING_CHARACTER.sub("?", without_escapes)


def _as_json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
