"""Files that ``gradviz check -o`` writes: pictures with the findings on their nodes, and captures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradviz.analysis.check.marked_findings import finding_notes, first_graph_with_alarm, with_findings
from gradviz.capture.capture_file import CAPTURE_SUFFIX
from gradviz.cli.terminal.printing import tell
from gradviz.cli.terminal.progress import working
from gradviz.errors import BadInput

if TYPE_CHECKING:
    from gradviz.analysis.finding import Finding
    from gradviz.capture.capture import Capture
    from gradviz.rendering.formats import Renderer, Subject


@dataclass(frozen=True)
class FindingPictures:
    """Files to write when the findings are known; their names are checked before the script runs."""

    renderers: dict[str, Renderer | None]
    """By path; None for a capture."""

    @classmethod
    def of(cls, paths: Sequence[str]) -> FindingPictures:
        """Raises `BadInput` for a path whose suffix is not that of a format."""
        from gradviz.file_output import output_format

        if "-" in paths:
            raise BadInput("standard output is for the findings", hint="name a file: -o net.svg")
        return cls(
            {path: None if Path(path).suffix == CAPTURE_SUFFIX else output_format(path).renderer() for path in paths}
        )

    def write(self, capture: Capture, findings: Iterable[Finding]) -> None:
        """Draw the graph with the most findings; for a ``.gradviz`` path, write the capture."""
        from gradviz.capture.capture_file import write_capture
        from gradviz.file_output import write_output

        subject = None
        for path, renderer in self.renderers.items():
            with working(f"writing {path}"):
                if renderer is None:
                    content: str | bytes = write_capture(capture)
                else:
                    subject = subject or checked_subject(capture, list(findings))
                    content = renderer.render(subject)
            write_output(path, content)
            tell(f"wrote {path}")


def checked_subject(capture: Capture, findings: Sequence[Finding]) -> Subject:
    """The content of a picture of a checked run; raises `BadInput` if there is no graph."""
    from gradviz.rendering.subjects import subject_of
    from gradviz.view.build import ViewOptions

    if not capture.graphs:
        raise BadInput(f"{capture.program.name} has no graph to draw", hint="the findings are all there is")
    marked = with_findings(capture, findings)
    return subject_of(marked, marked.graphs[first_graph_with_alarm(marked)], ViewOptions(), finding_notes(findings))
