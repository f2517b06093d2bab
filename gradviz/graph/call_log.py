"""The torch calls of a run as one dataflow: which tensors each call took and returned, and from which line.

A graph shows what autograd will differentiate. Calls that made no node explain what is *not* in it: a missing gradient,
a value that was changed after it was saved, a NaN that appeared in forward. So every call is a row of this log, in the
order in which they began, and diagnoses query it: see `gradviz.analysis.dataflow.dataflow`.

Tensors are numbered in the order in which they were first seen; a number means one tensor object of torch, however many
Python names it has. What a call knows of a tensor (its version, whether it requires grad, its values) is in the
`TensorUse` of that call.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gradviz.graph.bounded_types import (
    Bits32,
    Bits64,
    Cosine,
    Count,
    Finite,
    Index,
    LineNumber,
    Magnitude,
    NodeCount,
    Number,
)
from gradviz.graph.fingerprints import Fingerprint
from gradviz.graph.model import CallSite, ModuleScope, Scalar
from gradviz.graph.modules_and_schedules import (
    IdleAttribute,
    MadeLoader,
    RepeatedModule,
    Schedule,
    StateLoad,
    UnknownKeys,
)
from gradviz.graph.tensor_facts import TensorFacts

CallKind = Literal[
    "operation",
    "custom",
    "compiled",
    "backward",
    "step",
    "zero_grad",
    "add_param_group",
    "register_parameter",
    "register_module",
    "make_module",
]
"""``operation``: a torch function or method; ``custom``: an ``autograd.Function``, where the calls in its forward are
`Call.inside`; ``compiled``: everything in one call of compiled code; ``backward``: ``backward()`` or ``grad()``;
``step``, ``zero_grad``, ``add_param_group``: of optimizers (``zero_grad`` also of modules); ``register_parameter``: a
module got a parameter that replaces another (inputs ``new``, ``old``), one that was made from a tensor with a
``grad_fn`` (``source``), or one that shares the memory of another parameter (``shared``); ``register_module``: a child
replaces another (``new.weight``, ``old.weight``); ``make_module``: construction of a module began, and `Call.function`
is its class."""

GradMode = Literal["enabled", "no_grad", "inference"]


class ValueFacts(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """Statistics of a tensor's values; of complex tensors over all real and imaginary parts, of booleans as 0 and 1.

    Also for one Python number that was read from torch: then `count` is 1.
    """

    count: Count
    """Elements."""
    minimum: Finite | None = None
    """Of the finite values; None where there are none."""
    maximum: Finite | None = None
    zeros: Count = 0
    nans: Count = 0
    infs: Count = 0
    equal_rows: bool = False
    """Whether all are the same along the first axis, though not all the same number: a batch of one sample. It is only
    looked for in floating-point numbers without a gradient, of four rows or more."""

    @property
    def is_finite(self) -> bool:
        return not self.nans and not self.infs


class TensorUse(Struct, frozen=True, array_like=True, gc=False):
    """A tensor as one call received it, or as it was when the call had ended."""

    tensor: Index
    """Index in `CallLog.tensors`."""
    place: str
    """Its position: ``0`` or ``weight`` for an argument, ``0[2]`` in a list; ``return`` or ``return[1]`` for a result.
    A tensor that was changed in place without being returned has the position of the argument."""
    version: Count | None
    """torch's version counter; None for inference tensors, which have none."""
    requires_grad: bool
    is_leaf: bool
    values: ValueFacts | None = None
    """Of outputs; of inputs only where no earlier call has them."""
    fingerprint: Fingerprint | None = None
    """The same, if fingerprints were asked for."""

    @property
    def has_grad_fn(self) -> bool:
        return self.requires_grad and not self.is_leaf

    @property
    def is_live_leaf(self) -> bool:
        """Whether it is a leaf that receives a gradient."""
        return self.requires_grad and self.is_leaf


class RandomDraw(Struct, frozen=True, array_like=True, gc=False):
    """Random numbers that a call drew. Two runs drew the same ones there if both checksums are the same."""

    generator: str
    """``cpu``, ``cuda:0``; ``generator=`` for one that the program passed to the call."""
    before: Bits32
    """Checksum of the generator's state before the call."""
    after: Bits32


