"""In which lines of the program the main thread spends its time: another thread looks at its stack now and then."""

from __future__ import annotations

from collections import Counter

from gradviz.capture.rank_end import BusyLine
from gradviz.recording.ranks.code_lines import code_line
from gradviz.recording.ranks.standstill import is_in_engine, is_of_collectives, is_of_gradviz, main_stack
from gradviz.recording.run.file_kinds import is_library_file

MAX_LINES = 8


class LineTimes:
    """Seconds for each line, without those in backward, in collectives, and in gradviz."""

    def __init__(self) -> None:
        self._seconds: Counter[tuple[str, int, str]] = Counter()

    def look(self, seconds: float) -> None:
        """So long since the last look."""
        frames = main_stack()
        if not frames or is_of_gradviz(frames[0][0]) or is_in_engine(frames):
            return
        if any(is_of_collectives(file) for file, _, _ in frames):
            return
        own = next((each for each in frames if not is_of_gradviz(each[0]) and not is_library_file(each[0])), None)
        if own is not None and not own[0].startswith("<"):
            self._seconds[own] += seconds  # type: ignore[assignment]

    def lines(self) -> tuple[BusyLine, ...]:
        """The lines that took most."""
        return tuple(BusyLine(code_line(*line), seconds) for line, seconds in self._seconds.most_common(MAX_LINES))
