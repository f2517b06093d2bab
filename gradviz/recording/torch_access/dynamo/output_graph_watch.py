"""Goes around one method of Dynamo's `OutputGraph`, from the moment at which the program imports Dynamo."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from gradviz.recording.torch_access.import_notice import ImportNotice
from gradviz.recording.torch_access.name_lookup import find
from gradviz.recording.torch_access.patches import Replacement

_MODULE = "torch._dynamo.output_graph"


class OutputGraphWatch(ABC):
    """Notes calls of the method between `start` and `stop`; a defect while noting must not reach the program."""

    def __init__(self, method: str, note_defect: Callable[[Exception], None]) -> None:
        self._note_defect = note_defect
        self._switch = Replacement(f"{_MODULE}.OutputGraph.{method}")
        self._notice = ImportNotice(_MODULE, self._install)

    def start(self) -> None:
        """Begin now, or when the program imports Dynamo."""
        self._notice.start()

    def stop(self) -> None:
        """Put Dynamo and the import system back; what was noted is kept."""
        self._notice.stop()
        self._switch.take_back()

    def _install(self) -> None:
        if find(self._switch.path) is not None:
            self._switch.put(self._noting)

    @abstractmethod
    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """What is called in place of the method, and calls it."""
