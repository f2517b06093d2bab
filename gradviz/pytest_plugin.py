"""The pytest plugin: the fixture ``gradviz_check`` and the marker ``gradviz``.

pytest always loads this module at its start, so gradviz and torch are imported only by a test that uses the plugin.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradviz.analysis.finding import Severity
    from gradviz.api import Recording
    from gradviz.check_result import Checked

_MARKER = (
    "gradviz(select=(), ignore=(), fail_on='warning'): record the test, and fail it if its gradients are missing, "
    "zero, NaN or wrong; the arguments are the options of gradviz check"
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
        pytest.fail(str(refusal), pytrace=False)


@pytest.fixture
def gradviz_check(request: pytest.FixtureRequest) -> Iterator[GradvizCheck]:
    """Call it with a loss and a model: the test fails if a gradient of the model is missing, zero, NaN or wrong."""
    check = GradvizCheck(request.node.nodeid)
    check.begin()
    try:
        yield check
    finally:
        check.end()


class GradvizCheck:
    """The value of the fixture: records the test, and checks it when it is called."""

    def __init__(self, test: str) -> None:
        self._test = test
        self._recording: Recording | None = None

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
            _check_that_it_is_a_loss(loss)
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
        result = recording.check(select=options.select, ignore=options.ignore)
        _fail_for(self._test, result, options.fail_on)
        if refusal is not None:
            raise refusal
        return result

    def begin(self) -> None:
        """Begin a recording."""
        import gradviz

        self._recording = gradviz.record(calls=True)
        self._recording.__enter__()

    def end(self) -> None:
        """Abandon the recording: the test has ended."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.abandon()


def _check_that_it_is_a_loss(loss: Any) -> None:
    from gradviz.errors import BadInput

    if not callable(getattr(loss, "backward", None)):
        kind = type(loss).__name__
        raise BadInput(f"gradviz_check() takes a loss that is a tensor, not an object of type {kind}")


def _fail_for(test: str, result: Checked, fail_on: Severity) -> None:
    __tracebackhide__ = True
    if result.at_least(fail_on):
        pytest.fail(str(result.of(test)), pytrace=False)
