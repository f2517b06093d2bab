"""GV842."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, callers, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call


class ClassesInterpolated(Rule):
    """A map of classes is resized with averages of neighbours, so that borders get classes that are not there.

    What it finds
    -------------
    ``interpolate``, ``grid_sample`` or an average pool of whole numbers, in a mode that averages, whose result is cast
    to integers and then taken for the classes of a ``cross_entropy`` or ``one_hot``, with three classes or more. Where
    a function resizes images as well, the line is told that gives it the classes.

    Why it matters
    --------------
    The number of a class is a name. Between class 1 and class 5 there is no class 3, but the average of both is 3: each
    border between two areas gets a seam of other labels, and the model learns it.

    Example
    -------
    model = torch.nn.Conv2d(1, 5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        image, classes = torch.randn(2, 1, 8, 8), torch.randint(0, 5, (2, 16, 16))
        small = torch.nn.functional.interpolate(classes[:, None].float(), size=(8, 8), mode="bilinear")
        loss = torch.nn.functional.cross_entropy(model(image), small[:, 0].long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Conv2d(1, 5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        image, classes = torch.randn(2, 1, 8, 8), torch.randint(0, 5, (2, 16, 16))
        small = torch.nn.functional.interpolate(classes[:, None].float(), size=(8, 8), mode="nearest")
        loss = torch.nn.functional.cross_entropy(model(image), small[:, 0].long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV842"
    name = "classes_interpolated"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, examined, told = case.dataflow, Counter[int | None](), set[int | None]()
        for row, call in calls_named(flow, _RESIZE | _POOLS):
            site = call.call_site
            if site in told or examined[site] > _MAX_EXAMINED or call.live_inputs or not _averages(call):
                continue
            if not flow.has_step_after(row) or not call.outputs or not _has_whole_numbers(flow, row, call):
                continue
            examined[site] += 1
            used = _use_as_classes(flow, row, call, is_joined=_is_joined(flow, row, call))
            if used is not None:
                told.add(site)
                yield self._finding(flow, row, used)

    def _finding(self, flow: Dataflow, row: int, used: int) -> Finding:
        call, loss = flow.log.calls[row], flow.log.calls[used]
        location, other = two_lines(flow, row, used)
        given = _line_that_gave(flow, row)
        if given is not None:
            location, other = given, location
        mode = call.scalars.get("mode")
        how = f' with mode="{mode}"' if isinstance(mode, str) else ""
        return self.finding(
            f"{call_words(call)}{how} averages the numbers of neighbouring classes, which {call_words(loss)} then "
            "takes for classes: between two areas there are labels of others",
            symptom="grad_wrong",
            why="the numbers of classes are names: the average of classes 1 and 5 is not class 3",
            fix='take the nearest one: mode="nearest"',
            location=location,
            symptom_location=other,
        )


_RESIZE = frozenset({"interpolate", "upsample", "grid_sample", "grid_sampler"})
_POOLS = frozenset({
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
})  # fmt: skip
_AVERAGES = frozenset({"linear", "bilinear", "bicubic", "trilinear", "area"})
_KEEPS = SHAPE_ONLY | {
    "round", "clamp", "clip", "stack", "cat", "long", "int", "short", "byte", "type", "type_as", "detach", "cpu",
    "cuda", "pin_memory", "copy",
}  # fmt: skip
_LOSSES = frozenset({"cross_entropy", "nll_loss"})
_JOIN = frozenset({"cat", "stack", "concat", "concatenate"})
_MAX_EXAMINED = 12
_MAX_FOLLOWED = 200
_INTENSITIES = 256
"""As many classes have intensities of pixels, which have an order."""


def _averages(call: Call) -> bool:
    return plain_name(call.function) in _POOLS or call.scalars.get("mode") in _AVERAGES


def _line_that_gave(flow: Dataflow, row: int) -> Location | None:
    """The line that gave a map of classes to a function that other lines call with other values."""
    rows = [each for each, _ in calls_named(flow, _RESIZE | _POOLS)]
    own, *around = ([location_of_line(line) for line in callers(flow, each)] for each in (row, *rows))
    givers = {each[1] for each in around if len(each) > 1 and each[0] == own[0]}
    return own[1] if min(len(givers), len(own)) > 1 else None


def _has_whole_numbers(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether what is resized was cast from integers, or is made of whole numbers: amounts with fractions have no
    numbers of classes."""
    is_cast = any(_was_cast(flow, part, row) for part in (call.inputs[0].tensor, *_joined_parts(flow, row, call)))
    values = flow.values_of(call.inputs[0], row)
    ends = (None, None) if values is None else (values.minimum, values.maximum)
    return is_cast or (ends[0] == 0 and ends[1] is not None and ends[1].is_integer() and ends[1] >= _MIN_HIGHEST)


def _was_cast(flow: Dataflow, tensor: int, row: int) -> bool:
    for _, maker in flow.makers(tensor, row, _MAX_EXAMINED):
        inputs = [flow.log.tensors[use.tensor].facts for use in maker.inputs]
        if len(inputs) == 1 and inputs[0].dtype.startswith(("int", "uint")):
            return True
        if plain_name(maker.function) not in _KEEPS or not maker.inputs:
            return False
    return False


def _is_joined(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether some of what is resized was cast from integers, and some was not: an image and its map of classes."""
    parts = [_was_cast(flow, part, row) for part in _joined_parts(flow, row, call)]
    return any(parts) and not all(parts)


def _joined_parts(flow: Dataflow, row: int, call: Call) -> tuple[int, ...]:
    """The tensors of which what is resized was joined."""
    for _, maker in flow.makers(call.inputs[0].tensor, row, _MAX_EXAMINED):
        name = plain_name(maker.function)
        if name in _JOIN and len(maker.inputs) > 1:
            return tuple(use.tensor for use in maker.inputs)
        if name not in SHAPE_ONLY:
            break
    return ()


def _use_as_classes(flow: Dataflow, row: int, call: Call, *, is_joined: bool) -> int | None:
    """The call that takes the results for classes, if they were only cast and brought into another shape, and nothing
    else computes with them; what an image is joined with, before it is cast."""
    waiting, seen, found = [(call.outputs[0].tensor, row)], set[int](), list[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, before = waiting.pop()
        for user in flow.users(tensor, before):
            use = flow.log.calls[user]
            if user in seen or use.kind != "operation":
                continue
            seen.add(user)
            name = plain_name(use.function)
            if _takes_classes(flow, use, name, tensor):
                found.append(user)
            elif name in _KEEPS and use.outputs and use.inputs[0].place in ("0", "0[0]", "input", "self"):
                waiting.append((use.outputs[0].tensor, user))
            elif is_joined and flow.log.tensors[tensor].facts.dtype.startswith("float"):
                continue
            elif _reaches_parameters(flow, user, use):
                return None  # a model reads them: intensities, or classes of an earlier map
    return min(found, default=None)


def _reaches_parameters(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call has a parameter, or one soon after it that uses its result."""
    later = flow.descendants(call.outputs[0].tensor, row, row + _MAX_FOLLOWED) if call.outputs else ()
    return any(
        flow.log.tensors[use.tensor].role == "parameter"
        for each in (row, *later[:_MAX_EXAMINED])
        for use in flow.log.calls[each].inputs
    )


def _takes_classes(flow: Dataflow, call: Call, name: str, tensor: int) -> bool:
    facts = flow.log.tensors[tensor].facts
    if not facts.dtype.startswith(("int", "uint")):
        return False
    if name in _LOSSES:
        scores = shape_of(flow, call.inputs[0].tensor)
        is_target = call.inputs[0].tensor != tensor
        return is_target and len(scores) > 1 and _MIN_CLASSES <= scores[1] < _INTENSITIES
    count = call.scalars.get("num_classes", call.scalars.get("1"))
    return name == "one_hot" and isinstance(count, int) and _MIN_CLASSES <= count < _INTENSITIES


_MIN_CLASSES = 3
_MIN_HIGHEST = 2