IGNORED_CLASS = -100
"""The class that ``cross_entropy()`` leaves out, unless it is told another one."""


class Padding(Struct, frozen=True, array_like=True, gc=False):
    """What pads a matrix of ids: an id with which rows end, or begin, so that they have the same length."""

    value: Annotated[int, Meta(ge=-(2**62), le=2**62)]
    count: Count
    """The positions that are padding."""
    of: Count
    """All positions."""
    axis: Literal[0, 1] = 1
    """The axis along which the sequences lie."""
    is_at_end: bool = True
    least: Count = 0
    """How many of it the longest sequence has: one or more where the id also ends each sequence, or all are padded."""


class Call(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, dict=True):
    """One call. Its number is its index in `CallLog.calls`."""

    function: str
    """``torch.Tensor.detach``, ``torch.nn.functional.linear``; ``torch.Tensor.data`` reads and
    ``torch.Tensor.data.__set__`` assigns; ``torch.Tensor.grad`` where the program read it and it was None; for a custom
    function ``MyFunction.apply``; ``torch.optim.SGD.step``."""
    kind: CallKind = "operation"
    call_site: Index | None = None
    """Index in `CallLog.call_sites` of the innermost line outside torch."""
    scope: Index | None = None
    """Index in `CallLog.scopes` of the module call in which it ran."""
    inputs: tuple[TensorUse, ...] = ()
    outputs: tuple[TensorUse, ...] = ()
    """Tensors that it returned, and those that it changed in place."""
    scalars: dict[str, Scalar] = {}
    """Python numbers, booleans and short strings among its arguments, by position."""
    result: Scalar = None
    """The Python number that it returned: for ``item()``, ``float()``, ``bool()``."""
    results: tuple[float | int | bool, ...] = ()
    """The first numbers of a list that it returned: for ``tolist()``."""
    sequence_nr: Count | None = None
    """Of the first autograd node that it made; None where it made none."""
    node_count: NodeCount = 0
    """Its nodes have the sequence numbers from `sequence_nr` on."""
    inner_nr: Count = 0
    """For a call inside compiled code, whose nodes all have the `sequence_nr` of that code: `Node.inner_nr` of the
    first node that it made; the others have those that follow."""
    is_opened: bool = False
    """For compiled code: whether the calls inside it follow, as they would have run without compilation."""
    inside: Index | None = None
    """The call inside which it ran: a custom function, a backward or an optimizer step."""
    grad_mode: GradMode = "enabled"
    grad_mode_site: Index | None = None
    """Index in `CallLog.call_sites` of the ``with`` line, decorator or ``set_grad_enabled(False)`` that switched
    gradients off, if they were off and it is known."""
    checkpoint_site: Index | None = None
    """For a call that may draw random numbers: index in `CallLog.call_sites` of the line that called a checkpoint
    around it with ``preserve_rng_state=False``."""
    redrawn_site: Index | None = None
    """For a draw in the forward of a custom function: index in `CallLog.call_sites` of the line in its backward that
    called backward on what it had computed again, with other random numbers."""
    is_autocast: bool = False
    misses_calls: bool = False
    """For a backward: whether calls under ``no_grad`` since the one before were left out, because their block had run
    often."""
    raised: str | None = None
    """``RuntimeError: ...``: type and first line of the exception that it raised."""
    optimizer: Index | None = None
    """Index in `CallLog.optimizers`, for optimizer calls."""
    name: str | None = None
    """For ``register_parameter`` and ``register_module``, the attribute; for ``make_module``, the path of a module that
    was called, as in scopes; for ``backward``, its number within the run."""
    definition: Index | None = None
    """Index in `CallLog.definitions`: for a custom function its backward, for ``register_hook`` the hook. Hooks of
    modules are ``torch.nn.Module.register_full_backward_hook``, in the scope of the first call in which they were seen.
    """
    draw: RandomDraw | None = None
    """The random numbers that it drew, if any and if fingerprints were asked for."""
    checksums: dict[str, Bits64] = {}
    """For calls that look up, choose or compare classes (``embedding``, ``gather``, ``cross_entropy``): by place, a
    checksum of the integers of each input, whatever its shape."""
    padding: dict[str, Padding] = {}
    """For the first such calls of each line: by place, what pads the ids of an input. That of an input which was
    flattened has the axes from before."""

    @property
    def roots(self) -> tuple[TensorUse, ...]:
        """The tensors from which a backward call started; none for a ``GradientEdge``, which holds no tensor."""
        return tuple(use for use in self.inputs if use.place.startswith("root"))

    @property
    def asked(self) -> tuple[TensorUse, ...]:
        """The tensors whose gradients a backward call was asked for with ``inputs=``."""
        return tuple(use for use in self.inputs if use.place.startswith("input"))

    @property
    def node_keys(self) -> tuple[tuple[int, int], ...]:
        """`Node.key` of the autograd nodes that it made."""
        if self.sequence_nr is None:
            return ()
        first, inner = self.sequence_nr, self.inner_nr
        return tuple((first, inner + index) if inner else (first + index, 0) for index in range(self.node_count))

    # Rules ask these two of each call a dozen times.
    @cached_property
    def live_inputs(self) -> tuple[TensorUse, ...]:
        """The inputs that required grad."""
        return tuple(use for use in self.inputs if use.requires_grad)

    @cached_property
    def changed(self) -> tuple[TensorUse, ...]:
        """Tensors as they were after it had changed them in place."""
        if not any(use.version for use in self.outputs):
            return ()  # the usual case: nothing was ever changed
        before = {use.tensor: use.version for use in self.inputs}
        return tuple(
            use
            for use in {use.tensor: use for use in self.outputs}.values()
            if use.tensor in before and before[use.tensor] != use.version
        )


