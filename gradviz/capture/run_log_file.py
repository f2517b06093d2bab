"""The run log file: written record by record while a program trains, and readable even if it is cut short.

The file, from its first byte:

====================== ============================================================================
``gradviz run log 1``  and a line feed: the file type and the format version, for people and ``file``
records                one after the other: first a `RunHeader`, then `StepFigures`, at last a `RunEnd`
====================== ============================================================================

Each record:

========== ========================================================================================
1 byte     its type: ``H``, ``S`` or ``E``
4 bytes    unsigned, big endian: length of the payload
4 bytes    unsigned, big endian: CRC-32 of these five bytes
4 bytes    unsigned, big endian: CRC-32 of the payload
payload    one MessagePack map from field name to value; a field with its default value is left out
========== ========================================================================================

The length has its own checksum, so that a file which was cut short (its program was killed, the disk was full) is
distinguished from a damaged one. In both cases the steps before that position are read, and a message says that others
are missing. Readers ignore records of other types.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import isinf
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from gradviz.capture.encoding import encoded
from gradviz.capture.file_header import FirstLine, content_of
from gradviz.capture.run_log import RunEnd, RunHeader, RunLog, StepFigures, floats, integers
from gradviz.capture.wrong_value import with_value
from gradviz.errors import BadCapture
from gradviz.graph.bounded_types import MAX_COUNT
from gradviz.safe_text import one_line

RUN_LOG_VERSION = 1
"""Increased when an older gradviz would misread a new file.

1   first format
"""

_START, _CHECKSUM = struct.Struct(">cI"), struct.Struct(">I")
_FRAME_SIZE = _START.size + 2 * _CHECKSUM.size
_KINDS: dict[bytes, type[msgspec.Struct]] = {b"H": RunHeader, b"S": StepFigures, b"E": RunEnd}
_WATCH_AGAIN = "write it again with gradviz.watch()"
_FIRST_LINE = FirstLine("run log", RUN_LOG_VERSION, _WATCH_AGAIN)


class RunLogWriter:
    """Writes a run log to the file at `path`; each record is passed to the operating system at once.

    The file is opened, and an older one replaced, at the first step: a program that fails earlier does not destroy
    yesterday's log. Raises `OSError` wherever the system does.
    """

    def __init__(self, path: Path, header: RunHeader) -> None:
        self.path = path
        self._header = header
        self._file: BinaryIO | None = None

    def __str__(self) -> str:
        return str(self.path)

    def add(self, figures: StepFigures) -> None:
        """Append one step. If that fails, the file is closed, and its content stays readable."""
        beginning = b"" if self._file is not None else self._beginning()
        with self._closed_on_failure():
            _write_whole(self._opened(), beginning + record(b"S", figures))

    def close(self, end: RunEnd) -> None:
        """Append the end, and close the file."""
        if self._file is None:
            return
        with self._closed_on_failure():
            _write_whole(self._file, record(b"E", end))
        self._file.close()

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._file is not None:
                self._file.close()
            raise

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("wb", buffering=0)
        return self._file

    def _beginning(self) -> bytes:
        return _FIRST_LINE.write() + record(b"H", self._header)


def _write_whole(file: BinaryIO, data: bytes) -> None:
    """Write the whole record or nothing: records after a partial one could not be read."""
    written, start = 0, os.fstat(file.fileno()).st_size
    try:
        while written < len(data):
            written += file.write(data[written:]) or 0
    except OSError:
        # A pipe or a device cannot be truncated; report the first error, not this one.
        with suppress(OSError):
            os.ftruncate(file.fileno(), start)
        raise


def record(kind: bytes, content: msgspec.Struct) -> bytes:
    """One record of the file."""
    payload = encoded(content, msgspec.msgpack.encode)
    start = _START.pack(kind, len(payload))
    return b"".join((start, _CHECKSUM.pack(zlib.crc32(start)), _CHECKSUM.pack(zlib.crc32(payload)), payload))


def is_run_log(head: bytes) -> bool:
    """Whether a file that begins with `head` is a run log, of any version and even if damaged."""
    return _FIRST_LINE.begins(head)


def load_run_log(path: Path) -> RunLog:
    """The run log in the file at `path`."""
    return read_run_log(content_of(path), str(path))


def read_run_log(data: bytes, name: str) -> RunLog:
    """The run log in `data`, up to the first record that cannot be read; `RunLog.cut` says why.

    Raises:
            BadCapture: the file called `name` is not a run log, or nothing in it can be read; one line says why.
    """
    reader = _Records(data, _end_of_first_line(data, name))
    header = reader.next()
    if not isinstance(header, RunHeader):
        raise BadCapture(f"{name!r} {reader.cut or 'is damaged: it does not begin with a header'}", hint=_WATCH_AGAIN)
    for parameter in header.parameters:
        if parameter.count > MAX_COUNT:
            what = f"{one_line(parameter.name)} of shape {list(parameter.shape)} is larger than any memory"
            raise BadCapture(f"{name!r} is damaged: {what}", hint=_WATCH_AGAIN)
    steps: list[StepFigures] = []
    end = None
    while end is None and (found := reader.next()) is not None:
        if isinstance(found, RunEnd):
            end = found
            continue
        fault = "another header" if isinstance(found, RunHeader) else _fault_in(found, header, steps)
        if fault is not None:
            after = f"step {steps[-1].step}" if steps else "its header"
            reader.cut = f"is damaged after {after}: {one_line(fault)}"
            break
        steps.append(found)
    if end is not None and reader.rest:
        reader.cut = f"is damaged: {reader.rest:,} bytes follow its end"
    return RunLog(header, tuple(steps), end, reader.cut)


class _Records:
    """Reads record after record, to the end or to the first record that cannot be read."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = memoryview(data)
        self._position = start
        self.cut: str | None = None
        """Why reading stopped before the end of the file."""

    @property
    def rest(self) -> int:
        """Bytes that were not read."""
        return len(self._data) - self._position

    def next(self) -> Any:
        """The next record of a known type; None where there is no more."""
        while self.rest and self.cut is None:
            kind, payload = self._raw()
            if payload is None:
                return None
            if kind not in _KINDS:
                continue
            try:
                return msgspec.msgpack.decode(payload, type=_KINDS[kind])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                self.cut = f"is damaged: {with_value(str(error), payload)}"
        return None

    def _raw(self) -> tuple[bytes, memoryview | None]:
        if self.rest < _FRAME_SIZE:
            return self._cut_short()
        kind, length = _START.unpack_from(self._data, self._position)
        (start_checksum,) = _CHECKSUM.unpack_from(self._data, self._position + _START.size)
        (checksum,) = _CHECKSUM.unpack_from(self._data, self._position + _START.size + _CHECKSUM.size)
        if zlib.crc32(self._data[self._position : self._position + _START.size]) != start_checksum:
            self.cut = f"is damaged at byte {self._position:,}"
            return kind, None
        if self.rest < _FRAME_SIZE + length:
            return self._cut_short()
        payload = self._data[self._position + _FRAME_SIZE :][:length]
        if zlib.crc32(payload) != checksum:
            self.cut = f"is damaged after byte {self._position:,}: a checksum does not match"
            return kind, None
        self._position += _FRAME_SIZE + length
        return kind, payload

    def _cut_short(self) -> tuple[bytes, None]:
        self.cut = f"is cut short: its last {self.rest:,} bytes are not a complete record"
        return b"", None


