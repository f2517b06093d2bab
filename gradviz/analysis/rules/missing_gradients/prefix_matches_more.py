"""GV976."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.frozen_by_text import modules_begun, no_normalizations, parts_named
from gradviz.analysis.rules.bases.sources.names.conditions_on_names import (
    Text,
    conditions_on_names,
    texts_in_loops,
)
from gradviz.analysis.rules.bases.sources.names.numbered_prefixes import NumberedPrefix, numbered_prefixes
from gradviz.analysis.rules.bases.sources.own_files import goes_over_names


class PrefixMatchesMore(Rule):
    """Parameters are chosen by a text that the names of other layers have as well.

    What it finds
    -------------
    ``name.startswith("blocks.1")`` or ``"blocks.1" in name`` in a loop over ``named_parameters()``, also with
    ``f"blocks.{i}"``, in a model that has ``blocks.10``, where the parameters of ``blocks.10`` are frozen, or are
    trained, as those of ``blocks.1`` are. The program does not count up to 10; or, where that is not known, a layer
    between is treated otherwise. Also ``"enc" in name``, which freezes the layers of which a word begins with it, and
    others in which it is in the middle of a word: ``sequence_head``. Also a text that is the name of a part of the
    model with layers of its own, ``"encoder" in name``, and freezes single layers of another part,
    ``decoder.encoder_attn``, whose neighbours are trained. Also ``"norm" in name``, which freezes the normalizations,
    and a linear layer ``normals``. Also a beginning that is the whole name of a
    module, and with which that of another one begins: ``"enc"``, and ``encounter``; of several beginnings also
    ``"embed"``, and ``embed_domain``.

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
        if not case.histories.steps or not goes_over_names(case):
            return
        source = case.program_source
        for prefix in numbered_prefixes(source.tree):
            layers = _layers(case, prefix.stem)
            more = sorted(number for number in layers if number >= _TWO_DIGITS and _is_hit(prefix, layers, number))
            if more:
                yield self._finding(case, source.location(prefix.line), prefix, layers, more)
                return
        for text in texts_in_loops(source.tree):
            words = _in_words(case, text) if text.way == "in" else None
            if words is not None:
                yield self._of_words(case, source.location(text.line), text.text, words)
                return
        for text in texts_in_loops(source.tree):
            others = no_normalizations(case, text) if text.way == "in" else []
            if others:
                yield self._of_kind(case, source.location(text.line), text.text, others)
                return
        for line, part, layers_of_others in parts_named(case):
            yield self._of_parts(case, source.location(line), part, layers_of_others)
            return
        for condition in conditions_on_names(source.tree):
            for text, begun in modules_begun(case, condition.texts):
                yield self._of_modules(case, source.location(text.line), text.text, begun)
                return

    def _of_kind(self, case: Case, location: Location, text: str, others: list[int]) -> Finding:
        names = names_of(case.dataflow, others)
        return self.finding(
            f'"{text}" chooses the normalizations, and {together(names)} as well, which '
            f"{'are' if others[1:] else 'is'} of another layer: frozen, too",
            symptom="grad_missing",
            why="it is looked for in the whole name, also in those of other layers",
            fix="choose by class, over modules(): isinstance(module, (torch.nn.LayerNorm, torch.nn.GroupNorm, ...))",
            location=location,
            tensors=names,
            evidence={"parameters": len(others)},
        )

    def _of_parts(self, case: Case, location: Location, part: str, numbers: list[int]) -> Finding:
        return self.finding(
            f'"{part}" is the name of a part of the model, and it is in {together(names_of(case.dataflow, numbers))} '
            f"as well: {'they are' if numbers[1:] else 'it is'} frozen, too",
            symptom="grad_missing",
            why="it is looked for in the whole name, also in the names of layers of other parts",
            fix=f'compare with the beginning: name.startswith("{part}.")',
            location=location,
            tensors=names_of(case.dataflow, numbers),
            evidence={"parameters": len(numbers)},
        )

    def _of_modules(self, case: Case, location: Location, text: str, begun: dict[str, list[int]]) -> Finding:
        others, are = ", ".join(begun), "they are" if len(begun) > 1 else "it is"
        return self.finding(
            f'"{text}" is the name of a module, and the beginning of {others} as well: {are} frozen, too',
            symptom="grad_missing",
            why="a beginning of a name does not end with the name of a module",
            fix=f'compare with the dot behind the name: "{text}."',
            location=location,
            tensors=names_of(case.dataflow, [number for numbers in begun.values() for number in numbers]),
            evidence={"modules": len(begun)},
        )

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

    def _of_words(self, case: Case, location: Location, text: str, words: _InWords) -> Finding:
        (first, *more), names = words.inside, names_of(case.dataflow, [number for _, number in words.inside])
        longer = _longer(text, words)
        return self.finding(
            f'"{text}" is in the middle of {first[0]} as well: {together(names)} {"are" if more else "is"} frozen, too',
            symptom="grad_missing",
            why="it is looked for in the whole name, also inside of words",
            fix=f'look for "{longer}"' if longer else "compare with the names of whole modules",
            location=location,
            tensors=names,
            evidence={"parameters": len(words.inside)},
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


class _InWords(Struct, frozen=True):
    """The frozen parameters whose names have a text, each with its name."""

    begun: list[tuple[str, int]]
    """Those of which a word begins with the text."""
    inside: list[tuple[str, int]]
    """Those that have it in the middle of words only."""


def _in_words(case: Case, text: Text) -> _InWords | None:
    """None where the text does not freeze both kinds, or where nothing else is trained."""
    begun, inside = list[tuple[str, int]](), list[tuple[str, int]]()
    is_any_trained = False
    for number, tensor in enumerate(case.dataflow.log.tensors):
        name = tensor.names[0] if tensor.role == "parameter" and tensor.names else ""
        ways = {_is_begun(name, found) for found in re.finditer(re.escape(text.text), name)}
        is_trained = case.histories.requires_grad_at_last(number)
        is_any_trained |= is_trained and bool(name)
        if not ways:
            continue
        if is_trained:
            return None
        if True in ways:
            begun.append((name, number))
        elif ways == {False}:
            inside.append((name, number))
    return _InWords(begun, inside) if begun and inside and is_any_trained else None


def _is_begun(name: str, found: re.Match[str]) -> bool | None:
    """Whether a word begins where a text was found; None where the text ends one, as in ``batchnorm``."""
    if not found.start() or not name[found.start() - 1].isalpha() or found[0][:1].isupper():
        return True
    behind = name[found.end() :].removeprefix("s")
    return False if behind[:1].isalpha() and behind[0].islower() else None


def _longer(text: str, words: _InWords) -> str:
    """The text with what follows it in all the names that are meant; "" if the others have that, too."""
    found = re.search(re.escape(text) + r"[^._]*[._]", words.begun[0][0])
    whole = found[0] if found else ""
    is_in_all = all(whole in name for name, _ in words.begun)
    return whole if is_in_all and not any(whole in name for name, _ in words.inside) else ""
