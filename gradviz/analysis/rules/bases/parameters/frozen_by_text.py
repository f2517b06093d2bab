"""What a program freezes by a text that it looks for in the names of parameters: other layers than those that it means,
whose names have it as well."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import takewhile

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.rules.bases.sources.names.conditions_on_names import (
    Text,
    compared_with,
    loops_over_names,
    parts_of,
)


def no_normalizations(case: Case, text: Text) -> list[int]:
    """Where a text for the names of normalizations freezes all of them, and other layers with it whose names have it:
    the parameters of those."""
    if text.text.lower().strip("._") not in _FOR_NORMALIZATIONS:
        return []
    kinds = defaultdict[bool, list[int]](list)
    trained = 0
    for number, tensor in enumerate(case.dataflow.log.tensors):
        path = tensor.names[0].split(".") if tensor.role == "parameter" and tensor.names else []
        is_hit = any(text.text in word for word in path)
        if not path or (uses := case.histories.forward_uses(number)) == ():
            continue
        if case.histories.requires_grad_at_last(number):
            if is_hit:
                return []
            trained += 1
        elif is_hit:
            is_normalization = "norm" in plain_name(case.dataflow.log.calls[uses[0]].function)
            module = "".join(path[-2:-1])  # A parameter of no module has a name alone.
            if not is_normalization and text.text not in module:
                return []
            kinds[is_normalization].append(number)
    return kinds[False] if kinds[True] and trained else []


_FOR_NORMALIZATIONS = frozenset({"norm", "bn", "ln", "gn", "layernorm", "batchnorm"})


def parts_named(case: Case) -> Iterator[tuple[int, str, list[int]]]:
    """The lines that look for a text in names, the part of the model whose name that text is, and the layers of other
    parts that are frozen with it. A text that the program is given when it is started is known by what is frozen."""
    parts = _parts_with_their_words(case)
    tree = case.program_source.tree
    for name, loop in loops_over_names(tree) if parts else ():
        for looked_for, way in compared_with(loop, name):
            written = {each.value for each in parts_of(tree, loop, looked_for) if isinstance(each, ast.Constant)}
            found = [part for part in parts if not written or part in written]
            if way == "in" and len(found) == 1:
                yield looked_for.lineno, found[0], parts[found[0]]


def _parts_with_their_words(case: Case) -> dict[str, list[int]]:
    """By frozen part of a model: the frozen layers of other parts of which a word is its name, and whose neighbours are
    trained. A name that layers at other places have, too, says what kind of layer it is: ``norm``, ``attn``."""
    tensors = case.dataflow.log.tensors
    numbers = [number for number, each in enumerate(tensors) if each.role == "parameter" and each.names]
    paths = [tensors[number].names[0].split(".") for number in numbers]
    shared = len([*takewhile(lambda words: len({*words}) == 1, zip(*paths, strict=False))])
    is_trained = {
        tuple(path[shared:]): case.histories.requires_grad_at_last(number)
        for number, path in zip(numbers, paths, strict=True)
    }
    by_path = {tuple(path[shared:]): number for number, path in zip(numbers, paths, strict=True)}
    found = dict[str, list[int]]()
    for part in {path[0] for path in is_trained if len(path) >= _DEEP}:
        own = [path for path in is_trained if path[0] == part]
        others = [path for path in is_trained if path[0] != part and any(part in word for word in path)]
        if any(is_trained[path] for path in (*own, *others)) or any(part in path for path in others):
            continue
        in_words = [path for path in others if any(part in re.split(r"_", word) for word in path[1:])]
        around = {path[: next(k for k, word in enumerate(path) if part in word)] for path in in_words}
        neighbours = [[is_trained[path] for path in is_trained if path[: len(each)] == each] for each in around]
        if neighbours and all(map(any, neighbours)):
            found[part] = [by_path[path] for path in in_words]
    return found


_DEEP = 3
"""Words in the name of a parameter of a part that has layers of its own."""
_MIN_NAMES = 2


def modules_begun(case: Case, texts: Sequence[Text]) -> list[tuple[Text, dict[str, list[int]]]]:
    """The text that is the whole name of a module, and also the beginning of the names of others, with the frozen
    parameters of these. Where several texts begin others, or where one alone begins ``enc_1``, families of names are
    meant; where the others are trained, another line has seen to them."""
    parameters = [
        (name, number)
        for number, tensor in enumerate(case.dataflow.log.tensors)
        if tensor.role == "parameter"
        for name in tensor.names[:1]
    ]
    found = list[tuple[Text, dict[str, list[int]]]]()
    for text in texts:
        whole = re.compile(rf"(.*\.)?{re.escape(text.text.removesuffix('.'))}(?P<more>\w*)\..+")
        matched = [(match["more"], number) for name, number in parameters if (match := whole.fullmatch(name))]
        if text.way != "startswith" or all(more for more, _ in matched):
            return []
        begun = defaultdict[str, list[int]](list)
        for more, number in matched:
            is_other = more.startswith("_") if len(texts) >= _MIN_NAMES else _is_other_word(text.text, more)
            if is_other and not text.text.endswith("."):
                begun[text.text + more].append(number)
        named = {each.text.removesuffix(".") for each in texts}
        if begun and named.isdisjoint(begun):
            found.append((text, dict(begun)))
    frozen = [number for _, begun in found for numbers in begun.values() for number in numbers]
    is_any_trained = any(case.histories.requires_grad_at_last(number) for _, number in parameters)
    are_frozen = not any(case.histories.requires_grad_at_last(number) for number in frozen)
    return found if len(found) == 1 and are_frozen and is_any_trained else []


def _is_other_word(beginning: str, more: str) -> bool:
    word = (beginning + more).rpartition(".")[2]
    return _OTHER_WORD.match(more) is not None and not word.startswith(_LONG_FORMS)


_OTHER_WORD = re.compile(r"(?!s|(d?er|or|e?d|ing)([^a-z]|$))[a-z]{2}")
"""What makes another word of a name, as ``ounter`` behind ``enc``; ``s`` and ``er`` make the same word longer."""
_LONG_FORMS = (
    "encod", "decod", "embed", "project", "convol", "generat", "discrim", "posit", "attent", "normal", "classif",
    "transform", "linear", "feature", "represent", "backbone",
)  # fmt: skip
"""How words begin of which programs use the first letters: ``enc``, ``emb``, ``proj``."""
