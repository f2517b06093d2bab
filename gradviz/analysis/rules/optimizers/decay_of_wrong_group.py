"""GV717."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.decays_by_hand import Decay, decays_by_hand, growths_by_hand
from gradviz.analysis.rules.bases.sources.chosen_parameters import place_that_chooses


class DecayOfWrongGroup(Rule):
    """Weight decay is given to biases and scales, and the matrices get none.

    What it finds
    -------------
    An optimizer with several groups, where weight decay is set only for parameters of one axis, and each parameter with
    more axes is in a group without it. The same of steps by hand, which add a parameter times a number to its gradient,
    or shrink it; and of those that take such a multiple off the gradient, which makes the parameter grow.

    Why it matters
    --------------
    The usual split is the other way round: matrices decay, biases and the scales of normalizations do not. Swapped
    groups pull the scales to zero and leave the matrices without any regularization. Nothing raises.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
    decay = [p for p in model.parameters() if p.ndim < 2]
    rest = [p for p in model.parameters() if p.ndim >= 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
    decay = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV717"
    name = "decay_of_wrong_group"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        tensors = histories.log.tensors
        for number, optimizer in enumerate(histories.log.optimizers):
            steps = histories.steps_by_optimizer.get(number, [])
            axes_with_decay: list[int] = []
            axes_without: list[int] = []
            for group, decay in zip(optimizer.groups, optimizer.weight_decays, strict=False):
                (axes_with_decay if decay else axes_without).extend(len(tensors[each].facts.shape) for each in group)
            vectors, matrices = len(axes_with_decay), sum(axes >= 2 for axes in axes_without)
            # A single number, such as a learned bound, is no part of a usual split.
            if steps and vectors >= _MIN_PARAMETERS and max(axes_with_decay) == 1 and matrices:
                made = [location_of_call(histories.flow, row) for row in histories.given_at(number)][:1]
                yield self._finding(optimizer_words(optimizer), made[0] if made else None, vectors, matrices)
        yield from self._by_hand(case)
        yield from self._growths(case)

    def _growths(self, case: Case) -> Iterator[Finding]:
        """Of lines that take a part of a parameter off its gradient."""
        flow = case.dataflow
        lines: dict[Location | None, list[Decay]] = defaultdict(list)
        for each in growths_by_hand(flow):
            if _goes_down(case, each.parameter):
                lines[location_of_call(flow, each.row)].append(each)
        for location, found in lines.items():
            parameters = sorted(each.parameter for each in found)
            yield self.finding(
                f"{abs(found[0].number):.3g} times the parameter is taken off the gradients of "
                f"{case.histories.together(parameters)}: each step makes them larger",
                symptom="grad_wrong",
                why="a step subtracts the gradient, so a decay is added to it; with the other sign the parameters grow "
                "as fast as they should shrink",
                fix="add it: p.grad.add_(p, alpha=weight_decay)",
                location=location,
                tensors=names_of(flow, parameters),
                evidence={"parameters": len(parameters)},
            )

    def _by_hand(self, case: Case) -> Iterator[Finding]:
        """Of a program that makes its steps itself."""
        flow = case.dataflow
        axes = [(each, len(flow.log.tensors[each.parameter].facts.shape)) for each in decays_by_hand(flow)]
        vectors = [each for each, count in axes if each.number and count < 2]
        matrices = sum(count >= 2 and not each.number for each, count in axes)
        if len(vectors) >= _MIN_PARAMETERS and matrices and not any(each.number and n >= 2 for each, n in axes):
            here = location_of_call(flow, vectors[-1].row)
            is_list = flow.log.calls[vectors[-1].row].function.startswith("torch._foreach_")
            choice = place_that_chooses(case, here, of_any_list=True) if is_list else None
            yield self._finding("this step", choice or here, len(vectors), matrices)

    def _finding(self, name: str, made: Location | None, vectors: int, matrices: int) -> Finding:
        return self.finding(
            f"{name} has weight decay for {vectors:,} biases and scales only: none of the {matrices:,} matrices decays",
            symptom="grad_wrong",
            why="weight decay is for matrices; of the scale of a normalization, or of a bias, it only takes what these "
            "have learned",
            fix="if that is not meant, swap the two groups: p.ndim >= 2 with weight decay, the rest with 0",
            location=made,
            evidence={"with_decay": vectors, "without": matrices},
        )


_MIN_PARAMETERS = 2


def _goes_down(case: Case, parameter: int) -> bool:
    """Whether optimizers step it, and none of them up its gradient."""
    holders = [case.dataflow.log.optimizers[each] for each in case.histories.optimizers_of(parameter)]
    return bool(holders) and not any(each.maximizes for each in holders)
