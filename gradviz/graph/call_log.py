"""The torch calls of a run as one dataflow: which call took which tensors, gave which, and from which line.

A graph shows what autograd will differentiate. Why something is *not* in it (a gradient that is missing, a value that
was changed after it was saved, a NaN that was born in forward) lies in calls that made no node at all. So every call
is a row of this log, in the order in which they began, and diagnoses are questions to it: see
`gradviz.analysis.dataflow.dataflow`.

Tensors are numbered in the order in which they were first seen; a number means one tensor object of torch, however
many Python names it has. What is known of a tensor at one moment (its version, whether it requires grad, its values)
stands in the `TensorUse` of the call that took it or gave it back.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.model import CallSite, ModuleScope, Scalar
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
"""``operation``: a torch function or method; ``custom``: an ``autograd.Function``, of which calls in its forward are
`Call.inside`; ``compiled``: all that one call of compiled code did; ``backward``: ``backward()`` or ``grad()``;
``step``, ``zero_grad``, ``add_param_group``: of optimizers (``zero_grad`` also of modules); ``register_parameter``: a
module got a parameter in place of another (inputs ``new``, ``old``), one that was made from a tensor with a ``grad_fn``
(``source``), or one that lies in the memory of another parameter (``shared``); ``register_module``: a child in place
of another (``new.weight``, ``old.weight``); ``make_module``: a module began to be made, and `Call.function` is its
class."""

GradMode = Literal["enabled", "no_grad", "inference"]


class ValueFacts(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The values of a tensor in figures; of complex ones those of all real and imaginary parts, of truth values 0
    and 1.

    Also of one Python number that left torch: then `count` is 1.
    """

    count: int
    """Elements."""
    minimum: float | None = None
    """Of the finite ones; None where there are none."""
    maximum: float | None = None
    zeros: int = 0
    nans: int = 0
    infs: int = 0

    @property
    def is_finite(self) -> bool:
        return not self.nans and not self.infs


class TensorUse(Struct, frozen=True, array_like=True, gc=False):
    """A tensor as one call received it, or as it was when the call had ended."""

    tensor: int
    """Index in `CallLog.tensors`."""
    place: str
    """Where it stood: ``0`` or ``weight`` for an argument, ``0[2]`` in a list; ``return`` or ``return[1]`` for what
    was given back. A tensor that was changed in place without being returned has the place of the argument."""
    version: int | None
    """torch's version counter; None for inference tensors, which have none."""
    requires_grad: bool
    is_leaf: bool
    values: ValueFacts | None = None
    """Of outputs; of inputs only where no earlier call told them."""

    @property
    def has_grad_fn(self) -> bool:
        return self.requires_grad and not self.is_leaf

    @property
    def is_live_leaf(self) -> bool:
        """Whether a gradient ends at it."""
        return self.requires_grad and self.is_leaf


