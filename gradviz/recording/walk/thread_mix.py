"""Finds the nodes of a graph whose call cannot be told, because several threads made the graph.

torch counts sequence numbers for each thread separately, and a node does not say which thread made it. Two nodes of a
graph with the same number prove that it is of several threads; then the log of one thread says nothing certain about
the nodes with these numbers, nor about numbers that another thread used inside a module call. Only a parameter decides:
a node that takes a parameter of the very module whose call the log has there was made by that call.
"""

from __future__ import annotations

from collections import Counter

from gradviz.recording.forward.forward_log import NO_SCOPE, ForwardLog, ThreadLog
from gradviz.recording.torch_access.modules import own_parameters
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.leaves import leaf_variables

_VIEWS_BETWEEN = 2
"""A linear layer takes the transpose of its weight."""


def undecided_nodes(walk: Walk, log: ThreadLog, forward: ForwardLog) -> frozenset[int]:
    """Indices of the nodes that `log`, of one thread, may not explain; empty if one thread made the graph."""
    numbers = Counter(number for number in walk.sequence_nrs if number != LEAF_SEQUENCE_NR)
    shared = {number for number, count in numbers.items() if count > 1}
    if not shared:
        return frozenset()
    others = [other for other in list(forward.threads.values()) if other is not log]
    parameters = {index: id(variable) for index, variable in leaf_variables(walk)}
    return frozenset(
        index
        for index, number in enumerate(walk.sequence_nrs)
        if (number in shared or any(number in numbers and other.scope_of(number) != NO_SCOPE for other in others))
        and number != LEAF_SEQUENCE_NR
        and not _takes_own_parameter(walk, index, _parameters_of_scope(log, forward, number), parameters)
    )


def _parameters_of_scope(log: ThreadLog, forward: ForwardLog, number: int) -> set[int]:
    """Ids of the parameters of the module that ran when the log's node with this number was made."""
    entry = forward.scopes.get(log.scope_of(number))
    module = forward.modules[entry.module][0]() if entry is not None and entry.module in forward.modules else None
    return set() if module is None else {id(each) for each in own_parameters(module).values() if each is not None}


def _takes_own_parameter(walk: Walk, index: int, own: set[int], parameters: dict[int, int]) -> bool:
    waiting = [(index, 0)] if own else []
    while waiting:
        node, depth = waiting.pop()
        for edge in walk.edges[node]:
            if edge is None:
                continue
            if parameters.get(edge.target) in own:
                return True
            # The transposed weight is made by the same call: its number is just below.
            is_close = 0 < walk.sequence_nrs[node] - walk.sequence_nrs[edge.target] <= _VIEWS_BETWEEN
            if is_close and depth < _VIEWS_BETWEEN and len(walk.edges[edge.target]) == 1:
                waiting.append((edge.target, depth + 1))
    return False
