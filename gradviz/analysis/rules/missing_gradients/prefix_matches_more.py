"""GV976."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.names.numbered_prefixes import NumberedPrefix, numbered_prefixes
from gradviz.analysis.rules.bases.sources.own_files import own_files


class PrefixMatchesMore(Rule):
    """Parameters are chosen by a name that ends with a number, which other layers begin with as well.

    What it finds
    -------------
    ``name.startswith("blocks.1")`` or ``"blocks.1" in name`` in a loop over ``named_parameters()``, also with
    ``f"blocks.{i}"``, in a model that has ``blocks.10``, where the parameters of ``blocks.10`` are frozen, or are
    trained, as those of ``blocks.1`` are. The program does not count up to 10; or, where that is not known, a layer
    between is treated otherwise.

    Why it matters
    --------------
    A beginning of a name knows nothing of numbers: "blocks.1" begins "blocks.10" to "blocks.19" too. Layers near the
    end, which were to be trained, get no gradient, and nothing raises.

    Example
    -------
    model = torch.nn.ModuleDict({"blocks": torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(12)))})
    for name, p in model.named_parameters():
        if any(name.startswith(f"blocks.{i}") for i in range(2)):
            p.requires_grad = False
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        (model["blocks"](torch.randn(8, 4)) - 1).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.ModuleDict({"blocks": torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(12)))})
    for name, p in model.named_parameters():
        if any(name.startswith(f"blocks.{i}.") for i in range(2)):
            p.requires_grad = False
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        (model["blocks"](torch.randn(8, 4)) - 1).square().mean().backward()
        optimizer.step()
    """

    code = "GV976"
    name = "prefix_matches_more"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.steps else ():
            for prefix in numbered_prefixes(tree):
                layers = _layers(case, prefix.stem)
                more = sorted(number for number in layers if number >= _TWO_DIGITS and _is_hit(prefix, layers, number))
                if more:
                    yield self._finding(case, Location(file, prefix.line), prefix, layers, more)
                    return

    def _finding(
        self, case: Case, location: Location, prefix: NumberedPrefix, layers: dict[int, _Layer], more: list[int]
    ) -> Finding:
        stem, first = prefix.stem, int(str(more[0])[0])
        is_trained = layers[more[0]].is_trained
        others = ", ".join(f"{stem}{number}" for number in more[:_MOST_TOLD]) + (" ..." if more[_MOST_TOLD:] else "")
        return self.finding(
            f'"{stem}{first}" is the beginning of {others} as well: {"they are" if more[1:] else "it is"} '
            f"{'trained' if is_trained else 'frozen'}, too",
            symptom="grad_wrong" if is_trained else "grad_missing",
            why="a beginning of a name knows nothing of numbers",
            fix=f'compare with the dot behind the number: "{stem}{first}."',
            location=location,
            tensors=names_of(case.dataflow, [tensor for number in more for tensor in layers[number].tensors]),
            evidence={"layers": len(more)},
        )


_TWO_DIGITS = 10
_MOST_TOLD = 3


class _Layer(Struct, frozen=True):
    """The parameters below one number."""

    tensors: list[int]
    is_trained: bool | None
    """Whether all require grad at last; None if only some do."""


def _layers(case: Case, stem: str) -> dict[int, _Layer]:
    """By number, the layers whose names begin with a text, perhaps behind the name of a module."""
    found = defaultdict[int, list[int]](list)
    numbered = re.compile(rf"(?:.*\.)?{re.escape(stem)}(\d+)\..+")
    for number, tensor in enumerate(case.dataflow.log.tensors):
        for name in tensor.names[:1] if tensor.role == "parameter" else ():
            match = numbered.fullmatch(name)
            if match is not None:
                found[int(match[1])].append(number)
    return {number: _Layer(tensors, _are_trained(case, tensors)) for number, tensors in found.items()}


def _are_trained(case: Case, tensors: list[int]) -> bool | None:
    flags = {case.histories.requires_grad_at_last(tensor) for tensor in tensors}
    return flags.pop() if len(flags) == 1 else None


def _is_hit(prefix: NumberedPrefix, layers: dict[int, _Layer], number: int) -> bool:
    """Whether the program means a layer of one digit, and a layer of more digits that begin with it shares its fate."""
    first = int(str(number)[0])
    one, other = layers.get(first), layers[number]
    if one is None or one.is_trained is None or one.is_trained != other.is_trained:
        return False
    is_between_other = any(
        layer.is_trained == (not one.is_trained) for between, layer in layers.items() if first < between < number
    )
    if prefix.numbers is None:
        return is_between_other
    return first in prefix.numbers and number not in prefix.numbers and (is_between_other or not one.is_trained)
