"""The pytest plugin: the fixtures ``gradviz_check`` and ``gradviz_snapshot``, and the marker ``gradviz``.

pytest always loads this module at its start, so gradviz and torch are imported only by a test that uses the plugin.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradviz.analysis.finding import Severity
    from gradviz.api import Recording
    from gradviz.check_result import Checked

_FOLDER = "gradviz_snapshots"
"""Beside the test."""
_UPDATE = "pytest --gradviz-update"
_IF_MEANT = f"If this is meant, write the file again with {_UPDATE}, and review it."
_MAX_FILE_NAME = 150
_MARKER = (
    "gradviz(select=(), ignore=(), fail_on='warning'): record the test, and fail it if its gradients are missing, "
    "zero, NaN or wrong; the arguments are the options of gradviz check"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes snapshots."""
    parser.getgroup("gradviz").addoption(
        "--gradviz-update", action="store_true", help="Write the files that gradviz_snapshot() compares with."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Record and check the body of a test that has the marker; its fixtures are not recorded."""
    marker = pyfuncitem.get_closest_marker("gradviz")
    if marker is None:
        return (yield)
    return (yield from _checked_call(pyfuncitem.nodeid, marker))


def _checked_call(test: str, marker: pytest.Mark) -> Generator[None, Any, Any]:
    import gradviz

    with _failing_in_one_line():
        options = _options_of(marker)
    with gradviz.record(calls=True) as recording:
        result = yield
    _fail_for(test, recording.check(select=options.select, ignore=options.ignore), options.fail_on)
    return result


@dataclass(frozen=True)
class _Options:
    """The options of the marker and of the fixture."""

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    fail_on: Severity = "warning"

    def __post_init__(self) -> None:
        from gradviz.analysis.finding import SEVERITIES
        from gradviz.check_result import selected_rules
        from gradviz.errors import check_choice

        selected_rules(self.select, self.ignore)
        check_choice("severity for fail_on", self.fail_on, SEVERITIES)


def _options_of(marker: pytest.Mark) -> _Options:
    from gradviz.errors import BadInput, check_choice

    if marker.args:
        raise BadInput(f"the marker gradviz takes options by name, not {marker.args[0]!r}", hint='select="GV1"')
    for name in marker.kwargs:
        check_choice("option of the marker gradviz:", name, [field.name for field in fields(_Options)])
    return _Options(**marker.kwargs)


@contextmanager
def _failing_in_one_line() -> Iterator[None]:
    """Fail the test with one sentence, without a traceback, if options or arguments are wrong."""
    from gradviz.errors import GradvizError

    try:
        yield
    except GradvizError as refusal:
        raise pytest.fail.Exception(str(refusal), pytrace=False) from None


@pytest.fixture
def gradviz_check(request: pytest.FixtureRequest) -> Iterator[GradvizCheck]:
    """Call it with a loss and a model: the test fails if a gradient of the model is missing, zero, NaN or wrong."""
    check = GradvizCheck(request.node.nodeid)
    check.begin()
    try:
        yield check
    finally:
        check.end()


@pytest.fixture
def gradviz_snapshot(request: pytest.FixtureRequest) -> Iterator[GradvizSnapshot]:
    """Call it with a loss and a model: the test fails if structure, gradients or memory are not those of a file."""
    update = request.config.getoption("--gradviz-update")
    snapshot = GradvizSnapshot(request.node.nodeid, request.path, is_writing=update)
    snapshot.begin()
    try:
        yield snapshot
    finally:
        snapshot.end()


class _RecordedTest:
    """Records a test, and ends the recording where the test asks for an answer."""

    def __init__(self, test: str) -> None:
        self._test = test
        self._recording: Recording | None = None

    def begin(self) -> None:
        """Begin a recording."""
        import gradviz

        recording = gradviz.record(calls=True)
        with _failing_in_one_line():
            recording.__enter__()
        self._recording = recording

    def end(self) -> None:
        """Abandon the recording: the test has ended."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.abandon()

    def _recorded(self, loss: Any) -> tuple[Recording, RuntimeError | None]:
        """What was recorded so far, and the error if backward is refused. Calls it if the test did not."""
        recording, refusal = self._recording, None
        assert recording is not None, "the fixture is open"
        try:
            if not recording.backward_calls:
                loss.backward()
        except RuntimeError as error:
            refusal = error
        # Ended here, so that the recording knows variables of the test and the names of these arguments.
        recording.__exit__(None if refusal is None else type(refusal), refusal, None)
        self.begin()
        return recording, refusal


class GradvizCheck(_RecordedTest):
    """The value of the fixture: records the test, and checks it when it is called."""

    def __call__(
        self,
        loss: Any,
        model: Any = None,
        *,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        fail_on: Severity = "warning",
    ) -> Checked:
        """Fail the test if gradients of `loss` are missing, zero, NaN or wrong; otherwise return the result.

        The check covers everything that the test has computed so far. Calls ``loss.backward()`` if the test did not.
        """
        __tracebackhide__ = True
        with _failing_in_one_line():
            options = _Options(select, ignore, fail_on)
            _check_that_it_is_a_loss("gradviz_check", loss)
        recording, refusal = self._recorded(loss)
        result = recording.check(select=options.select, ignore=options.ignore)
        _fail_for(self._test, result, options.fail_on)
        if refusal is not None:
            raise refusal
        return result


class GradvizSnapshot(_RecordedTest):
    """The value of the fixture: records the test, and compares it with a file when it is called."""

    def __init__(self, test: str, path: Path, *, is_writing: bool) -> None:
        super().__init__(test)
        self._path = path
        self._is_writing = is_writing
        self._names: set[str] = set()

    def __call__(self, loss: Any, model: Any = None, *, name: str = "", memory_tolerance: float = 0.05) -> None:
        """Fail the test if what `loss` depends on is not what the file says; ``--gradviz-update`` writes the file.

        Compared are the operations with their modules and shapes, which parameters get a gradient, the findings of the
        check, and the memory kept for backward.

        Args:
            model: keeps the names of its parameters in the text.
            name: of the snapshot, if a test has several.
            memory_tolerance: how much more or less memory may be kept, as a part of it.
        """
        __tracebackhide__ = True
        with _failing_in_one_line():
            _check_that_it_is_a_loss("gradviz_snapshot", loss)
            _check_tolerance(memory_tolerance)
            file = self._file(name)
        recording, _ = self._recorded(loss)
        with _failing_in_one_line():
            self._compare(recording, file, memory_tolerance)

    def _file(self, name: str) -> Path:
        from gradviz.errors import BadInput

        if name in self._names:
            raise BadInput(f"this test has a snapshot {name!r} already", hint='give this one another: name="second"')
        self._names.add(name)
        test = ".".join([self._path.stem, *self._test.split("::")[1:], *([name] if name else [])])
        return self._path.parent / _FOLDER / f"{_file_name(test)}.txt"

    def _compare(self, recording: Recording, file: Path, tolerance: float) -> None:
        from gradviz.analysis.snapshot.snapshot import difference_from, snapshot_of
        from gradviz.errors import BadInput
        from gradviz.file_output import write_output

        now = snapshot_of(recording.capture, recording.check().report)
        shown = f"{_FOLDER}/{file.name}"
        if self._is_writing:
            write_output(file, now)
            return
        try:
            kept = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise BadInput(f"no snapshot {shown}", hint=f"write it with {_UPDATE}, and commit it") from None
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read {shown}: {error}", hint=f"write it with {_UPDATE}") from error
        different = difference_from(kept, now, shown, tolerance=tolerance)
        if different:
            pytest.fail(f"{self._test} is not what its snapshot says\n{different}\n{_IF_MEANT}", pytrace=False)


def _file_name(test: str) -> str:
    """The name of a test without characters that files cannot have, and then with a checksum to keep it unique."""
    safe = re.sub(r"[^\w.-]", "_", test)[:_MAX_FILE_NAME]
    return safe if safe == test else f"{safe}-{zlib.crc32(test.encode(errors='surrogatepass')):08x}"


def _check_tolerance(tolerance: Any) -> None:
    from gradviz.errors import BadInput

    if not isinstance(tolerance, int | float) or not tolerance >= 0:
        raise BadInput(f"memory_tolerance={tolerance!r} is not a number from 0 on", hint="0.05 for five percent")


def _check_that_it_is_a_loss(fixture: str, loss: Any) -> None:
    from gradviz.errors import BadInput

    if not callable(getattr(loss, "backward", None)):
        kind = type(loss).__name__
        raise BadInput(f"{fixture}() takes a loss that is a tensor, not an object of type {kind}")


def _fail_for(test: str, result: Checked, fail_on: Severity) -> None:
    __tracebackhide__ = True
    if result.at_least(fail_on):
        pytest.fail(str(result.of(test)), pytrace=False)
