"""Keeps a recording in a temporary file if a later step of the command fails."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradviz.capture.capture_file import CAPTURE_SUFFIX, write_capture
from gradviz.cli.captures.source import Source, SourceOptions
from gradviz.errors import GradvizError
from gradviz.file_output import write_output


@contextmanager
def keeping_recording(source: Source, options: SourceOptions) -> Iterator[None]:
    """If the block fails, write the recording of the script to a temporary file, and add its path to the error.

    The script may have run for hours before a full disk or a wrong ``--unfold`` is noticed. The spool of the run is
    removed when the output is written, or the recording is kept.
    """
    try:
        yield
    except GradvizError as error:
        if source.job is not None:
            error.add_hint(f"what the {len(source.job.ranks)} processes recorded is kept in {source.job.folder.path}")
            raise
        if not options.is_capture and not _keep(source, options, error):
            if source.spool is not None and source.spool.path is not None:
                error.add_hint(f"what was recorded while the script ran is kept in {source.spool.path}")
            raise
        _remove_spool(source)
        raise
    _remove_spool(source)


def _remove_spool(source: Source) -> None:
    if source.spool is not None:
        source.spool.remove()
    if source.job is not None:
        source.job.remove()


def _keep(source: Source, options: SourceOptions, error: GradvizError) -> bool:
    stem = Path(options.name).stem or "run"
    path = Path(tempfile.gettempdir()) / f"gradviz-{stem}-{os.getpid()}{CAPTURE_SUFFIX}"
    try:
        write_output(path, write_capture(source.capture))
    except GradvizError:
        return False  # cannot be written there either; the first error is enough
    error.add_hint(f"the recording is kept in {path}")
    return True