def _fault_in(figures: StepFigures, header: RunHeader, before: list[StepFigures]) -> str | None:
    """What is impossible in a step, if anything: a row that does not fit the header, or a number out of its bounds."""
    count, where = len(header.parameters), f"step {figures.step}"
    if before and figures.step <= before[-1].step:
        return f"{where} follows step {before[-1].step}"
    for name in ("norms", "weight_norms", "zeros", "nans", "infs"):
        row, is_left_out = getattr(figures, name), name not in ("norms", "weight_norms")
        if len(row) != 8 * count and not (is_left_out and not row):
            return f"{where} has {len(row)} bytes of {name} for {count} parameters"
    for index in (index for group in figures.unmeasured.values() for index in group):
        if index >= count:
            return f"{where} refers to parameter {index} of {count}"
    for name in ("norms", "weight_norms"):
        for index, norm in enumerate(floats(getattr(figures, name))):
            if norm < 0 or isinf(norm):
                return f"{where} has {norm} among its {name}, at {header.parameters[index].name}"
    counts = (integers(row, count) for row in (figures.zeros, figures.nans, figures.infs))
    for parameter, of_one in zip(header.parameters, zip(*counts, strict=True), strict=True):
        if min(of_one) < 0 or sum(of_one) > parameter.count:
            zeros, nans, infs = of_one
            special = f"{zeros} zeros, {nans} NaN and {infs} Inf"
            return f"{where} has {special} in the {parameter.count} elements of {parameter.name}"
    return None


def _end_of_first_line(data: bytes, name: str) -> int:
    """The position of the first record, if this gradviz can read the file."""
    if not is_run_log(data):
        kind = "is empty" if not data else "is not a run log of gradviz"
        raise BadCapture(f"{name!r} {kind}", hint="gradviz.watch(model) writes one")
    return _FIRST_LINE.end(data, name)
