"""GV887."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.creation_lines import line_that_made_optimizer
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import LoggedOptimizer


class DecayOutweighs(Rule):
    """Weight decay is so strong that it shrinks the weights faster than gradients can make them.

    What it finds
    -------------
    Ten or more steps of ``AdamW`` or ``SGD`` in which learning rate times ``weight_decay`` takes more than 2 % of the
    weights away at each step; and of ``Adam`` and its like with a ``weight_decay`` of 0.1 or more, which they add to
    the gradient before they divide by its size (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019,
    section 2): numbers of that size are meant for ``AdamW``. It is a note for a single matrix, as in ridge regression,
    and where the same line makes optimizers with different decays, which a program compares.

    Why it matters
    --------------
    The weights are drawn to zero within some tens of steps, whatever the loss says, and the model answers the same for
    all inputs.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5)
    for step in range(10):
        x = torch.randn(16, 4)
        loss = torch.nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.0005)
    for step in range(10):
        x = torch.randn(16, 4)
        loss = torch.nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV887"
    name = "decay_outweighs"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for number, optimizer in enumerate(flow.log.optimizers):
            group = _group_of_strong_decay(optimizer)
            if group is None or optimizer.steps < _MIN_STEPS:
                continue
            yield self._finding(case, number, group)

    def _finding(self, case: Case, number: int, group: int) -> Finding:
        flow = case.dataflow
        optimizer = flow.log.optimizers[number]
        is_meant = _is_of_one_matrix(flow, optimizer.groups[group]) or _is_one_of_several(flow, number)
        decay = f"weight_decay={optimizer.weight_decays[group]:g} of {optimizer_words(optimizer)}"
        if _adds_to_gradient(optimizer):
            message = (
                f"{decay} adds {optimizer.weight_decays[group]:g} times each weight to its gradient, before "
                f"{optimizer.class_name} divides by the gradient's size"
            )
            why = "what is added outweighs the gradient of the loss: weights go to zero whatever the loss says"
            fix = (
                "write torch.optim.AdamW, which decays apart from the gradient; or a smaller number, as "
                f"weight_decay={_USUAL_ADDED:g}"
            )
        else:
            share = _share(optimizer, group)
            message = (
                f"{decay} takes {share:.2g} of each weight away at every step: alone it halves them in "
                f"{log(2) / share:.0f} steps"
            )
            why = "the weights go to zero faster than the loss can make them grow"
            usual = _USUAL_ADDED if optimizer.class_name == "SGD" else _USUAL_DECOUPLED
            fix = f"lower it: weight_decay={usual:g} is usual"
        return self.finding(
            message,
            severity="note" if is_meant else self.severity,
            symptom="grad_wrong",
            why=why,
            fix=fix,
            location=line_that_made_optimizer(flow, number),
            tensors=names_of(flow, sorted(optimizer.groups[group])),
            evidence={"steps": optimizer.steps},
        )


_MIN_STEPS = 10
_MOST_PER_STEP = 0.02
_MOST_ADDED = 0.1
_USUAL_ADDED, _USUAL_DECOUPLED = 0.0005, 0.01
_TAKE_AWAY = frozenset({"AdamW", "SGD"})
_ADD_TO_GRADIENT = frozenset({"Adam", "NAdam", "RAdam", "Adamax", "RMSprop"})


def _adds_to_gradient(optimizer: LoggedOptimizer) -> bool:
    """Whether it divides what it adds by the size of the gradient; not with ``decoupled_weight_decay=True``."""
    return optimizer.class_name in _ADD_TO_GRADIENT and not optimizer.decays_apart


def _is_of_one_matrix(flow: Dataflow, group: Iterable[int]) -> bool:
    """Whether a group may be that of a ridge regression, which a strong penalty is usual for."""
    return sum(len(shape_of(flow, tensor)) > 1 for tensor in group) <= 1


def _is_one_of_several(flow: Dataflow, number: int) -> bool:
    """Whether the line that made an optimizer made others with another decay, of which one is usual."""
    line = line_that_made_optimizer(flow, number)
    own = flow.log.optimizers[number]
    return line is not None and any(
        line_that_made_optimizer(flow, other) == line
        for other, each in enumerate(flow.log.optimizers)
        if each.class_name == own.class_name
        and each.weight_decays != own.weight_decays
        and _group_of_strong_decay(each) is None
    )


def _share(optimizer: LoggedOptimizer, group: int) -> float:
    """Which part of the weights a step takes away, at the highest learning rate of a group."""
    rate, decay = optimizer.highest_rates[group], optimizer.weight_decays[group]
    return (rate or 0.0) * (decay or 0.0)


def _group_of_strong_decay(optimizer: LoggedOptimizer) -> int | None:
    groups = range(min(len(optimizer.weight_decays), len(optimizer.highest_rates)))
    if optimizer.class_name in _TAKE_AWAY or optimizer.decays_apart:
        return next((group for group in groups if _share(optimizer, group) > _MOST_PER_STEP), None)
    if _adds_to_gradient(optimizer):
        return next((group for group in groups if (optimizer.weight_decays[group] or 0) >= _MOST_ADDED), None)
    return None
