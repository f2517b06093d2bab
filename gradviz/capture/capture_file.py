"""The capture file: one recorded run, for later and for other machines.

The file, from its first byte:

====================== ============================================================================
``gradviz capture 1``  and a line feed: the file type and the format version, for people and ``file``
8 bytes                unsigned, big endian: length of the payload
4 bytes                unsigned, big endian: CRC-32 of the payload
payload                zlib stream of one MessagePack map, the `Capture`; nothing follows it
====================== ============================================================================

Structures are maps from field name to value, and a field with its default value is left out; `capture_schema` describes
them as JSON Schema. Line numbers, the inner keys of ``sources``, are integers in MessagePack. The length and the
checksum come first: so a file that was cut short by a full disk or a bad copy is never mistaken for one that a newer
gradviz wrote, whatever the damage.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from gradviz.capture.capture import Capture
from gradviz.capture.decoded_size import max_decoded_size
from gradviz.capture.encoding import encoded
from gradviz.capture.file_header import FirstLine, content_of
from gradviz.capture.replica_log import check_replicas
from gradviz.capture.run_log_file import is_run_log
from gradviz.capture.wrong_value import with_value
from gradviz.errors import BadCapture
from gradviz.graph.invariants import InvalidGraph, check_call_log, check_graph
from gradviz.graph.tensor_invariants import check_facts
from gradviz.safe_text import one_line

FORMAT_VERSION = 1
"""Increased when an older gradviz would misread a new file. A new field with a default does not increase it: older
readers ignore it, newer readers fill it in.

