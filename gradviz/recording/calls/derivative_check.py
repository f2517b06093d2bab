"""Compares the backward of custom functions with finite differences of their forward, after the program has ended.

By then their code can change nothing in the training any more: random numbers, counters, running averages. What they
print is discarded. `backward` is called directly, not by the engine, so that the function mode sees every torch call in
it and finds the line on which a wrong gradient was computed.

With ``f(x) = sum(v * forward(x))`` for fixed random ``v``, the element of ``backward(v)`` must be the slope of ``f``
there. In double precision the central difference is right to about eight digits. Where the slopes to the left and right
differ, the function has a corner, and that element is skipped.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gradviz.graph.call_log import DerivativeCheck
from gradviz.recording.backward.program_state import generators_restored
from gradviz.recording.calls.custom_function_samples import Sample, copied_together, modules_in
from gradviz.recording.run.file_kinds import own_line
from gradviz.recording.torch_access.modes import GRAD_SWITCH

MAX_SECONDS = 2.0
"""For one function, of processor time: beside other programs it may take longer."""
_MAX_WAIT = 10.0
"""For one function that waits, in seconds."""
_ELEMENTS = 12
_FEW = 4
"""Of more arguments, as those of a function that is given all parameters of a module, fewer elements are measured."""
_STEP = {torch.float64: 1e-6, torch.float32: 1e-2}
_NOISE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""What rounding may make of a slope, relative to the value."""
_CORNER = {torch.float64: 1e-3, torch.float32: 5e-2}


class NotComparable(Exception):
    """Why a function could not be checked."""


def check_derivatives(sample: Sample) -> list[DerivativeCheck]:
    """One comparison for each argument that required grad; raises `NotComparable` if there can be none."""
    with _undisturbed():
        refusal = ""
        for dtype in (torch.float64, torch.float32):
            try:
                return list(_Probe(sample, dtype).checks())
            except NotComparable:
                raise
            except Exception as error:
                refusal = type(error).__name__  # kernels may accept only what they were written for
        raise NotComparable(f"it could not be called again: {refusal}")


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        # The program's exit handlers run later and may draw random numbers.
        stack.enter_context(generators_restored())
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        warnings.simplefilter("ignore")
        yield


