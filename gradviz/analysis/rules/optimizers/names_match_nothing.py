"""GV741."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.names.conditions_on_names import (
    ConditionOnNames,
    Text,
    conditions_on_names,
)
from gradviz.analysis.rules.bases.sources.own_files import goes_over_names
from gradviz.graph.call_log import LoggedOptimizer


class NamesMatchNothing(Rule):
    """Parameters are chosen by their names, and no parameter has such a name.

    What it finds
    -------------
    Conditions such as ``"LayerNorm.weight" in name`` in a loop over ``named_parameters()``, whose text is in the name
    of no parameter of the run: where the scales of normalizations, or biases, are in a group with weight decay, beside
    one without; where a group of an optimizer has no parameter; and where such a loop is to freeze parameters, and all
    of them train.

    Why it matters
    --------------
    The list comes from a model with other names. The group that should be without decay, or have another learning
    rate, stays empty or lacks what it is for, and nothing raises.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
    no_decay = ["bias", "LayerNorm.weight"]
    decay = [p for n, p in model.named_parameters() if not any(each in n for each in no_decay)]
    rest = [p for n, p in model.named_parameters() if any(each in n for each in no_decay)]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV741"
    name = "names_match_nothing"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        log = case.dataflow.log
        names = [name for tensor in log.tensors if tensor.role == "parameter" for name in tensor.names]
        if not names or not case.histories.steps or not goes_over_names(case):
            return
        source = case.program_source
        for condition in _unmatched(list(conditions_on_names(source.tree)), names):
            missing = [text for text in condition.texts if not text.is_in(names)]
            location = source.location(missing[0].line)
            finding = self._of_optimizers(case, location, condition, missing) or self._of_frozen(
                case, location, condition, missing
            )
            if finding is not None:
                yield finding
                return

    def _of_optimizers(
        self, case: Case, location: Location, condition: ConditionOnNames, missing: list[Text]
    ) -> Finding | None:
        for optimizer in case.dataflow.log.optimizers:
            decayed = _decayed(case, optimizer)
            is_empty = any(not group for group in optimizer.groups) and len(missing) == len(condition.texts)
            if decayed:
                what = f"{case.histories.together(decayed)} {'has' if len(decayed) == 1 else 'have'} weight decay in "
                return self._finding(case, location, missing, what + optimizer_words(optimizer), decayed)
            if is_empty and len(optimizer.groups) > 1 and any(optimizer.groups):
                return self._finding(case, location, missing, f"a group of {optimizer_words(optimizer)} is empty", [])
        return None

    def _of_frozen(
        self, case: Case, location: Location, condition: ConditionOnNames, missing: list[Text]
    ) -> Finding | None:
        is_any_frozen = any(
            tensor.role == "parameter" and not case.histories.requires_grad_at_last(number)
            for number, tensor in enumerate(case.dataflow.log.tensors)
        )
        if not condition.freezes or len(missing) < len(condition.texts) or is_any_frozen:
            return None
        return self._finding(case, location, missing, "nothing is frozen", [])

    def _finding(self, case: Case, location: Location, missing: list[Text], what: str, tensors: list[int]) -> Finding:
        texts = " or ".join(f'"{each.text}"' for each in missing)
        return self.finding(
            f"no parameter has {texts} in its name: {what}",
            symptom="grad_wrong",
            why="the names of parameters come from the attributes of this model, not from the classes of its layers",
            fix="print the names of named_parameters(), or choose by what they are: p.ndim <= 1, isinstance(module, "
            "torch.nn.LayerNorm)",
            location=location,
            tensors=names_of(case.dataflow, tensors),
            evidence={"texts": len(missing)},
        )


_ONE_AXIS = 1


def _unmatched(conditions: list[ConditionOnNames], names: list[str]) -> list[ConditionOnNames]:
    """Those with a text that no name has; those of which no text is found first."""
    found = [each for each in conditions if not all(text.is_in(names) for text in each.texts)]
    return sorted(found, key=lambda each: any(text.is_in(names) for text in each.texts))


def _decayed(case: Case, optimizer: LoggedOptimizer) -> list[int]:
    """Scales of normalizations and biases in a group with weight decay, if another group has none."""
    decays = list(zip(optimizer.groups, optimizer.weight_decays, strict=False))
    if not any(decay == 0 for _, decay in decays) or not any(decay for _, decay in decays):
        return []
    tensors = case.dataflow.log.tensors
    return [
        number
        for group, decay in decays
        for number in group
        if decay
        and len(tensors[number].facts.shape) == _ONE_AXIS
        and any(name.rpartition(".")[2] in ("weight", "bias") for name in tensors[number].names)
    ]
