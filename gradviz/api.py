"""The doors into gradviz from Python: `inspect`, `check`, `record`, `watch` and `load`.

torch is imported by what records, when it is called, and never to look at something that was recorded.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from gradviz.errors import BadInput
from gradviz.inspection import Inspection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradviz.capture.capture import Capture
    from gradviz.checked import Checked
    from gradviz.recording.inline import BlockRecorder
    from gradviz.recording.run.plan import RecordingPlan
    from gradviz.recording.watch.model_watch import ModelWatch


def inspect(*tensors: Any, model: Any = None) -> Inspection:
    """The autograd graph of tensors that are there already.

    Nothing is computed, changed or kept alive: no backward runs, and the tensors can be freed as before; only
    `torch.utils.swap_tensors` refuses them as long as the inspection is there. As nobody watched while they were
    computed, source lines and module calls are unknown; inside a `record` block they are known. `Inspection.backward`
    of what is returned measures gradients, too.

    Args:
        tensors: tensors of any shape, or lists, tuples, dicts, dataclasses and model outputs that hold some.
        model: the module (or a list or dict of modules) whose parameters are named; without it, modules and tensors
            are named after the variables that hold them where this is called.

    Raises:
        BadInput: there is no tensor in what was given.
        NothingRecorded: none of the tensors has a ``grad_fn``.

    Example:
        >>> import torch, gradviz
        >>> x = torch.tensor(2.0, requires_grad=True)
        >>> y = torch.tensor(3.0, requires_grad=True)
        >>> z = torch.log(x * y)
        >>> [node.name for node in gradviz.inspect(z).graph.nodes if not node.is_leaf]
        ['MulBackward0', 'LogBackward0']
        >>> gradviz.inspect(x)
        Traceback (most recent call last):
        gradviz.errors.NothingRecorded: x has no grad_fn: it is a leaf, which no operation made; pass what was computed from it
    """  # noqa: E501 - one message is one line
    from gradviz.recording.inline import inspect_values

    capture, roots = inspect_values(tensors, model, sys._getframe(1))
    return Inspection(capture, roots)


def check(*tensors: Any, model: Any = None, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Checked:
    """Why gradients of a loss are missing, zero, NaN or wrong: ``gradviz check``, at one place of a program.

    A backward is run and measured that leaves every ``.grad`` as it is; call it before the loss's own. What it cannot
    know is what was cut off before the loss: for that compute the loss in a block, ``with gradviz.record(calls=True)
    as recording:``, and call ``recording.check()`` after it.

    Args:
        tensors: as for `inspect`; most often the loss.
        model: the module (or a list or dict of modules) that is to get gradients: that one of its parameters is not in
            the graph is a warning, unless it is frozen.
        select: only these rules, by code (``"GV301"``), beginning of a code (``"GV3"``), or name.
        ignore: without these.

    Raises:
        BadInput: there is no such rule or tensor; or the loss has more than one element, or was freed.
        NothingRecorded: none of the tensors has a ``grad_fn``.

    Example:
        >>> import torch, gradviz
        >>> x = torch.zeros(2, requires_grad=True)
        >>> result = gradviz.check(x.sqrt().sum())
        >>> bool(result), x.grad
        (False, None)
    """
    from gradviz.recording.inline import inspect_values

    capture, roots = inspect_values(tensors, model, sys._getframe(1))
    return Inspection(capture, roots, model_is_given=model is not None).check(select=select, ignore=ignore)


def record(
    *,
    backward: int | Literal["last"] | None = None,
    gradients: bool = True,
    values: int = 0,
    root_shares: bool = False,
    calls: bool = False,
    model: Any = None,
) -> Recording:
    """Record what a ``with`` block computes: each operation with its line and module, and every backward call.

    The block runs as it would without; torch is put back as it was at its end, also when the block raises. What it
    raises is not held up, and the recording shows how far the program came. Without any backward call the graph is
    that of the tensors which were computed in the block and which variables still hold.

    Args:
        backward: record only this call of ``backward()`` or ``grad()``, counted from 1, or the ``"last"`` one of a
            long run; without it, all of them, until a million nodes are kept.
        gradients: measure what flows along every edge while backward runs.
        values: keep every number of tensors with so many elements or fewer, of the forward and of gradients.
        root_shares: measure what each root, or each term of a loss that is a sum, gives to every leaf's gradient:
            ``graph.root_shares``. Each costs a backward, and memory for its gradients of all leaves.
        calls: log every torch call, too, so that `Inspection.check` knows what was cut off and changed on the way to
            the loss. Of many backward calls those are kept that tell something.
        model: the module (or a list or dict of modules) whose parameters are named ``model.…`` where no variable holds
            it, as inside a library that trains.

    Returns:
        An `Inspection` that can be looked at once the block has ended.

    Raises:
        BadInput: ``backward`` is no such number; or, when the block is entered, ``model`` is no module, or a recording
            is running already.

    Example:
        >>> import torch, gradviz
        >>> model = torch.nn.Linear(3, 1)
        >>> with gradviz.record() as recording:
        ...     loss = model(torch.ones(2, 3)).sum()
        ...     loss.backward()
        >>> recording.graph.roots[0].name, recording.graph.scopes[0].path
        ('loss', 'model')
    """
    from gradviz.recording.run.plan import RecordingPlan

    plan = RecordingPlan(
        None if backward == "last" else backward,
        only_last=backward == "last",
        keep_going=True,
        gradients=gradients,
        values_up_to=values,
        root_shares=root_shares,
        calls=calls,
        begins_midway=True,
        remedy_when_full="record(backward=N) picks a single one, and backward='last' keeps the last",
    )
    return Recording(plan, model)


def watch(
    model: Any,
    *,
    every: int = 100,
    to: str | os.PathLike[str] = "run.gradviz",
    scaler: Any = None,
    tensorboard: str | os.PathLike[str] | None = None,
) -> Watch:
    """Note how large the gradients of a model are while it trains, for ``gradviz flow run.gradviz --over-steps``.

    A hook on each parameter measures the first step and then every `every`-th one: norms of gradients and weights,
    zeros, NaN and Inf. Nothing else is put into torch, and in between a hook does next to nothing.

    A *step* is a backward call that reaches a parameter of the model, and what is measured is its ``.grad`` as that
    call leaves it. Where gradients are accumulated over several calls, an `every` that is a multiple of their number
    measures the last of each round. Under DDP the first process writes, and measures its own share before the
    processes exchange theirs. Watch a model after it was wrapped, sharded or converted, not before.

    An older file of that name is replaced. It is readable while the program trains, also when that is killed. Without
    `Watch.close`, or a ``with`` block, watching goes on until the program ends.

    Args:
        model: the module that trains; parameters which require no gradient now are not watched.
        every: how many steps lie between two that are measured, from 1 on.
        to: the run log to write, a ``.gradviz`` file.
        scaler: a ``torch.amp.GradScaler``; norms are then divided by its factor. Without it, the gradients of a scaled
            loss are noted as they are, that is scaled.
        tensorboard: a folder for the same figures as TensorBoard events; needs the package ``tensorboard``.

    Raises:
        BadInput: there is nothing to watch in `model`, or it is watched already; another watch writes `to`; `every`
            is no such number; `to` or `tensorboard` cannot be written.
        MissingDependency: TensorBoard is asked for and not installed.

    Example:
        >>> import tempfile, torch, gradviz
        >>> model = torch.nn.Linear(3, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with gradviz.watch(model, every=2, to=f"{folder}/run.gradviz") as watching:
        ...         for step in range(5):
        ...             model(torch.ones(2, 3)).sum().backward()
        >>> watching.steps
        5
    """
    path, folder = _run_log_path(to), _tensorboard_folder(tensorboard)
    from gradviz.recording.watch.model_watch import WatchPlan, begin_watch

    plan = WatchPlan(path, every, scaler, folder, sys._getframe(1).f_code.co_filename)
    return Watch(path, begin_watch(model, plan))


def load(path: str | os.PathLike[str]) -> Inspection:
    """What ``gradviz record`` or `Inspection.save` wrote to a ``.gradviz`` file. Needs no torch.

    Raises:
        BadInput: the file cannot be read.
        BadCapture: it is no capture, or a damaged one, or one of a newer gradviz.

    Example:
        >>> import gradviz
        >>> gradviz.load("train.py")
        Traceback (most recent call last):
        gradviz.errors.BadInput: 'train.py' is a script, not a recording; run 'gradviz record train.py' first, or 'gradviz render train.py'
    """  # noqa: E501 - one message is one line
    if not isinstance(path, (str, os.PathLike)):
        raise BadInput(
            f"load() takes the path of a file, not an object of type {type(path).__name__}",
            hint="gradviz.inspect() takes tensors",
        )
    from gradviz.capture.capture_file import load_capture

    if Path(path).suffix == ".py":
        raise BadInput(
            f"{os.fspath(path)!r} is a script, not a recording",
            hint=f"run 'gradviz record {os.fspath(path)}' first, or 'gradviz render {os.fspath(path)}'",
        )
    return Inspection(load_capture(Path(path)))


class Recording(Inspection):
    """The `Inspection` of a ``with gradviz.record():`` block, once that has ended."""

    def __init__(self, plan: RecordingPlan, model: Any = None) -> None:
        self._plan = plan
        self._model = model
        self._recorder: BlockRecorder | None = None
        self._finished: Capture | None = None

    @property
    def capture(self) -> Capture:
        """Everything that was recorded; raises `BadInput` before the block has ended."""
        if self._finished is None:
            raise BadInput(self._state(), hint="look at it after the `with` block")
        return self._finished

    def __enter__(self) -> Recording:
        from gradviz.recording.inline import BlockRecorder

        if self._recorder is not None or self._finished is not None:
            raise BadInput("this recording was used already", hint="call gradviz.record() for each block")
        recorder = BlockRecorder(self._plan)
        model, self._model = self._model, None
        recorder.start(sys._getframe(1), model)
        self._recorder = recorder
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder, self._recorder = self._recorder, None
        assert recorder is not None, "the block was entered"
        self._finished = recorder.finish(error, sys._getframe(1))

    @property
    def backward_calls(self) -> int:
        """How many calls of ``backward()`` and ``grad()`` it has seen so far."""
        if self._finished is not None:
            return self._finished.backward_calls
        return self._recorder.backward_calls if self._recorder is not None else 0

    def abandon(self) -> None:
        """End it without a result, from outside of the block; torch is as before. Safe to call at any time."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.abandon()

    def __str__(self) -> str:
        return super().__str__() if self._finished is not None else f"<gradviz.Recording: {self._state()}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return super()._repr_mimebundle_() if self._finished is not None else {"text/plain": str(self)}

    def _state(self) -> str:
        return "the recording is still running" if self._recorder is not None else "nothing was recorded yet"


class Watch:
    """A model that is watched, until `close` or the end of a ``with`` block."""

    def __init__(self, path: Path, watching: ModelWatch | None) -> None:
        self.path = path
        """The run log."""
        self._watching = watching

    def __repr__(self) -> str:
        return f"<gradviz.Watch: step {self.steps:,}, writing {self.path.name}>"

    @property
    def steps(self) -> int:
        """Backward calls that were counted so far; 0 in a process of a distributed training that does not write."""
        return self._watching.step if self._watching is not None else 0

    def close(self) -> None:
        """Write what is left, and take every hook off; safe to call twice."""
        if self._watching is not None:
            self._watching.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _run_log_path(to: Any) -> Path:
    """Where the run log goes, once it is sure that it can be written there."""
    from gradviz.capture.capture_file import CAPTURE_SUFFIX
    from gradviz.output import check_outputs

    if not isinstance(to, (str, os.PathLike)):
        raise BadInput(f"to= takes the path of a file, not an object of type {type(to).__name__}")
    path = Path(to)
    if path.suffix != CAPTURE_SUFFIX:
        raise BadInput(f"to={os.fspath(to)!r}: a run log's name ends in {CAPTURE_SUFFIX}")
    check_outputs([path])
    return path.absolute()


def _tensorboard_folder(tensorboard: Any) -> Path | None:
    if tensorboard is None:
        return None
    if not isinstance(tensorboard, (str, os.PathLike)) or not os.fspath(tensorboard):
        raise BadInput(f"tensorboard={tensorboard!r} is not the path of a folder", hint="tensorboard='runs' makes one")
    return Path(tensorboard)
