"""GV664."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import argument, calls_in_training, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse


class OtherTemperature(Rule):
    """The logits of a teacher are divided by a temperature, and those of the student are not, or the other way round.

    What it finds
    -------------
    ``kl_div()`` or ``cross_entropy()`` against the softmax of logits that were divided by a temperature above 1, where
    the trained logits reach it as they are; also where the divergence is written as a sum of products, the softmax with
    ``logsumexp()`` or ``exp()``, and where the targets were computed beforehand for all samples. Also the other way
    round, where the loss is multiplied by the square of the temperature, and logits that were multiplied by a number
    whose square the loss is multiplied by.

    Why it matters
    --------------
    A temperature makes the teacher's answers softer, to show which wrong answers are nearly right. The student is to
    match them at the same temperature: without it, it learns to be as unsure as the teacher is made to look.

    Example
    -------
    functional = torch.nn.functional
    teacher, student = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 4)
        with torch.no_grad():
            soft = functional.softmax(teacher(x) / 4.0, dim=1)
        loss = functional.kl_div(functional.log_softmax(student(x), dim=1), soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    functional = torch.nn.functional
    teacher, student = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 4)
        with torch.no_grad():
            soft = functional.softmax(teacher(x) / 4.0, dim=1)
        loss = functional.kl_div(functional.log_softmax(student(x) / 4.0, dim=1), soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV664"
    name = "other_temperature"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, frozenset({"kl_div", "cross_entropy"}) | _PRODUCTS):
            found = ((row, *_sides(flow, row)) for row in dict.fromkeys((*rows[:-_TRIED:-1], *rows[:_TRIED])))
            row, model, teacher = next((each for each in found if each[2] is not None), (rows[-1], None, None))
            hard = None if teacher is not None else _of_student_only(flow, rows[-1])
            if hard is not None:
                yield self._of_student(flow, *hard)
            if teacher is not None and _is_squared_after(flow, row, 1 / teacher[1]):
                yield self._turned(flow, *teacher)
            if model is None or teacher is None or teacher[1] <= 1:
                continue
            student = _last_softmax(flow, model, row)
            if student is not None and _divisor(flow, *student) is None:
                yield self._finding(flow, student[0], *teacher)

    def _turned(self, flow: Dataflow, teacher: int, divisor: float) -> Finding:
        temperature = 1 / divisor
        return self.finding(
            f"logits are multiplied by {temperature:g} before the softmax, and the loss by {temperature**2:g}, its "
            "square: a temperature divides logits",
            symptom="grad_wrong",
            why="multiplied, they become almost certain, and the targets say no more than the class; the square of the "
            "temperature makes up for gradients that a division has made smaller",
            fix=f"divide the logits of both models: softmax(logits / {temperature:g}, dim=-1)",
            location=location_of_call(flow, teacher),
            evidence={"temperature": temperature},
        )

    def _of_student(self, flow: Dataflow, teacher: int, student: int, temperature: float) -> Finding:
        location, softened = location_of_call(flow, teacher), location_of_call(flow, student)
        return self.finding(
            f"the trained logits are divided by {temperature:g}{at_line(softened)}, and the loss is multiplied by its "
            "square, but the targets are the softmax of logits that are not divided by anything",
            symptom="grad_wrong",
            why="softened, the trained logits must be that many times larger to reach the same targets, and wrong "
            "answers that are nearly right stay hidden",
            fix=f"divide the logits of the targets by the same temperature: softmax(logits / {temperature:g}, dim=-1)",
            location=location,
            symptom_location=softened if softened != location else None,
            evidence={"temperature": temperature},
        )

    def _finding(self, flow: Dataflow, student: int, teacher: int, temperature: float) -> Finding:
        location, softened = location_of_call(flow, student), location_of_call(flow, teacher)
        return self.finding(
            f"the targets are the softmax of logits divided by {temperature:g}{at_line(softened)}, and the trained "
            "logits are not divided by anything",
            symptom="grad_wrong",
            why="the trained model then learns to be as unsure as the temperature makes its targets look",
            fix=f"divide the trained logits by the same temperature: log_softmax(logits / {temperature:g}, dim=-1)",
            location=location,
            symptom_location=softened if softened != location else None,
            evidence={"temperature": temperature},
        )


def _is_squared_after(flow: Dataflow, row: int, factor: float) -> bool:
    """Whether the result of a loss is multiplied by the square of a factor above one, perhaps by the factor twice."""
    product, tensors = 1.0, [use.tensor for use in flow.log.calls[row].outputs]
    for _ in range(_MAX_FACTORS):
        users = (flow.log.calls[user] for tensor in tensors for user in flow.users(tensor, row))
        scaled = next((call for call in users if plain_name(call.function) == "mul" and len(call.inputs) == 1), None)
        if scaled is None or factor <= 1:
            return False
        product *= number_of(scaled, *OPERAND, missing=0.0)
        if abs(product - factor**2) < _ROUNDING * factor**2:
            return True
        tensors = [use.tensor for use in scaled.outputs]
    return False


_MAX_FACTORS = 3
_ROUNDING = 1e-6
_SOFTMAXES = frozenset({"softmax", "log_softmax"})
_PRODUCTS = frozenset({"mul", "einsum", "dot", "vecdot"})
_BOTH = 2


_TRIED = 4
"""Of the batches of a loader, some are not in the log."""


def _sides(flow: Dataflow, row: int) -> tuple[TensorUse | None, tuple[int, float] | None]:
    """What a loss trains, and the softmax of its targets with its temperature."""
    model, target = _model_and_target(flow.log.calls[row])
    is_fixed = target is not None and not target.requires_grad
    return model, _softened(flow, target, row) if target is not None and is_fixed else None