def words_of_error(type_name: str, message: str) -> str:
    """Type and first line of the message of an exception, as `Call.raised` has them."""
    lines = message.splitlines() or [""]
    return f"{type_name}: {lines[0][:_MAX_MESSAGE]}".removesuffix(": ")


_MAX_MESSAGE = 300


class LeafEnd(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """The state of a parameter, or of another leaf that could have a gradient, when the program ended."""

    requires_grad: bool = True
    has_grad: bool = False
    norm: Magnitude | None = None
    """L2 norm of ``.grad``; None where there is none, or it is not finite."""
    grad: ValueFacts | None = None
    has_changed: bool | None = None
    """Whether its values are others than before an optimizer stepped on it for the first time; None where no step was
    seen, and for tensors whose values cannot be read."""
    dtype: str | None = None
    """If it is another one than at first, such as after ``model.half()``."""


class Holder(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """The object that keeps a tensor alive."""

    path: str
    """The path to it from a variable: ``history[0]['logits'][3]``."""
    is_in_module: bool = False
    """True where the path leads through attributes of a module."""
    lines: tuple[tuple[str, LineNumber], ...] = ()
    """Files and lines that put something into the list or dict that holds it, as far as they name it."""


class LoggedTensor(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """One tensor, as it was when it was first seen."""

    facts: TensorFacts
    first_seen: Index | None = None
    """The call that made it or used it first; None for parameters that no call took."""
    producer: Index | None = None
    """The call that returned it first; None for tensors whose making was not recorded."""
    storage: Index | None = None
    """The same number for tensors that share their memory; None where torch does not tell. ``x.data = y`` gives ``x``
    the storage of ``y``, which is not recorded here."""
    requires_grad: bool = False
    is_leaf: bool = True
    role: Literal["parameter", "buffer", "tensor"] = "tensor"
    names: tuple[str, ...] = ()
    """Dotted names from modules, then variables that held it when backward ran or when the program ended."""
    gradient_of: Index | None = None
    """The leaf whose ``.grad`` it was."""
    from_numpy_of: Index | None = None
    """The tensor from whose ``numpy()`` array it was made, where both share memory."""
    array_of: Index | None = None
    """The oldest tensor of the same elements of the same memory, which was still held, though each has a storage of its
    own: both were made of one array, as by ``from_numpy()``, without a copy."""
    hidden_in: str | None = None
    """Path of a module that holds it in a plain list, dict or attribute, though no module has it as a parameter:
    ``parameters()`` leaves it out. Only for trainable tensors."""
    is_used_elsewhere: bool = False
    """True for a parameter of a module whose calls are not in the log: it ran on another thread, or as TorchScript."""
    is_in_script: bool = False
    """Whether TorchScript, made by ``torch.jit.script`` or ``torch.jit.trace``, is why."""
    is_moved: bool | None = None
    """Whether the steps of optimizers have changed its values, up to the last one; None where no step was seen, and for
    tensors whose values cannot be read. Unlike `end`, it is known of tensors that were freed before the end."""
    has_equal_units: bool = False
    """Whether a step has changed it, and since then all its rows, or all its columns, held the same values."""
    end: LeafEnd | None = None
    """For leaves that existed at the end."""
    alive_after: Index | None = None
    """For a tensor with a ``grad_fn`` and for an input that required grad, the last of `CallLog.moments` at which it
    was still alive."""
    holder: Holder | None = None
    """What held it then, if that was found."""


class RateTurn(Struct, frozen=True, array_like=True, gc=False):
    """A step after which a learning rate rose that had fallen, or fell that had risen."""

    step: Count
    """Its number among the steps of the optimizer."""
    rate: Number
    following: Number
    """That of the next step."""


class SharedSteps(Struct, frozen=True):
    """Steps of two optimizers on the same parameters, by turns."""

    optimizers: tuple[Index, Index]
    """Indexes in `CallLog.optimizers`."""
    tensors: tuple[Index, ...]
    cosines: tuple[Cosine, ...] = ()
    """Of the gradients that a step of the one and the next step of the other used, over all these parameters."""


class LoggedOptimizer(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """An optimizer that was made or that stepped."""

    class_name: str
    names: tuple[str, ...] = ()
    """Variables that held it."""
    groups: tuple[tuple[Index, ...], ...] = ()
    """The tensors in each of its parameter groups, in their last state."""
    learning_rates: tuple[Number | None, ...] = ()
    """Of each group; None where it is not a number."""
    highest_rates: tuple[Number | None, ...] = ()
    """Of each group, the highest learning rate at any step, or before a schedule began; empty if no step was seen."""
    idle_steps: tuple[Count, ...] = ()
    """Of each group, the steps at which its learning rate was less than a ten-thousandth of its highest until then."""
    keeps_state: bool = False
    """Whether it kept tensors from step to step, as momentum and Adam's averages are."""
    weight_decays: tuple[Number | None, ...] = ()
    """Of each group; None where it has none, or it is not a number."""
    steps_from_zero: Count = 0
    """The steps before the first one at which any group had a learning rate other than 0."""
    steps: Count = 0
    """All steps that it made, also those that are not in the log any more."""
    rate_changes: Count = 0
    """The steps at which the learning rate of the first group was another one than before."""
    rate_turns: tuple[RateTurn, ...] = ()
    """The first turns of that learning rate."""
    first_rate: Number | None = None
    """That learning rate at the first step."""
    maximizes: bool = False
    """Whether a group went up the gradient at a step: ``maximize=True``."""
    epsilons: tuple[Number | None, ...] = ()
    """``eps`` of each group; None where it has none, or it is not a number."""
    betas: tuple[tuple[Number, Number] | None, ...] = ()
    """``betas`` of each group: what the averages of gradients and of their squares keep at each step; None where it has
    no two numbers."""
    made_rates: tuple[Number | None, ...] = ()
    """The learning rate that each group was added with."""
    levelled_steps: Count = 0
    """The steps at which all groups had the same learning rate, though they were added with different ones."""
    own_state_at: Index | None = None
    """Index in `CallLog.call_sites` of the first ``load_state_dict()`` that gave it tensors of its own state."""
    keeps_squares: bool = False
    """Whether it keeps a tensor as large as a parameter that is never negative, as averages of squares are. It is only
    looked at where the first of `betas` is larger than the second."""
    decays_apart: bool = False
    """Whether it takes its weight decay off the weights, apart from the gradient: ``decoupled_weight_decay=True``."""


class Definition(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A function of the program that torch calls back. `Capture.sources` has its lines."""

    name: str
    file: str
    first_line: LineNumber
    last_line: LineNumber
    returns: tuple[LineNumber, ...] = ()
    """Lines that return something other than None."""
    in_place: tuple[LineNumber, ...] = ()
    """For a hook, lines that change something in place (``grad *= 2``, ``grad.clamp_()``); if there are none, lines
    that assign to elements."""
    once_differentiable_line: LineNumber | None = None
    """For a custom function's backward, the line of ``@once_differentiable``, if it has one."""
    attributes: tuple[tuple[str, LineNumber], ...] = ()
    """For a custom function's backward, the attributes that its forward puts on ``ctx``, and on which lines."""


class DerivativeCheck(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """The gradient that a custom function's backward returns for one argument, and the slope of its forward.

    Measured after the program ended, at a point with which it was called, for some elements.
    """

    function: str
    """Name of the class."""
    argument: Index
    """Index among the arguments of forward."""
    given: tuple[Number, ...] = ()
    """The gradient from backward for each compared element."""
    measured: tuple[Number, ...] = ()
    """The slope there, by finite differences."""
    flat: Count = 0
    """Other elements for which backward returns a gradient though a small step changes nothing."""
    is_identity: bool = False
    """Forward returns its input unchanged: its backward exists to change gradients."""
    ignores_incoming: bool = False
    """Backward returns the same whatever gradient arrives."""
    line: tuple[str, LineNumber] | None = None
    """File and line that computed that gradient last; None where backward returns its input unchanged."""
    cut_line: tuple[str, LineNumber] | None = None
    """File and line on which backward cuts off the second derivative: its result does not require grad, though the
    gradient that arrived did."""
    dtype: str = "float64"
    may_approximate: bool = False
    """Forward calls a module and saves nothing that it computed on the way: backward may solve an equation of its own,
    as a continuous adjoint does, and be near the slope only."""


class CallLog(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """Every recorded call, in the order in which they began."""

    calls: tuple[Call, ...] = ()
    tensors: tuple[LoggedTensor, ...] = ()
    call_sites: tuple[CallSite, ...] = ()
    scopes: tuple[ModuleScope, ...] = ()
    optimizers: tuple[LoggedOptimizer, ...] = ()
    definitions: tuple[Definition, ...] = ()
    derivatives: tuple[DerivativeCheck, ...] = ()
    """For custom functions of the program, in the order of their first calls."""
    dropped: Count = 0
    """Calls that were dropped to limit memory; nothing that is kept was computed by them, unless the capture's
    disclosures say so."""
    dropped_at: Index | None = None
    """The index in `calls` where they are missing."""
    moments: tuple[Index, ...] = ()
    """Calls after which the live tensors were checked: before some of the backward calls, and at the end of the
    program."""
    shared_steps: tuple[SharedSteps, ...] = ()
    """For each two optimizers that step on the same parameters by turns."""
    loads: tuple[StateLoad, ...] = ()
    """What was loaded with ``strict=False``, in order."""
    unknown_keys: tuple[UnknownKeys, ...] = ()
    """What ``functional_call()`` was given that names nothing, each once."""
    idle_attributes: tuple[IdleAttribute, ...] = ()
    repeated_modules: tuple[RepeatedModule, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    """In the order in which they were made."""
    loaders: tuple[MadeLoader, ...] = ()
    """The same."""

    @property
    def own_files(self) -> set[str]:
        """The files of the program in which torch was called, without libraries."""
        return {site.file for site in self.call_sites if not site.is_library}

    def __repr__(self) -> str:
        return f"<gradviz.CallLog of {len(self.calls):,} calls on {len(self.tensors):,} tensors>"

    def memory_of(self, tensor: int) -> int:
        """The number of its storage; for a tensor without any, one below zero of its own."""
        storage = self.tensors[tensor].storage
        return -1 - tensor if storage is None else storage

    @property
    def parameters(self) -> tuple[int, ...]:
        """Numbers of the tensors that could receive a gradient: parameters, and leaves that required grad."""
        return tuple(
            number
            for number, tensor in enumerate(self.tensors)
            if tensor.role == "parameter" or (tensor.is_leaf and tensor.requires_grad)
        )
