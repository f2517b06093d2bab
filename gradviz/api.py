"""The functions of gradviz for Python: `inspect`, `check`, `record`, `diff`, `watch` and `load`.

Only functions that record import torch, when they are called. Looking at a recording never imports it.
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
    from gradviz.check_result import Checked
    from gradviz.diff_result import Differed
    from gradviz.recording.recorded_block import BlockRecorder
    from gradviz.recording.run.recording_plan import RecordingPlan
    from gradviz.recording.watch.model_watch import ModelWatch


def inspect(*tensors: Any, model: Any = None) -> Inspection:
    """Return the autograd graph of existing tensors.

    Nothing is computed, changed or kept alive: no backward runs, and the tensors can be freed as before. Only
    `torch.utils.swap_tensors` refuses them while the inspection exists. Source lines and module calls are unknown,
    because nothing was recorded while the tensors were computed; inside a `record` block they are known.
    `Inspection.backward` of the result also measures gradients.

    Args:
        tensors: tensors of any shape, or lists, tuples, dicts, dataclasses and model outputs that hold tensors.
        model: the module (or a list or dict of modules) whose parameters are named. Without it, modules and tensors
            are named after the variables of the caller that hold them.

    Raises:
        BadInput: the arguments hold no tensor.
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
    from gradviz.recording.inspected_values import inspect_values

    capture, roots = inspect_values(tensors, model, sys._getframe(1))
    return Inspection(capture, roots)


