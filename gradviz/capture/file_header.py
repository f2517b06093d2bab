"""The first line of a file of ours: what the file is and the version of its format, for people and ``file``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradviz.errors import BadCapture, BadInput

_LONGEST = 40


@dataclass(frozen=True)
class FirstLine:
    """That of one sort of file."""

    what: str
    """``capture``: in the line itself, and in what is said about it."""
    version: int
    """The newest format that this gradviz reads, and the one that it writes."""
    make_again: str
    """A hint for files that are damaged."""

    def write(self) -> bytes:
        """The line, with its line feed."""
        return self._magic + str(self.version).encode() + b"\n"

    def begins(self, head: bytes) -> bool:
        """Whether a file that begins with `head` is of this sort, of any version and in any state."""
        return head.startswith(self._magic)

    def end(self, data: bytes, name: str) -> int:
        """Where the rest of `data`, the file called `name`, begins.

        Raises:
            BadCapture: the line is damaged, or names a version that a newer gradviz wrote.
        """
        line, line_feed, _ = data[:_LONGEST].partition(b"\n")
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
    """Everything in the file at `path`; `BadInput` says in one line why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {str(path)!r}: {error.strerror}") from error
    except ValueError as error:  # a zero byte in its name
        raise BadInput(f"cannot read {str(path)!r}: {error}", hint="no file can have such a name") from error