class _Probe:
    """One function at one point."""

    def __init__(self, sample: Sample, dtype: torch.dtype) -> None:
        self._kept: Any = None
        self._sample = sample
        self._dtype = dtype
        self._deadline = time.thread_time() + MAX_SECONDS, time.monotonic() + _MAX_WAIT
        args = copied_together(sample.args)
        self._modules = [module.to(dtype) for module in modules_in(args)]
        own = {id(each) for module in self._modules for each in (*module.parameters(), *module.buffers())}
        self._args = [value if id(value) in own else _cast(value, dtype) for value in args]
        self._of_modules = {index for index, value in enumerate(self._args) if id(value) in own}
        self._buffers = [(each, each.clone()) for module in self._modules for each in module.buffers()]
        self._wanted = [index for index, wants in enumerate(sample.wants_gradient) if wants]
        self._state = torch.get_rng_state(), random.getstate()
        self._weights = self._weights_of(self._outputs())

    def checks(self) -> Iterator[DerivativeCheck]:
        """The comparisons."""
        first, second = self._value(), self._value()
        if not abs(first - second) <= 1e-9 * (1 + abs(first)):
            raise NotComparable("it returns something else each time that it is called")
        outputs = self._outputs()
        is_identity = any(_is_same(output, self._args[index]) for output in outputs for index in self._wanted)
        given, lines = self._backward(1.0)
        doubled, _ = self._backward(2.0)
        cuts = self._cuts()
        may_approximate = bool(self._modules) and not self._saves_what_it_computed()
        for index in self._wanted:
            gradient = given.get(index)
            if gradient is None:
                continue
            slopes, flat = self._slopes(index, gradient)
            yield DerivativeCheck(
                function=self._sample.row.function.removesuffix(".apply"),
                argument=index,
                given=tuple(one for one, _ in slopes),
                measured=tuple(other for _, other in slopes),
                flat=flat,
                is_identity=is_identity,
                ignores_incoming=bool(gradient.any()) and torch.equal(gradient, doubled[index]),
                line=lines.get(index),
                cut_line=cuts.get(index),
                may_approximate=may_approximate,
                dtype=str(self._dtype).removeprefix("torch."),
            )

    # -- forward -------------------------------------------------------------------------------------------------

    def _outputs(self, *, live: bool = False) -> list[torch.Tensor]:
        """What the function returns for copies of the arguments, always with the same random numbers and buffers."""
        if time.thread_time() > self._deadline[0] or time.monotonic() > self._deadline[1]:
            raise NotComparable(f"it takes more than {MAX_SECONDS:g} s of processor time, or waits for {_MAX_WAIT:g} s")
        torch.set_rng_state(self._state[0])
        random.setstate(self._state[1])
        for buffer, before in self._buffers:
            buffer.copy_(before)
        copies = [
            value.clone() if isinstance(value, torch.Tensor) and index not in self._of_modules else value
            for index, value in enumerate(self._args)
        ]
        for index in self._wanted if live else ():
            if index not in self._of_modules:
                copies[index] = copies[index].requires_grad_().clone()
        result = self._sample.function.apply(*copies)
        return [each for each in (result if isinstance(result, tuple) else (result,)) if isinstance(each, torch.Tensor)]

    def _weights_of(self, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        return [
            torch.rand(output.shape, generator=generator, dtype=torch.float64, device="cpu").add(0.5)
            for output in outputs
        ]

    def _value(self) -> float:
        """The value of the function: the weighted sum of its outputs."""
        total = 0.0
        for output, weight in zip(self._outputs(), self._weights, strict=True):
            if output.is_floating_point():
                total += float((output.detach().to("cpu", torch.float64) * weight).sum())
        return total

    def _slopes(self, index: int, gradient: torch.Tensor) -> tuple[list[tuple[float, float]], int]:
        """Returned and measured slope of some elements, and how many others are flat but have a nonzero gradient."""
        slopes: list[tuple[float, float]] = []
        flat = 0
        middle = self._value()
        is_symmetric = _is_symmetric(self._args[index])
        for element in _some_elements(gradient, max(_ELEMENTS * _FEW // max(len(self._wanted), _FEW), _FEW)):
            places = _places(element, gradient.shape, is_symmetric=is_symmetric)
            given = sum(float(gradient[place]) for place in places)
            size = _STEP[self._dtype] * max(1.0, abs(float(self._args[index].detach()[places[0]])))
            above, below = (self._value_beside(index, places, step) for step in (size, -size))
            right, left = (above - middle) / size, (middle - below) / size
            noise = _NOISE[self._dtype] * (1 + abs(middle))
            if max(abs(given), abs(right), abs(left)) <= noise:
                slopes.append((0.0, 0.0))  # as of a bias before a batch normalization
            elif above == middle == below:
                flat += 1
            elif abs(right - left) <= _CORNER[self._dtype] * max(abs(right), abs(left)) + noise:
                slopes.append((given, (right + left) / 2))
        return slopes, flat

    def _value_beside(self, index: int, places: list[tuple[int, ...]], step: float) -> float:
        values = self._args[index].detach()
        before = [values[place].clone() for place in places]
        for place in places:
            values[place] += step
        try:
            return self._value()
        finally:
            for place, value in zip(places, before, strict=True):
                values[place] = value

    # -- backward ------------------------------------------------------------------------------------------------

    def _backward(self, factor: float) -> tuple[dict[int, torch.Tensor], dict[int, tuple[str, int]]]:
        """What ``backward`` returns for each argument, and the lines on which it was computed."""
        node, incoming = self._ready(factor)
        before = torch.get_rng_state()
        with torch.no_grad(), _Lines() as lines:
            results = self._results(node, incoming)
        if self._modules and not torch.equal(before, torch.get_rng_state()):
            raise NotComparable("its backward draws random numbers")
        given = {}
        for index in self._wanted:
            gradient = results[index] if index < len(results) else None
            if isinstance(gradient, torch.Tensor):
                given[index] = gradient.sum_to_size(self._args[index].shape).to(torch.float64)
        found = {index: line for index in given if (line := lines.line_of(results[index])) is not None}
        return given, found

    def _cuts(self) -> dict[int, tuple[str, int]]:
        """The lines on which ``backward`` detaches a gradient, seen by calling it as ``create_graph=True`` does.

        If that raises, it raises in the program as well.
        """
        node, incoming = self._ready(1.0)
        for gradient in incoming:
            gradient.requires_grad_(gradient.is_floating_point())
        with _Lines() as lines:
            try:
                results = self._results(node, incoming)
            except Exception:
                return {}
        cut = lines.cut
        asked = [index for index in self._wanted if index < len(results) and isinstance(results[index], torch.Tensor)]
        return {index: cut for index in asked if cut is not None and not results[index].requires_grad}

    def _saves_what_it_computed(self) -> bool:
        """Whether forward saves a tensor other than those that it takes and returns."""
        node, _ = self._ready(1.0)
        known = [value for value in (*self._args, *self._kept) if isinstance(value, torch.Tensor)]
        return any(not any(_is_same(saved, value) for value in known) for saved in node.saved_tensors)

    def _ready(self, factor: float) -> tuple[Any, list[torch.Tensor]]:
        """A node of a new call, and its incoming gradients."""
        # Kept: in some releases of torch a node drops its saved tensors once its outputs are gone.
        self._kept = outputs = self._outputs(live=True)
        node: Any = next(output.grad_fn for output in outputs if output.grad_fn is not None)
        return node, [
            (weight * factor).to(output.device, output.dtype if output.is_floating_point() else torch.float32)
            for weight, output in zip(self._weights, outputs, strict=True)
        ]

    def _results(self, node: Any, incoming: list[torch.Tensor]) -> tuple[Any, ...]:
        result = self._sample.function.backward(node, *incoming)
        return result if isinstance(result, tuple) else (result,)


class _Lines(TorchFunctionMode):
    """Remembers on which line of the program each tensor was computed last."""

    def __init__(self) -> None:
        super().__init__()
        self.cut: tuple[str, int] | None = None
        """The last line that got a tensor that requires grad, and returned one that does not."""
        self._switched_off: tuple[str, int] | None = None
        self._lines: dict[int, tuple[str, int]] = {}
        self._kept: list[Any] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        line = own_line((frame.f_code, line) for frame, line in traceback.walk_stack(sys._getframe(1)))
        if func is GRAD_SWITCH:
            self._switched_off = None if args[0] else line
        if getattr(func, "__name__", "") in _ONLY_SHAPES and args:
            line = self._lines.get(id(args[0]), line)
        changed = args[:1] if result is None else (result,)  # Assigning to elements returns None.
        for tensor in result if isinstance(result, (tuple, list)) else changed:
            if isinstance(tensor, torch.Tensor) and line is not None:
                self._lines[id(tensor)] = line
                self._kept.append(tensor)
                if tensor.is_floating_point() and not tensor.requires_grad and any(map(_is_live, args)):
                    self.cut = self._switched_off or line
        return result

    def line_of(self, tensor: Any) -> tuple[str, int] | None:
        """File and line; None for tensors that were not computed here."""
        return self._lines.get(id(tensor))


_ONLY_SHAPES = frozenset(
    [
        "view",
        "reshape",
        "view_as",
        "reshape_as",
        "expand",
        "expand_as",
        "contiguous",
        "squeeze",
        "unsqueeze",
        "to",
        "type_as",
        "clone",
        "flatten",
        "sum_to_size",
        "detach",
        "float",
        "double",
        "half",
    ]
)
"""Their result holds values that were computed before."""


def _is_live(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and argument.requires_grad


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(dtype).contiguous() if value.is_floating_point() else value
    return type(value)(_cast(each, dtype) for each in value) if type(value) in (tuple, list) else value


def _is_same(output: torch.Tensor, given: Any) -> bool:
    return output.shape == given.shape and bool(torch.equal(output.detach().to(given.dtype), given))


def _is_symmetric(argument: torch.Tensor) -> bool:
    """Whether it holds symmetric matrices, as a covariance is: a function of these may read one triangle alone."""
    values = argument.detach()
    return values.dim() > 1 and values.shape[-1] == values.shape[-2] and torch.equal(values, values.mT)


def _places(element: int, shape: torch.Size, *, is_symmetric: bool) -> list[tuple[int, ...]]:
    """An element, by its number; of a symmetric matrix both elements that stay equal. What both bring together is their
    sum, however a backward shares it between them."""
    place = tuple(int(each) for each in torch.unravel_index(torch.tensor(element), shape))
    mirrored = (*place[:-2], *place[:-3:-1])
    return [place, mirrored] if is_symmetric and mirrored != place else [place]


def _some_elements(gradient: torch.Tensor, elements: int) -> list[int]:
    """Indices of elements to check: half have the largest gradients, the others are evenly spaced."""
    flat = gradient.flatten()
    count = flat.numel()
    largest = flat.abs().topk(min(elements // 2, count)).indices.tolist()
    spaced = range(0, count, max(1, count // (elements // 2)))
    return sorted({*largest, *spaced})
