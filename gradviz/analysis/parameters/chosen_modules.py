"""Modules of a list of which a program chooses some for each input, as a router does among experts."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.parameters.parameter_histories import ParameterHistories


def is_one_of_chosen(histories: ParameterHistories, number: int) -> bool:
    """Whether a parameter belongs to an element of a list whose other elements get chosen rows of a tensor."""
    parts = histories.name(number).split(".")
    index = next((i for i in range(len(parts) - 1, -1, -1) if parts[i].isdigit()), None)
    while index is not None:
        own, all_of_list = ".".join(parts[: index + 1]), ".".join(parts[:index])
        siblings = [each for each in histories.parameters_below(all_of_list) if not _is_below(histories, each, own)]
        if any(_gets_chosen_rows(histories, each) for each in siblings):
            return True
        index = next((i for i in range(index - 1, -1, -1) if parts[i].isdigit()), None)
    return False


def _is_below(histories: ParameterHistories, number: int, path: str) -> bool:
    return histories.name(number).startswith(f"{path}.")


def _gets_chosen_rows(histories: ParameterHistories, number: int) -> bool:
    """Whether the last use of a parameter was with rows of a tensor, chosen by another tensor."""
    flow = histories.flow
    for row in histories.forward_uses(number)[-1:]:
        call = histories.log.calls[row]
        given = next((use.tensor for use in call.inputs if histories.tensor(use.tensor).role == "tensor"), None)
        made = flow.newest_producer(given, row) if given is not None else None
        maker = None if made is None else histories.log.calls[made]
        if maker is not None and plain_name(maker.function) in _CHOOSE and len(maker.inputs) > 1:
            index = maker.inputs[1].tensor
            return histories.tensor(index).facts.dtype in _OF_INDEX and bool(shape_of(flow, index))
    return False


_CHOOSE = frozenset({"getitem", "index_select", "masked_select", "gather"})
_OF_INDEX = frozenset({"int64", "int32", "bool", "uint8"})