class Call(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """One call. Its number is its place in `CallLog.calls`."""

    function: str
    """``torch.Tensor.detach``, ``torch.nn.functional.linear``; ``torch.Tensor.data`` reads and
    ``torch.Tensor.data.__set__`` assigns; ``torch.Tensor.grad`` where the program read it and it was None; for a
    custom function ``MyFunction.apply``; ``torch.optim.SGD.step``."""
    kind: CallKind = "operation"
    call_site: int | None = None
    """Index in `CallLog.call_sites` of the innermost line outside torch."""
    scope: int | None = None
    """Index in `CallLog.scopes` of the module call in which it ran."""
    inputs: tuple[TensorUse, ...] = ()
    outputs: tuple[TensorUse, ...] = ()
    """Tensors that it gave back, and those that it changed in place."""
    scalars: dict[str, Scalar] = {}
    """Python numbers, truth values and short texts among its arguments, by place."""
    result: Scalar = None
    """The Python number that it gave back: of ``item()``, ``float()``, ``bool()``."""
    results: tuple[float | int | bool, ...] = ()
    """The first numbers of a list that it gave back: of ``tolist()``."""
    sequence_nr: int | None = None
    """Of the first autograd node that it made; None where it made none."""
    node_count: int = 0
    """Its nodes have the sequence numbers from `sequence_nr` on."""
    inside: int | None = None
    """The call in which it ran: a custom function's, a backward's, an optimizer step's."""
    grad_mode: GradMode = "enabled"
    grad_mode_site: int | None = None
    """Index in `CallLog.call_sites` of the ``with`` line, decorator or ``set_grad_enabled(False)`` that switched
    gradients off, where they were off and it is known."""
    is_autocast: bool = False
    raised: str | None = None
    """``RuntimeError: ...``: type and first line of what it raised."""
    optimizer: int | None = None
    """Index in `CallLog.optimizers`, for the calls of one."""
    name: str | None = None
    """Of ``register_parameter`` and ``register_module``: the attribute; of ``make_module``: the path of a module that
    was called, as scopes have it; of ``backward``: its number within the run."""
    definition: int | None = None
    """Index in `CallLog.definitions`: of a custom function its backward, of ``register_hook`` the hook. Hooks of
    modules are ``torch.nn.Module.register_full_backward_hook``, in the scope of the first call they were seen in."""

    @property
    def roots(self) -> tuple[TensorUse, ...]:
        """What a backward call started from."""
        return tuple(use for use in self.inputs if use.place.startswith("root"))

    @property
    def asked(self) -> tuple[TensorUse, ...]:
        """The tensors whose gradients a backward call was asked for, where it was: ``inputs=``."""
        return tuple(use for use in self.inputs if use.place.startswith("input"))

    @property
    def node_numbers(self) -> range:
        """The sequence numbers of the autograd nodes that it made."""
        return range(0) if self.sequence_nr is None else range(self.sequence_nr, self.sequence_nr + self.node_count)

    @property
    def live_inputs(self) -> tuple[TensorUse, ...]:
        """Those that required grad."""
        return tuple(use for use in self.inputs if use.requires_grad)

    @property
    def changed(self) -> tuple[TensorUse, ...]:
        """Tensors as they were after it had changed them in place."""
        before = {use.tensor: use.version for use in self.inputs}
        return tuple(
            use
            for use in {use.tensor: use for use in self.outputs}.values()
            if use.tensor in before and before[use.tensor] != use.version
        )


class LeafEnd(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """How a parameter, or another leaf that could have a gradient, stood when the program ended."""

    requires_grad: bool = True
    has_grad: bool = False
    norm: float | None = None
    """L2 norm of ``.grad``; None where there is none, or it is not finite."""
    grad: ValueFacts | None = None


class Holder(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What keeps a tensor alive."""

    path: str
    """The way to it from a variable: ``history[0]['logits'][3]``."""
    is_in_module: bool = False
    """True where the way leads through attributes of a module."""
    lines: tuple[tuple[str, int], ...] = ()
    """Files and lines that put something into the list or dict that holds it, as far as they name it."""


class LoggedTensor(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """One tensor, as it was when it was first seen."""

    facts: TensorFacts
    first_seen: int | None = None
    """The call that made it or used it first; None for parameters that no call ever took."""
    producer: int | None = None
    """The call that gave it out first; None for what was made out of sight."""
    storage: int | None = None
    """The same number for tensors that share their memory; None where torch does not tell. ``x.data = y`` gives ``x``
    the storage of ``y``, which is not written here."""
    requires_grad: bool = False
    is_leaf: bool = True
    role: Literal["parameter", "buffer", "tensor"] = "tensor"
    names: tuple[str, ...] = ()
    """Dotted names from modules, then variables that held it when backward ran or when the program ended."""
    gradient_of: int | None = None
    """The leaf whose ``.grad`` it was."""
    from_numpy_of: int | None = None
    """The tensor whose ``numpy()`` array it was made from, where both share memory."""
    hidden_in: str | None = None
    """Path of a module that holds it in a plain list, dict or attribute, and no module as a parameter: ``parameters()``
    does not give it. Only of what could be trained."""
    is_used_elsewhere: bool = False
    """True for a parameter of a module that ran on another thread, whose calls are not in the log."""
    end: LeafEnd | None = None
    """For leaves that were there at the end."""
    alive_after: int | None = None
    """Of a tensor with a history, and of an input that required grad: the last of `CallLog.moments` at which it was
    still alive."""
    holder: Holder | None = None
    """What held it then, where that was found."""


class LoggedOptimizer(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """An optimizer that was made or that stepped."""

    class_name: str
    names: tuple[str, ...] = ()
    """Variables that held it."""
    groups: tuple[tuple[int, ...], ...] = ()
    """The tensors of each of its parameter groups, as they were last."""
    learning_rates: tuple[float | None, ...] = ()
    """Of each group; None where that is no number."""


class Definition(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A function of the program that torch calls back. `Capture.sources` has its lines."""

    name: str
    file: str
    first_line: int
    last_line: int
    returns: tuple[int, ...] = ()
    """Lines on which it gives something back other than None."""
    in_place: tuple[int, ...] = ()
    """Of a hook: lines that change something in place (``grad *= 2``, ``grad.clamp_()``); where there are none, lines
    that assign to elements."""
    once_differentiable_line: int | None = None
    """Of a custom function's backward: where ``@once_differentiable`` stands, if it does."""
    attributes: tuple[tuple[str, int], ...] = ()
    """Of a custom function's backward: the attributes that its forward puts on ``ctx``, and on which lines."""


class DerivativeCheck(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What the backward of a custom function gives for one argument, beside the slope of its forward.

    Tried out when the program had ended, at a point that it was called with, for some elements.
    """

    function: str
    """Name of the class."""
    argument: int
    """Place among the arguments of forward, counted from 0."""
    given: tuple[float, ...] = ()
    """What backward gives for each element that was compared."""
    measured: tuple[float, ...] = ()
    """The slope there, by finite differences."""
    flat: int = 0
    """Other elements for which backward gives a gradient though a small step changes nothing."""
    is_identity: bool = False
    """Forward hands on what it is given: its backward is there to change gradients."""
    ignores_incoming: bool = False
    """Backward gives the same whatever comes in."""
    line: tuple[str, int] | None = None
    """File and line on which that gradient was computed last; None where backward hands on what it got."""
    cut_line: tuple[str, int] | None = None
    """File and line on which backward loses the way to a second derivative: what it gives does not require grad, though
    what came in did."""
    dtype: str = "float64"


class CallLog(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """Every call that was seen, in the order in which they began."""

    calls: tuple[Call, ...] = ()
    tensors: tuple[LoggedTensor, ...] = ()
    call_sites: tuple[CallSite, ...] = ()
    scopes: tuple[ModuleScope, ...] = ()
    optimizers: tuple[LoggedOptimizer, ...] = ()
    definitions: tuple[Definition, ...] = ()
    derivatives: tuple[DerivativeCheck, ...] = ()
    """Of custom functions of the program, in the order of their first calls."""
    dropped: int = 0
    """Calls that were forgotten to bound the memory; nothing that is kept was computed by them, unless the capture's
    disclosures say so."""
    dropped_at: int | None = None
    """The place in `calls` where they are missing."""
    moments: tuple[int, ...] = ()
    """Calls after which was looked which tensors were still alive: before some of the backward calls, and at the end
    of the program."""

    def __repr__(self) -> str:
        return f"<gradviz.CallLog of {len(self.calls):,} calls on {len(self.tensors):,} tensors>"

    @property
    def parameters(self) -> tuple[int, ...]:
        """Numbers of the tensors that a gradient could be wanted for: parameters, and leaves that required grad."""
        return tuple(
            number
            for number, tensor in enumerate(self.tensors)
            if tensor.role == "parameter" or (tensor.is_leaf and tensor.requires_grad)
        )
