"""A capture file gives back what was written, or one clear line."""

from __future__ import annotations

import tracemalloc
import zlib
from math import nan
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gradviz.capture.capture import Capture, Program
from gradviz.capture.capture_file import (
    FORMAT_VERSION,
    capture_schema,
    is_capture,
    load_capture,
    read_capture,
    write_capture,
)
from gradviz.errors import BadCapture, BadInput
from gradviz.graph.fingerprints import Fingerprint, packed_projections
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.invariants import check_graph
from gradviz.graph.model import Edge, Graph, HeldTensor, ModuleScope, Node, Root
from tests.captures import small_capture


def file_with(payload: bytes, version: int = FORMAT_VERSION) -> bytes:
    """A capture file as the module's docstring describes it."""
    packed = zlib.compress(payload)
    frame = len(packed).to_bytes(8, "big") + zlib.crc32(packed).to_bytes(4, "big")
    return b"gradviz capture %d\n" % version + frame + packed


def refusal(data: bytes) -> str:
    """The one line with which `data` is refused."""
    with pytest.raises(BadCapture) as caught:
        read_capture(data, "run.gradviz")
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith("'run.gradviz' ")
    assert caught.value.hint
    return line


def test_a_capture_is_read_as_it_was_written() -> None:
    assert read_capture(write_capture(small_capture()), "run.gradviz") == small_capture()


def test_a_capture_without_a_graph_is_read_as_it_was_written() -> None:
    empty = Capture(Program("train.py"))
    assert read_capture(write_capture(empty), "run.gradviz") == empty


def test_the_same_capture_gives_the_same_bytes() -> None:
    assert write_capture(small_capture()) == write_capture(small_capture())


def test_a_chain_of_twenty_thousand_nodes_is_read_as_it_was_written() -> None:
    nodes = tuple(Node(id=i, name="MulBackward0", edges=(Edge(i - 1),) if i else ()) for i in range(20_000))
    deep = Capture(Program("train.py"), graphs=(Graph(nodes=nodes),))
    assert read_capture(write_capture(deep), "run.gradviz") == deep


def test_the_documented_layout_is_what_is_read() -> None:
    assert read_capture(file_with(msgspec.msgpack.encode(small_capture())), "run.gradviz") == small_capture()


def test_files_name_cut_edges_as_the_first_format_did() -> None:
    edge = {"finding": {"code": "GV101", "cause": "detached", "severity": "error"}, "cut": "detach", "refused": 0}
    graph = {"refused": [{}], "ghost_edges": [edge | {"way": ["mul"]}]}
    capture = read_capture(file_with(msgspec.msgpack.encode({"program": {"name": "a"}, "graphs": [graph]})), "a")
    (cut_edge,) = capture.graphs[0].cut_edges
    assert (cut_edge.cut, cut_edge.path) == ("detach", ("mul",))
    assert msgspec.to_builtins(capture.graphs[0])["ghost_edges"][0]["way"] == ("mul",)


def test_the_first_line_says_what_the_file_is() -> None:
    first_line = write_capture(small_capture()).split(b"\n")[0]
    assert first_line == b"gradviz capture 1"


def test_a_file_cut_short_anywhere_is_refused() -> None:
    whole = write_capture(small_capture())
    for length in range(1, len(whole)):
        refusal(whole[:length])


def test_a_file_cut_short_says_how_much_is_missing() -> None:
    whole = write_capture(small_capture())
    held = len(whole) - len(b"gradviz capture 1\n") - 12
    assert f"is cut short: it holds {held - 5} of {held} bytes" in refusal(whole[:-5])


def test_a_damaged_byte_anywhere_is_refused() -> None:
    whole = write_capture(small_capture())
    for place in range(len(whole)):
        refusal(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])


def test_a_file_with_something_after_its_end_is_refused() -> None:
    assert "2 bytes follow its end" in refusal(write_capture(small_capture()) + b"\r\n")


def test_a_newer_format_says_to_upgrade() -> None:
    line = refusal(file_with(b"whatever comes", version=FORMAT_VERSION + 1))
    assert line == "'run.gradviz' has capture format 2, and this gradviz reads up to 1; upgrade gradviz to open it"


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "is empty"),
        (b"import torch\n", "is not a recording of gradviz"),
        (b"\x89PNG\r\n", "is not a recording of gradviz"),
    ],
)
def test_another_kind_of_file_is_refused(data: bytes, fault: str) -> None:
    assert fault in refusal(data)


@pytest.mark.parametrize("first_line", [b"gradviz capture \n", b"gradviz capture one\n", b"gradviz capture 0\n"])
def test_a_first_line_without_a_version_is_refused(first_line: bytes) -> None:
    assert "its first line does not end in a format version" in refusal(first_line + b"x" * 20)