1   first format
"""

CAPTURE_SUFFIX = ".gradviz"

_FRAME = struct.Struct(">QI")
# The default level takes five times as long for a file that is a tenth smaller.
_COMPRESSION_LEVEL, _NO_COMPRESSION = 1, 0
_USUAL_WINDOW, _SMALL_WINDOW = 15, 12
# A file made to exhaust memory grows a thousandfold when it is decompressed; recordings of long loops grow twentyfold.
_ALWAYS_ALLOWED, _MAX_GROWTH = 32 << 20, 40
# And it grows again when it is decoded. A small file must not need more memory than an ordinary laptop has; what it may
# need grows from there without a jump, so that a file of one byte more may not need gigabytes more.
_SMALL, _MEMORY_FOR_SMALL, _MAX_GROWTH_IN_MEMORY = 10_000_000, 1_900_000_000, 600
_MAX_TOLD = 240
"""Characters of what is wrong: names and values in a file may be of any length."""
_RECORD_AGAIN = "copy it again, or record it again with 'gradviz record'"
_FIRST_LINE = FirstLine("capture", FORMAT_VERSION, _RECORD_AGAIN)


def write_capture(capture: Capture) -> bytes:
    """The content of a capture file."""
    packed = encoded(capture, msgspec.msgpack.encode)
    needed = max_decoded_size(packed)
    for level, window in (
        (_COMPRESSION_LEVEL, _USUAL_WINDOW),
        # Millions of zeros or of equal steps: as dense as a file made to exhaust memory.
        (_COMPRESSION_LEVEL, _SMALL_WINDOW),
        (_NO_COMPRESSION, _USUAL_WINDOW),
    ):
        packer = zlib.compressobj(level, wbits=window)  # the window of zlib.compress came with Python 3.11
        payload = packer.compress(packed) + packer.flush()
        if len(packed) <= _max_size(payload) and needed <= _max_memory(payload):
            break
    return b"".join((_FIRST_LINE.write(), _FRAME.pack(len(payload), zlib.crc32(payload)), payload))


def read_capture(data: bytes, name: str) -> Capture:
    """The capture in `data`; `BadCapture` says in one line what is wrong with the file called `name`.

    This is the only door for captures: every value is within the bounds of its field, every index is in its table, and
    nothing contradicts itself. What works on captures relies on that.
    """
    try:
        capture = _decode(_unpack(data, name), name)
        for location, check in _checks(capture):
            try:
                check()
            except InvalidGraph as error:
                raise _damaged(name, f"{error} at {location}") from error
    except MemoryError as error:
        raise BadCapture(f"{name!r} needs more memory than there is", hint="look at it on a larger machine") from error
    return capture


def _checks(capture: Capture) -> Iterator[tuple[str, Callable[[], None]]]:
    for index, graph in enumerate(capture.graphs):
        yield f"$.graphs[{index}]", partial(check_graph, graph)
    for index, parameter in enumerate(capture.parameters):
        yield f"$.parameters[{index}]", partial(check_facts, "the parameter", (parameter.tensor,))
    if capture.replicas is not None:
        yield "$.replicas", partial(check_replicas, capture.replicas)
    if capture.calls is not None:
        yield "$.calls", partial(check_call_log, capture.calls)


def load_capture(path: Path) -> Capture:
    """The capture in the file at `path`."""
    return read_capture(content_of(path), str(path))


def is_capture(head: bytes) -> bool:
    """Whether a file that begins with `head` is a capture, of any version and even if damaged."""
    return _FIRST_LINE.begins(head)


def capture_schema() -> dict[str, Any]:
    """JSON Schema of the map in the payload."""
    return msgspec.json.schema(Capture)


def _unpack(data: bytes, name: str) -> bytes:
    """The decompressed payload of an undamaged file."""
    body = _after_first_line(data, name)
    if len(body) < _FRAME.size:
        raise BadCapture(f"{name!r} is cut short: it ends within its header", hint=_RECORD_AGAIN)
    length, checksum = _FRAME.unpack_from(body)
    payload = body[_FRAME.size :]
    if len(payload) < length:
        raise BadCapture(f"{name!r} is cut short: it holds {len(payload)} of {length} bytes", hint=_RECORD_AGAIN)
    if len(payload) > length:
        raise _damaged(name, f"{len(payload) - length} bytes follow its end")
    if zlib.crc32(payload) != checksum:
        raise _damaged(name, "its checksum does not match")
    return _decompressed(payload, name)


def _max_size(payload: bytes | memoryview) -> int:
    """How large a payload may become when it is decompressed."""
    return max(_ALWAYS_ALLOWED, _MAX_GROWTH * len(payload))


def _max_memory(payload: bytes | memoryview) -> int:
    """How much memory a payload may need when it is decoded."""
    return _MEMORY_FOR_SMALL + _MAX_GROWTH_IN_MEMORY * max(0, len(payload) - _SMALL)


def _decompressed(payload: memoryview, name: str) -> bytes:
    max_size = _max_size(payload)
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(payload, max_size)
    except zlib.error as error:
        raise _damaged(name, "its payload cannot be decompressed") from error
    if stream.unconsumed_tail:
        raise _damaged(name, f"its payload grows to more than {max_size:,} bytes, which no recording does")
    if not stream.eof or stream.unused_data:
        raise _damaged(name, "its payload cannot be decompressed")
    if max_decoded_size(data) > _max_memory(payload):
        raise _damaged(
            name, f"decoded, its {len(data):,} bytes might need more memory than {_max_memory(payload):,} bytes"
        )
    return data


def _after_first_line(data: bytes, name: str) -> memoryview:
    """The data after the first line, if this gradviz can read it."""
    if is_run_log(data):
        raise BadCapture(
            f"{name!r} is a run log of gradviz.watch(), which holds no graph", hint=f"'gradviz flow {name}' shows it"
        )
    if not is_capture(data):
        kind = "is empty" if not data else "is not a recording of gradviz"
        raise BadCapture(f"{name!r} {kind}", hint="make one with 'gradviz record'")
    return memoryview(data)[_FIRST_LINE.end(data, name) :]


def _decode(packed: bytes, name: str) -> Capture:
    try:
        return msgspec.msgpack.decode(packed, type=Capture)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # msgspec's message ends in the path: "Expected `int`, got `str` - at `$.graphs[0].nodes[3].id`".
        raise _damaged(name, with_value(str(error), packed)) from error


def _damaged(name: str, what: str) -> BadCapture:
    told = one_line(what)
    if len(told) > _MAX_TOLD:
        told = f"{told[: _MAX_TOLD // 2]}…{told[-_MAX_TOLD // 2 :]}"
    return BadCapture(f"{name!r} is damaged: {told}", hint=_RECORD_AGAIN)