def check(*tensors: Any, model: Any = None, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Checked:
    """Find out why gradients of a loss are missing, zero, NaN or wrong: ``gradviz check`` inside a program.

    It runs and measures a backward that leaves every ``.grad`` as it is. Call it before ``loss.backward()``. It cannot
    know where gradients were cut off before the loss. To find that too, compute the loss in a block, ``with
    gradviz.record(calls=True) as recording:``, and call ``recording.check()`` after the block.

    Args:
        tensors: as for `inspect`; most often the loss.
        model: the module (or a list or dict of modules) that should get gradients: a parameter that is neither in the
            graph nor frozen is a warning.
        select: use only these rules, given by code (``"GV301"``), beginning of a code (``"GV3"``), or name.
        ignore: leave out these rules.

    Raises:
        BadInput: there is no such rule or tensor; or the loss has more than one element; or its graph was freed.
        NothingRecorded: none of the tensors has a ``grad_fn``.

    Example:
        >>> import torch, gradviz
        >>> x = torch.zeros(2, requires_grad=True)
        >>> result = gradviz.check(x.sqrt().sum())
        >>> bool(result), x.grad
        (False, None)
    """
    from gradviz.recording.inspected_values import inspect_values

    capture, roots = inspect_values(tensors, model, sys._getframe(1))
    return Inspection(capture, roots, model_is_given=model is not None).check(select=select, ignore=ignore)


def record(
    *,
    backward: int | Literal["last"] | None = None,
    gradients: bool = True,
    values: int = 0,
    root_shares: bool = False,
    inside: bool = False,
    calls: bool = False,
    fingerprints: bool = False,
    model: Any = None,
) -> Recording:
    """Record what a ``with`` block computes: each operation with its line and module, and every backward call.

    The block runs as it would without the recording. At its end torch is as before, also if the block raises. The
    exception is passed on, and the recording shows how far the program came. If the block calls no backward, the graph
    is that of the tensors that were computed in the block and that variables still hold.

    Args:
        backward: record only this call of ``backward()`` or ``grad()``, counted from 1, or the ``"last"`` one of a
            long run. Without it, record all calls, up to a million nodes.
        gradients: measure the gradient along every edge while backward runs.
        values: keep all numbers of tensors with at most this many elements, in forward and in gradients.
        root_shares: measure what each root, or each term of a loss that is a sum, adds to every leaf's gradient:
            ``graph.root_shares``. Each root or term costs one backward, and memory for its gradients of all leaves.
        inside: measure the gradients inside code of ``torch.compile``, too. It is run a second time for that, without
            compilation, after the program's own backward; what it got is held until then.
        calls: also log every torch call, so that `Inspection.check` knows what was cut off or changed on the way to
            the loss. Of many backward calls only the informative ones are kept.
        fingerprints: also log every torch call, and keep a fingerprint of every tensor, so that `diff` can compare
            values.
        model: the module (or a list or dict of modules) whose parameters are named ``model.…`` if no variable holds
            it, for example inside a training library.

    Returns:
        An `Inspection` that can be used after the block has ended.

    Raises:
        BadInput: ``backward`` is no such number. When the block is entered: ``model`` is no module, or another
            recording is running.

    Example:
        >>> import torch, gradviz
        >>> model = torch.nn.Linear(3, 1)
        >>> with gradviz.record() as recording:
        ...     loss = model(torch.ones(2, 3)).sum()
        ...     loss.backward()
        >>> recording.graph.roots[0].name, recording.graph.scopes[0].path
        ('loss', 'model')
    """
    from gradviz.recording.run.recording_plan import RecordingPlan

    plan = RecordingPlan(
        None if backward == "last" else backward,
        only_last=backward == "last",
        keep_going=True,
        gradients=gradients,
        values_up_to=values,
        root_shares=root_shares,
        inside=inside,
        calls=calls or fingerprints,
        fingerprints=fingerprints,
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
    """Measure the gradients of a model while it trains, for ``gradviz flow run.gradviz --over-steps``.

    A hook on each parameter measures the first step and then every `every`-th one: norms of gradients and weights,
    zeros, NaN and Inf. It changes nothing else in torch, and between these steps a hook does almost nothing.

    A *step* is a backward call that reaches a parameter of the model. The hook measures ``.grad`` as that call leaves
    it. If gradients are accumulated over several calls, choose an `every` that is a multiple of their number: it
    measures the last call of each round. Under DDP the first process writes the file, and measures its own gradients
    before the processes exchange theirs; with ``%r`` in the name, such as ``to="run.rank%r.gradviz"``, every rank
    writes a file of its own. Watch a model after it was wrapped, sharded or converted, not before.

    An older file of that name is replaced. The file is readable while the program trains, also if the program is
    killed. Without `Watch.close`, or a ``with`` block, watching goes on until the program ends.

    Args:
        model: the module that trains; parameters that require no gradient now are not watched.
        every: measure each step whose number is a multiple of this, which is 1 or more.
        to: the run log to write, a ``.gradviz`` file.
        scaler: a ``torch.amp.GradScaler``; norms are then divided by its factor. Without it, the gradients of a scaled
            loss are written as they are, that is, scaled.
        tensorboard: a folder for the same figures as TensorBoard events; needs the package ``tensorboard``.

    Raises:
        BadInput: `model` has nothing to watch, or is watched already; another watch writes `to`; `every` is no such
            number; `to` or `tensorboard` cannot be written.
        MissingDependency: `tensorboard` is given and TensorBoard is not installed.

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

    plan = WatchPlan(path, every, scaler, folder, sys._getframe(1).f_code.co_filename).of_this_rank()
    return Watch(plan.path, begin_watch(model, plan))


def load(path: str | os.PathLike[str]) -> Inspection:
    """Open a ``.gradviz`` file that ``gradviz record`` or `Inspection.save` wrote. Needs no torch.

    Of a job of several processes, ``"run.gradviz@1"`` is rank 1, and ``"run.gradviz"`` the first rank.

    Raises:
        BadInput: the file cannot be read.
        BadCapture: it is no capture, is damaged, or was written by a newer gradviz.

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
    from gradviz.capture.job_file import named_capture

    if Path(path).suffix == ".py":
        raise BadInput(
            f"{os.fspath(path)!r} is a script, not a recording",
            hint=f"run 'gradviz record {os.fspath(path)}' first, or 'gradviz render {os.fspath(path)}'",
        )
    return Inspection(named_capture(os.fspath(path)).capture)


def diff(a: Any, b: Any, *, rtol: float | None = None) -> Differed:
    """Return what is different between two recordings, and where it began. Needs no torch.

    Values can be compared if both were recorded with fingerprints: ``gradviz record --fingerprints``, or
    ``gradviz.record(fingerprints=True)``.

    Args:
        a: a finished recording, an inspection, or the path of a capture; ``"run.gradviz#2"`` is the second backward
            call in it.
        b: the same.
        rtol: the largest distance of two tensors, relative to their norm, that counts as the same; without it, it
            depends on the dtype.

    Raises:
        BadInput: there is no such file or backward call.
        BadCapture: a file is no capture.

    Example:
        >>> import torch, gradviz
        >>> def step(eps):
        ...     torch.manual_seed(0)
        ...     with gradviz.record(fingerprints=True) as recording:
        ...         x = torch.randn(2, 8, requires_grad=True)
        ...         torch.nn.functional.layer_norm(x, (8,), eps=eps).square().sum().backward()
        ...     return recording
        >>> gradviz.diff(step(1e-5), step(1e-6)).first.what
        'layer_norm: eps is 1e-05 in A, 1e-06 in B'
    """
    from gradviz.diff_result import differed

    return differed(a, b, rtol=rtol)


class Recording(Inspection):
    """The `Inspection` of a ``with gradviz.record():`` block; usable after the block has ended."""

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
        from gradviz.recording.recorded_block import BlockRecorder

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
        """How many calls of ``backward()`` and ``grad()`` the block has made so far."""
        if self._finished is not None:
            return self._finished.backward_calls
        return self._recorder.backward_calls if self._recorder is not None else 0

    def abandon(self) -> None:
        """End the recording without a result, from outside the block; torch is as before. Safe to call at any time."""
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
    """Watches a model until `close` or the end of a ``with`` block."""

    def __init__(self, path: Path, watching: ModelWatch | None) -> None:
        self.path = path
        """The run log."""
        self._watching = watching

    def __repr__(self) -> str:
        return f"<gradviz.Watch: step {self.steps:,}, writing {self.path.name}>"

    @property
    def steps(self) -> int:
        """Backward calls counted so far; 0 in a process of a distributed training that does not write the file."""
        return self._watching.step if self._watching is not None else 0

    def close(self) -> None:
        """Write the rest of the file and remove every hook; safe to call twice."""
        if self._watching is not None:
            self._watching.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _run_log_path(to: Any) -> Path:
    """The path of the run log; raises `BadInput` if it cannot be written there."""
    from gradviz.capture.capture_file import CAPTURE_SUFFIX
    from gradviz.file_output import check_outputs

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