def test_a_wrong_value_is_refused_with_its_path() -> None:
    wrong: dict[str, Any] = msgspec.to_builtins(small_capture())
    wrong["graphs"][0]["nodes"][3]["id"] = "three"
    assert "Expected `int`, got `str` - at `$.graphs[0].nodes[3].id`" in refusal(
        file_with(msgspec.msgpack.encode(wrong))
    )


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("sequence_nr", -3, "Expected `int` >= 0, got -3 - at `$.graphs[0].nodes[1].sequence_nr`"),
        ("sequence_nr", 2**64 - 1, f"Expected `int` <= {2**62}, got {2**64 - 1} - at `$.graphs[0].nodes[1].seq"),
        ("run", {"order": 0, "seconds": nan}, "got nan - at `$.graphs[0].nodes[1].run.seconds`"),
        ("kind", "wiew", "Invalid enum value 'wiew' - at `$.graphs[0].nodes[1].kind`"),
        ("outputs", [{"shape": [2**40, 2**40, 1], "dtype": "?"}], "which is larger than any memory at $.graphs[0]"),
        ("arrived", [{"count": 2, "zeros": 3}], "node 1 has a tensor of 2 elements, 3 of them zero, NaN or Inf at $.g"),
        ("arrived", [{"count": 2, "minimum": 3.0, "maximum": 1.0}], "node 1 has values from 3.0 to 1.0 at $.graphs"),
        ("arrived", [{"count": 1, "mean": 9.0, "minimum": 1.0, "maximum": 1.0}], "from 1.0 to 1.0 with the mean 9.0"),
        ("arrived", [{"count": 1, "norm": 0.0, "minimum": 1.0, "maximum": 1.0}], "up to 1.0 with the norm 0.0"),
        (
            "values",
            [{"shape": [2], "count": 2, "values": [1.0]}],
            "node 1 has 1 values of a tensor of shape [2] at $.graphs[0]",
        ),
    ],
)
def test_a_value_that_no_recording_has_is_refused_with_its_place_and_itself(field: str, value: Any, told: str) -> None:
    wrong: dict[str, Any] = msgspec.to_builtins(small_capture())
    wrong["graphs"][0]["nodes"][1][field] = value
    line = refusal(file_with(msgspec.msgpack.encode(wrong)))
    assert told in line
    assert len(line) < 500


def test_a_missing_field_is_refused_with_its_path() -> None:
    wrong: dict[str, Any] = msgspec.to_builtins(small_capture())
    del wrong["graphs"][0]["nodes"][1]["name"]
    line = refusal(file_with(msgspec.msgpack.encode(wrong)))
    assert "missing required field `name` - at `$.graphs[0].nodes[1]`" in line


def test_a_reference_to_nothing_is_refused_with_its_path() -> None:
    loose = Capture(Program("train.py"), graphs=(Graph(), Graph(nodes=(Node(id=0, name="A", edges=(Edge(7),)),))))
    assert "node 0 refers to node 7, but there are 1 at $.graphs[1]" in refusal(write_capture(loose))


@pytest.mark.parametrize("cycle", [(0,), (1, 0), (2, 0, 1)])
def test_nodes_that_are_computed_from_themselves_are_refused(cycle: tuple[int, ...]) -> None:
    nodes = tuple(Node(id=place, name="A", edges=(Edge(target),)) for place, target in enumerate(cycle))
    line = refusal(write_capture(Capture(Program("train.py"), graphs=(Graph(nodes=nodes),))))
    assert "the edges around node 0 make a cycle at $.graphs[0]" in line


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x91" * 100_000, b"\x80\x80"])
def test_a_payload_that_is_no_capture_is_refused(payload: bytes) -> None:
    assert "is damaged" in refusal(file_with(payload))


def test_fields_of_a_later_gradviz_are_ignored() -> None:
    later: dict[str, Any] = msgspec.to_builtins(small_capture())
    # Line numbers are integers in MessagePack and text in other forms.
    later["sources"] = small_capture().sources
    later["colour"] = {"of": ["the", "year"]}
    assert read_capture(file_with(msgspec.msgpack.encode(later)), "run.gradviz") == small_capture()


def test_a_capture_is_distinguished_from_a_script_by_its_first_bytes() -> None:
    assert is_capture(write_capture(small_capture())[:64])
    assert not is_capture(b"import torch\n")
    assert not is_capture(b"")


def test_a_capture_is_loaded_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "run.gradviz"
    path.write_bytes(write_capture(small_capture()))
    assert load_capture(path) == small_capture()


def test_a_path_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot read '.*gone.gradviz': No such file or directory$"):
        load_capture(tmp_path / "gone.gradviz")
    with pytest.raises(BadInput, match="embedded null byte; no file can have such a name"):
        load_capture(Path("run\0.gradviz"))


