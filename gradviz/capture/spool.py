"""The spool of a run: a capture of what was recorded so far, kept in a file in case the process ends suddenly.

A process that is killed, by SIGTERM, SIGKILL or for its memory, can write nothing any more. So a recording that goes on
after a recorded backward call writes what it has into its spool, beside the output that the command is to write:
``run.unfinished-4711.gradviz`` for ``run.gradviz`` or ``run.svg``, written by process 4711. The contract:

- A spool is a whole capture file at any time, and any command opens it. Its outcome is ``interrupted``, and a
  disclosure says after which backward call it was written.
- `Spool.offer` is called after each recorded backward call. It writes only as often as all writing takes at most
  `ALWAYS_ALLOWED` seconds and a part of the run's time, `SHARE`. So what was recorded between the last write and a
  sudden end may be missing. `Spool.write` always writes: nothing more will be recorded, or the process is about to end.
- Only the process that made the `Spool` writes it: a forked child has the object, and no spool of its own. Each
  process has another file, also if several of them (ranks of one training) are to write the same output.
- `Spool.remove` deletes the file. Whoever has written the output calls it; after any other end the file stays.
- `spools_beside` finds the files of an output, those of running processes included.
- If another thread adds to the recording while it is read, `make` may return None: the next offer tries again.
- A failure to write never reaches the program: it is reported once to `warn`, and no further write is tried. The older
  content of the file stays then.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import CAPTURE_SUFFIX, write_capture
from gradviz.capture.whole_file import write_whole_file

ALWAYS_ALLOWED = 0.1
SHARE = 0.02
"""Writing the spool of a run may take this many seconds, and this part of the time since the first write."""

_MARK = ".unfinished-"
_NUMBER = re.compile(rf"{re.escape(_MARK)}(\d+)(?:-\d+)?{re.escape(CAPTURE_SUFFIX)}")


class Spool:
    """The spool of this process for the output at `output`; no file is made before the first write."""

    def __init__(self, output: Path, warn: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.path: Path | None = None
        """The file, once it is written."""
        self.warn = warn
        """Prints a sentence for the user."""
        self._output = output.absolute()  # the program may change its working directory
        self._clock = clock
        self._process = os.getpid()
        self._began: float | None = None
        self._spent = 0.0
        self._has_failed = False
        self._lock = threading.RLock()  # a handler of a signal may end the process in the middle of a write

    def offer(self, make: Callable[[], Capture | None]) -> None:
        """Write the capture that `make` returns, if that may take time now; otherwise `make` is not called."""
        if not self._lock.acquire(blocking=False):
            return  # another thread writes now
        try:
            lasted = 0.0 if self._began is None else self._clock() - self._began
            if self._spent <= ALWAYS_ALLOWED + SHARE * lasted:
                self.write(make)
        finally:
            self._lock.release()

    def write(self, make: Callable[[], Capture | None]) -> bool:
        """Write the capture that `make` returns; False if there is none, this is another process, or writing failed."""
        if self._has_failed or os.getpid() != self._process:
            return False
        with self._lock:
            began = self._clock()
            self._began = began if self._began is None else self._began
            path = self.path or self._output
            try:
                path = self.path or _free_path(self._output, self._process)
                capture = make()
                if capture is None:
                    return False
                write_whole_file(path, write_capture(capture))
            except Exception as error:  # must not reach the program
                self._has_failed = True
                reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
                self.warn(f"cannot write {str(path)!r}: {reason}; if the script ends suddenly, the recording is lost")
                return False
            finally:
                self._spent += self._clock() - began
            self.path = path
            return True

    def remove(self) -> None:
        """Delete the file; not in a forked child, which does not own it."""
        if self.path is not None and os.getpid() == self._process:
            self.path.unlink(missing_ok=True)
            self.path = None


@dataclass(frozen=True)
class FoundSpool:
    """A spool beside an output."""

    path: Path
    process: int
    is_written_still: bool
    """Whether the process that writes it seems to be running."""


def words_for(spools: Sequence[FoundSpool]) -> str:
    """One line about the spools beside an output, of which there is at least one."""
    first, *others = sorted(spools, key=lambda spool: spool.is_written_still)
    names = f"{first.path} and {len(others)} more like it" if others else str(first.path)
    if first.is_written_still:
        return f"{names}: recorded so far by a process that is still running ({first.process})"
    hold, them = ("hold", "they open") if others else ("holds", "it opens")
    ending = (
        "earlier runs had recorded when they ended suddenly" if others else "a run recorded before it ended suddenly"
    )
    return f"{names} {hold} what {ending}; {them} like any recording, and can be removed"


def spools_beside(output: Path) -> list[FoundSpool]:
    """The spools of other processes for this output, oldest name first; none if its folder cannot be read."""
    found = []
    try:
        names = sorted(path.name for path in output.parent.iterdir())
    except OSError:
        return []  # whoever needs the folder itself says what is wrong with it
    for name in names:
        match = _NUMBER.fullmatch(name.removeprefix(output.stem)) if name.startswith(output.stem + _MARK) else None
        if match is not None:
            process = int(match[1])
            found.append(FoundSpool(output.parent / name, process, _is_running(process)))
    return found


def _is_running(process: int) -> bool:
    if os.name != "posix" or process == os.getpid():
        return False  # signal 0 would end it; and this process has written none yet
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # of another user
    return True


def _free_path(output: Path, process: int) -> Path:
    """A name that no earlier process with the same number has left, as happens in containers."""
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        path = output.with_name(f"{output.stem}{_MARK}{process}{suffix}{CAPTURE_SUFFIX}")
        if not path.exists():
            return path
    return path
