"""Captures and run logs that are well formed and say what no recording says: every field, changed in every way."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

Path = tuple[str | int, ...]

NUMBERS: tuple[Any, ...] = (
    math.nan, math.inf, -math.inf, -1, 0, 1, 2, 3, 7, 1_000_003, 2**31, 2**53, 2**62, 2**63 - 1, 2**64 - 1, -(2**63),
    -0.5, 1e-320, 5e-324, 1e-30, 1e30, 1.7e308, -1.7e308, 400, -400,
)  # fmt: skip
TEXTS = (
    "", " ", "\n", "x" * 20_000, "\x00\x1b[2J\x9b31m\r", "‮[/]{red}</script>", "a.b..c.", "🧠" * 90, "-1", "nan",
    "torch.nn.functional.linear", "0", "return[1]", "root", "cuda:99", "float64", "complex64", "MulBackward0",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, "", 0, 1.5, b"\x00\xff", [[[]]], [None], {"": None}, -1)


def full(value: Any) -> Any:
    """`value` as a file holds it, with the fields that a file leaves out because they have their default value."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        if config.array_like:
            return [full(getattr(value, name)) for name in value.__struct_fields__]
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {encoded: full(getattr(value, name)) for name, encoded in names}
    if isinstance(value, dict):
        return {key: full(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [full(entry) for entry in value]
    return value


def paths_by_field(content: Any) -> dict[Path, list[Path]]:
    """Where the values of each field are; the fields are paths without the numbers of entries."""
    found: dict[Path, list[Path]] = {}
    for path in _paths(content, ()):
        found.setdefault(tuple("*" if isinstance(key, int) else key for key in path), []).append(path)
    return found


def _paths(content: Any, path: Path) -> Iterator[Path]:
    if path:
        yield path
    entries = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in entries:
        yield from _paths(value, (*path, key))


class Mutator:
    """Makes mutants of one capture or record, each from its own seed."""

    def __init__(self, original: Any) -> None:
        self._packed = msgspec.msgpack.encode(full(original))
        self._fields = list(paths_by_field(msgspec.msgpack.decode(self._packed, strict=False)).values())

    @property
    def original(self) -> bytes:
        """The capture file that mutants differ from."""
        return capture_file(msgspec.msgpack.decode(self._packed, strict=False))

    def mutant(self, seed: int) -> tuple[Any, str]:
        """The content of a file, and what was changed in it, in words."""
        random = Random(seed)
        content = msgspec.msgpack.decode(self._packed, strict=False)
        said = []
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            path = random.choice(random.choice(self._fields))
            said.append(_change(content, path, random))
        return content, "; ".join(said)


def _change(content: Any, path: Path, random: Random) -> str:
    holder = content
    try:
        for key in path[:-1]:
            holder = holder[key]
        old = holder[path[-1]]
    except (KeyError, IndexError, TypeError):
        return f"{path} is gone"
    if isinstance(holder, str | bytes):  # an earlier change put it there
        return f"{path} is gone"
    new = _other_value(old, random)
    holder[path[-1]] = new
    return f"{'.'.join(map(str, path))}: {str(old)[:60]} -> {str(new)[:60]}"


def _other_value(old: Any, random: Random) -> Any:
    if random.random() < 0.12:
        return random.choice(OTHERS)
    if isinstance(old, bool):
        return not old
    if isinstance(old, int) and random.random() < 0.4:
        return min(old + random.choice((-2, -1, 1, 2)), 2**64 - 1)
    if isinstance(old, int | float):
        return random.choice(NUMBERS)
    if isinstance(old, str):
        return random.choice(TEXTS)
    if isinstance(old, bytes):
        return random.choice((b"\xff" * len(old), bytes(len(old)), old[1:], old * 2))
    if isinstance(old, list):
        return _other_list(old, random)
    if isinstance(old, dict):
        return random.choice(({}, dict(list(old.items())[1:]), {**old, "": "", "\x1b": "\r"}))
    return random.choice((*NUMBERS, *TEXTS, *OTHERS))


def _other_list(old: list[Any], random: Random) -> list[Any]:
    if not old:
        return [random.choice((*NUMBERS, *TEXTS, *OTHERS))]
    one, other = random.randrange(len(old)), random.randrange(len(old))
    swapped = list(old)
    swapped[one], swapped[other] = old[other], old[one]
    without = old[:one] + old[one + 1 :]
    return random.choice(([], without, [*old, old[one]], old[::-1], swapped, old * 3, [*old[:one], None, *old[one:]]))


def capture_file(content: Any) -> bytes:
    """A capture file with that content and right checksums."""
    payload = zlib.compress(msgspec.msgpack.encode(content), 1)
    return b"gradviz capture 1\n" + struct.pack(">QI", len(payload), zlib.crc32(payload)) + payload


def run_log_file(records: list[tuple[bytes, Any]]) -> bytes:
    """A run log with those records and right checksums."""
    parts = [b"gradviz run log 1\n"]
    for kind, content in records:
        payload = msgspec.msgpack.encode(content)
        start = struct.pack(">cI", kind, len(payload))
        parts += [start, struct.pack(">II", zlib.crc32(start), zlib.crc32(payload)), payload]
    return b"".join(parts)