def test_a_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="Is a directory"):
        load_capture(tmp_path)


def test_the_schema_names_every_field_of_a_node() -> None:
    assert set(capture_schema()["$defs"]["Node"]["properties"]) == set(Node.__struct_fields__)


def test_a_capture_with_a_name_that_is_not_utf_8_is_written_and_read() -> None:
    named = replace(small_capture(), program=Program("tr\udce4in.py"))
    assert read_capture(write_capture(named), "run.gradviz") == replace(named, program=Program("tr\\udce4in.py"))


def test_a_call_log_that_refers_to_nothing_is_refused() -> None:
    calls = small_capture().calls
    assert calls is not None
    count = len(calls.calls)

    def refused(**changes: Any) -> str:
        return refusal(write_capture(replace(small_capture(), calls=replace(calls, **changes))))

    assert "call 0 refers to tensor 0 of 0 at $.calls" in refused(tensors=())
    assert f"a moment refers to call {count} of {count} at $.calls" in refused(moments=(count,))
    assert f"calls are missing before call {count + 1} of {count} at $.calls" in refused(dropped_at=count + 1)


@given(st.data())
def test_whatever_happens_to_its_bytes_a_file_is_refused_or_gives_back_what_was_written(data: st.DataObject) -> None:
    whole = write_capture(small_capture())
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    damaged = whole[:start] + data.draw(st.binary(max_size=20)) + whole[end:]
    if damaged == whole:
        assert read_capture(damaged, "run.gradviz") == small_capture()
    else:
        refusal(damaged)


@given(st.data())
def test_a_payload_with_any_fault_and_a_right_checksum_is_refused_or_is_a_whole_capture(data: st.DataObject) -> None:
    payload = msgspec.msgpack.encode(small_capture())
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(payload))] * 2)))
    crafted = file_with(payload[:start] + data.draw(st.binary(max_size=20)) + payload[end:])
    try:
        capture = read_capture(crafted, "run.gradviz")
    except BadCapture as error:
        assert "\n" not in str(error)
    else:
        for graph in capture.graphs:
            check_graph(graph)


def test_a_recording_that_would_grow_like_a_bomb_is_written_so_that_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradviz.capture.capture_file._ALWAYS_ALLOWED", 1 << 16)
    zeros = TensorFigures((100_000,), "float32", count=100_000, values=(0.0,) * 100_000)
    capture = Capture(Program("train.py"), (Graph((Node(0, "A", values=(zeros,)),)),))
    assert read_capture(write_capture(capture), "run.gradviz") == capture
    monkeypatch.setattr("gradviz.capture.capture_file._ALWAYS_ALLOWED", 1 << 25)
    assert len(write_capture(capture)) < 100_000
    monkeypatch.setattr("gradviz.capture.capture_file._MEMORY_FOR_SMALL", 1 << 20)
    monkeypatch.setattr("gradviz.capture.capture_file._SMALL", 100_000)
    assert len(write_capture(capture)) > 100_000
    assert read_capture(write_capture(capture), "run.gradviz") == capture


def test_a_fingerprint_that_cannot_be_compared_is_refused() -> None:
    nan = Fingerprint(1, 1.0, 1.0, 0, packed_projections([float("nan")] + [0.0] * 7))
    graph = Graph((Node(0, "A", values=(TensorFigures((2,), count=2, fingerprint=nan),)),))
    line = refusal(write_capture(Capture(Program("train.py"), (graph,))))
    assert "node 0 has a fingerprint with a projection that is NaN or Inf" in line


def test_a_payload_that_grows_beyond_every_recording_is_refused_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gradviz.capture.capture_file._ALWAYS_ALLOWED", 1 << 20)
    monkeypatch.setattr("gradviz.capture.capture_file._MEMORY_FOR_SMALL", 60 << 20)
    node = {"id": 0, "name": "A", "edges": [None] * 400_000, "gradients": [{}] * 400_000}
    empty_structures = file_with(msgspec.msgpack.encode({"program": {"name": "a"}, "graphs": [{"nodes": [node]}]}))
    for bomb, told in (
        (file_with(bytes(80 << 20)), "grows to more than"),
        (empty_structures, "might need more memory"),
    ):
        tracemalloc.start()
        try:
            line = refusal(bomb)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert told in line
        assert peak < 60 << 20


def test_a_variable_of_which_a_file_tells_nothing_but_the_name_is_an_ordinary_result() -> None:
    held = msgspec.convert({"names": ["loss"]}, HeldTensor)
    assert (held.is_leaf, held.requires_grad, held.retains_grad, held.has_grad) == (False, True, False, False)
    assert held.output_nr == msgspec.convert({"node": 3}, Root).output_nr == 0
    assert msgspec.convert({"path": "model", "class_name": "Net"}, ModuleScope).parameter_count == 0
