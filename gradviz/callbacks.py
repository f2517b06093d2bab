"""Callbacks that check training steps: `trainer_callback` for Hugging Face's Trainer, `lightning_callback`.

The first step and every N-th one are recorded with all their torch calls and checked; the other steps cost nothing.
A finding is reported once for each line, as a warning of the logger ``gradviz``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradviz.check_result import selected_rules
from gradviz.errors import BadInput, CheckFailed, MissingDependency, check_choice

if TYPE_CHECKING:
    from gradviz.analysis.finding import Finding, Severity
    from gradviz.api import Recording

_logger = logging.getLogger("gradviz")


@dataclass
class StepChecks:
    """Checks steps and reports findings; the callbacks say when steps begin and end."""

    every: int = 500
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    fail_on: Severity | None = None
    step: int = 0
    """How many steps have begun."""
    _recording: Recording | None = None
    _reported: set[tuple[object, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        if type(self.every) is not int or self.every < 1:
            raise BadInput(f"every={self.every!r} is not a number from 1 on", hint="every=500 checks each 500th step")
        selected_rules(self.select, self.ignore)
        if self.fail_on is not None:
            from gradviz.analysis.finding import SEVERITIES

            check_choice("severity", self.fail_on, SEVERITIES)

    def begin(self, model: Any) -> None:
        """Record the step of this model that begins now, if it is one to check."""
        import gradviz

        self.end()
        self.step += 1
        if self.step == 1 or self.step % self.every == 0:
            self._recording = gradviz.record(calls=True, model=model)
            self._recording.__enter__()

    def finish(self) -> None:
        """Check the step, which has run. Raises `CheckFailed` for findings as grave as `fail_on`."""
        recording, self._recording = self._recording, None
        if recording is None:
            return
        recording.__exit__(None, None, None)
        result = recording.check(select=self.select, ignore=self.ignore).of(f"step {self.step}")
        if any(self._is_new(finding) for finding in result.at_least("warning")):
            _logger.warning("%s", result)
        if self.fail_on is not None and result.at_least(self.fail_on):
            raise CheckFailed(f"step {self.step} has {self.fail_on} findings: {result.findings[0].message}")

    def end(self) -> None:
        """Stop recording: the training ended, or the step failed."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.abandon()

    def _is_new(self, finding: Finding) -> bool:
        key = finding.code, finding.location, finding.tensors
        is_new = key not in self._reported
        self._reported.add(key)
        return is_new


def trainer_callback(
    every: int = 500,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    fail_on: Severity | None = None,
) -> Any:
    """A ``transformers.TrainerCallback`` for ``Trainer(callbacks=[...])``.

    Args:
        every: check the first step and each step whose number is a multiple of this.
        select: use only these rules, as in `gradviz.check`.
        ignore: leave out these rules.
        fail_on: end the training with `CheckFailed` at a finding as grave as this; without it, findings are only
            reported.

    Raises:
        BadInput: an argument is not valid.
        MissingDependency: transformers is not installed.
    """
    checks = StepChecks(every, select, ignore, fail_on)
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise MissingDependency("transformers is not installed", hint="pip install transformers") from error

    class GradvizCallback(TrainerCallback):
        def on_step_begin(self, *_: Any, model: Any = None, **__: Any) -> None:
            checks.begin(model)

        def on_optimizer_step(self, *_: Any, **__: Any) -> None:
            # Before the trainer clears the gradients.
            checks.finish()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            checks.end()

    return GradvizCallback()


def lightning_callback(
    every: int = 500,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    fail_on: Severity | None = None,
) -> Any:
    """A Lightning ``Callback`` for ``Trainer(callbacks=[...])``, of ``lightning`` or ``pytorch_lightning``.

    Arguments and errors are those of `trainer_callback`; a step is a batch.
    """
    checks = StepChecks(every, select, ignore, fail_on)
    base = _lightning_base()

    class GradvizCallback(base):  # type: ignore[misc, valid-type]
        def on_train_batch_start(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
            checks.begin(pl_module)

        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            checks.finish()

        def on_exception(self, *_: Any, **__: Any) -> None:
            checks.end()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            checks.end()

    return GradvizCallback()


def _lightning_base() -> type[Any]:
    """The base class of callbacks, from the one of the two packages that the program uses."""
    import sys
    from importlib import import_module
    from importlib.util import find_spec

    names = ("lightning.pytorch", "pytorch_lightning")
    for name in sorted(names, key=lambda name: name not in sys.modules):
        if find_spec(name.partition(".")[0]) is not None:
            base: type[Any] = import_module(name).Callback
            return base
    raise MissingDependency("Lightning is not installed", hint="pip install lightning")