def _of_student_only(flow: Dataflow, row: int) -> tuple[int, int, float] | None:
    """The softmax of the targets, which has no temperature, and that of what is trained, with its own one, by whose
    square the loss is multiplied."""
    model, target = _model_and_target(flow.log.calls[row])
    if model is None or target is None or target.requires_grad:
        return None
    student, teacher = _last_softmax(flow, model, row), _softmax_of_targets(flow, target, row)
    temperature = None if student is None else _divisor(flow, *student)
    if student is None or teacher is None or temperature is None or temperature <= 1:
        return None
    is_hard = _divisor(flow, *teacher) is None and _is_squared_after(flow, row, temperature)
    return (teacher[0], student[0], temperature) if is_hard else None


def _model_and_target(call: Call) -> tuple[TensorUse | None, TensorUse | None]:
    if plain_name(call.function) in _PRODUCTS:
        return _factors(call)
    return argument(call, 0, "input"), argument(call, 1, "target")


def _factors(call: Call) -> tuple[TensorUse | None, TensorUse | None]:
    """Of a divergence by hand, ``p * (log p - log q)``: what is trained, and the targets."""
    live, dead = (next((use for use in call.inputs if use.requires_grad is flag), None) for flag in (True, False))
    return (live, dead) if len(call.inputs) == _BOTH else (None, None)


def _last_softmax(flow: Dataflow, use: TensorUse, row: int) -> tuple[int, int] | None:
    """The softmax that a loss takes, or the loss itself if that is one, with the tensor of its logits."""
    if plain_name(flow.log.calls[row].function) == "cross_entropy":
        return row, use.tensor
    made = value_maker(flow, use.tensor, row, through=frozenset({"neg", "log", "clamp"}))
    is_difference = made is not None and plain_name(made[1].function) == "sub" and len(made[1].inputs) == _BOTH
    if made is not None and is_difference and len(made[1].live_inputs) < _BOTH:
        made = value_maker(flow, made[1].live_inputs[0].tensor, made[0], through=frozenset({"log", "clamp"}))
    return None if made is None else _softmax(flow, *made)


def _softmax(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """The call that is a softmax in any spelling, or its logarithm, with the tensor of its logits: also
    ``logits - logits.logsumexp(-1, keepdim=True)``, its ``exp()``, and ``e / e.sum(-1, keepdim=True)``."""
    name = plain_name(call.function)
    if name in _SOFTMAXES:
        return row, call.inputs[0].tensor
    if name == "exp" and call.inputs:
        made = value_maker(flow, call.inputs[0].tensor, row)
        return (
            None
            if made is None or plain_name(made[1].function) not in ("sub", "log_softmax")
            else _softmax(flow, *made)
        )
    if name not in ("sub", "div") or len(call.inputs) != _BOTH:
        return None
    normalizer = value_maker(flow, call.inputs[1].tensor, row)
    if normalizer is None or plain_name(normalizer[1].function) != ("logsumexp" if name == "sub" else "sum"):
        return None
    if name == "sub":
        return row, call.inputs[0].tensor
    made = value_maker(flow, call.inputs[0].tensor, row)
    is_exp = made is not None and plain_name(made[1].function) == "exp"
    is_own_sum = normalizer[1].inputs[0].tensor == call.inputs[0].tensor
    return (row, made[1].inputs[0].tensor) if made is not None and is_exp and is_own_sum else None


def _softmax_of_targets(flow: Dataflow, use: TensorUse, row: int) -> tuple[int, int] | None:
    """The softmax that made targets, with its logits; also of samples that were put together to a batch."""
    made = value_maker(flow, use.tensor, row, through=_KEEPS)
    while made is not None and plain_name(made[1].function) in _COLLECTS:
        made = value_maker(flow, made[1].inputs[0].tensor, made[0], through=_KEEPS)
    return None if made is None else _softmax(flow, *made)


def _softened(flow: Dataflow, use: TensorUse, row: int) -> tuple[int, float] | None:
    """The softmax that made targets, and the temperature."""
    softmax = _softmax_of_targets(flow, use, row)
    divisor = None if softmax is None else _divisor(flow, *softmax)
    if softmax is None or divisor is None or _is_of_distances(flow, *softmax):
        return None
    return softmax[0], divisor


def _is_of_distances(flow: Dataflow, row: int, logits: int) -> bool:
    """Whether logits are negative numbers that were computed without any parameter: ``exp(-d**2 / (2 * width**2))`` is
    a bell of that width around a target, and no answer of a teacher."""
    values = flow.values(logits, row)
    if values is None or values.maximum is None or values.maximum > 0:
        return False
    above = flow.ancestors(logits, row)
    given = {use.tensor for each in above for use in flow.log.calls[each].inputs}
    return bool(above) and not any(flow.log.tensors[tensor].role == "parameter" for tensor in given)


_KEEPS = frozenset({"detach", "cpu", "cuda", "pin_memory"})
_COLLECTS = frozenset({"stack", "cat", "concat", "vstack", "index_select"})


def _divisor(flow: Dataflow, row: int, logits: int) -> float | None:
    """By which number logits were divided, or what they were multiplied with turned round; None if by none."""
    made = value_maker(flow, logits, row, through=frozenset({"detach"}))
    if made is None or plain_name(made[1].function) not in ("div", "mul"):
        return None
    number = number_of(made[1], *OPERAND, missing=0.0)
    if number <= 0:
        return 1.0  # by a tensor, which may be the same for both
    return number if plain_name(made[1].function) == "div" else 1 / number
