"""The first line of gradviz's files: the file type and the version of its format, for people and ``file``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradviz.errors import BadCapture, BadInput

_MAX_LENGTH = 40


@dataclass(frozen=True)
class FirstLine:
    """The first line of one type of file."""

    what: str
    """The file type, ``capture``: in the line itself, and in messages."""
    version: int
    """The newest format that this gradviz reads, and the one that it writes."""
    make_again: str
    """The hint for damaged files."""

    def write(self) -> bytes:
        """The line, with its line feed."""
        return self._magic + str(self.version).encode() + b"\n"

    def begins(self, head: bytes) -> bool:
        """Whether a file that begins with `head` has this type, with any version and even if damaged."""
        return head.startswith(self._magic)

    def end(self, data: bytes, name: str) -> int:
        """The position after the first line in `data`, the content of the file called `name`.

        Raises:
                    BadCapture: the line is damaged, or has a version that a newer gradviz wrote.
        """
        line, line_feed, _ = data[:_MAX_LENGTH].partition(b"\n")
        version = line[len(self._magic) :]
        if not line_feed or not version.isdigit() or int(version) == 0:
            raise BadCapture(
                f"{name!r} is damaged: its first line does not end in a format version", hint=self.make_again
            )
        if int(version) > self.version:
            raise BadCapture(
                f"{name!r} has {self.what} format {int(version)}, and this gradviz reads up to {self.version}",
                hint="upgrade gradviz to open it",
            )
        return len(line) + 1

    @property
    def _magic(self) -> bytes:
        return f"gradviz {self.what} ".encode()


# Reads whole files.


def content_of(path: Path) -> bytes:
    """The content of the file at `path`; `BadInput` says in one line why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {str(path)!r}: {error.strerror}") from error
    except ValueError as error:  # a zero byte in its name
        raise BadInput(f"cannot read {str(path)!r}: {error}", hint="no file can have such a name") from error
