"""Checks what must hold for every graph: when a file is read, and in the tests of everything that makes graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradviz.graph import traversal
from gradviz.graph.tensor_invariants import InvalidGraph as InvalidGraph
from gradviz.graph.tensor_invariants import check_facts, check_figures, check_fingerprint, check_range

if TYPE_CHECKING:
    from gradviz.graph.call_log import Call, CallLog, LoggedTensor, ValueFacts
    from gradviz.graph.model import Graph


def check_graph(graph: Graph) -> None:
    """Raise `InvalidGraph` at the first reference to something missing, or at a cycle."""
    _check_nodes(graph)
    _check_tables(graph)
    for root in graph.roots:
        _check(f"root {root.name}", root.node, len(graph.nodes), "node")
        check_facts(f"root {root.name}", (root.tensor,))
        check_figures(f"root {root.name}", (root.gradient,))
    if graph.backward is not None:
        _check("backward", graph.backward.call_site, len(graph.call_sites), "call site")
        _check("backward", graph.backward.failed_node, len(graph.nodes), "node")
    _check_for_cycles(graph)
    _check_findings(graph)
    for exchange in graph.exchanges:
        for leaf in exchange.leaves:
            _check(f"{exchange.kind} of {exchange.by}", leaf, len(graph.nodes), "node")
    _check_root_shares(graph)


def _check(where: str, index: int | None, count: int, what: str) -> None:
    if index is not None and not 0 <= index < count:
        raise InvalidGraph(f"{where} refers to {what} {index}, but there are {count}")


def _check_nodes(graph: Graph) -> None:
    for position, node in enumerate(graph.nodes):
        where = f"node {node.id}"
        if node.id != position:
            raise InvalidGraph(f"{where} is at index {position}")
        for edge in node.edges:
            if edge is not None:
                _check(where, edge.target, len(graph.nodes), "node")
        for of_edges in (node.gradients, node.shares):
            if of_edges and len(of_edges) != len(node.edges):
                raise InvalidGraph(f"{where} has {len(node.edges)} edges, but figures for {len(of_edges)}")
        _check(where, node.call_site, len(graph.call_sites), "call site")
        _check(where, node.scope, len(graph.scopes), "module scope")
        _check(where, node.region, len(graph.regions), "region")
        for constant in node.constants:
            _check(where, constant, len(graph.constants), "constant")
        for saved in node.saved:
            _check(where, saved.storage, len(graph.storages), "storage")
            _check(where, saved.source, len(graph.nodes), "node")
            check_facts(where, (saved.tensor,))
            check_figures(where, (saved.value,))
        check_facts(where, node.outputs)
        for figures in (node.gradients, node.arrived, node.before_hooks, node.values):
            check_figures(where, figures)
        if node.leaf_gradient is not None:
            check_figures(where, (node.leaf_gradient.before, node.leaf_gradient.after))


def _check_tables(graph: Graph) -> None:
    for index, scope in enumerate(graph.scopes):
        _check(f"module scope {index}", scope.parent, index, "an earlier module scope")
        _check(f"module scope {index}", scope.call_site, len(graph.call_sites), "call site")
    for index, site in enumerate(graph.call_sites):
        _check(f"call site {index}", site.caller, index, "an earlier call site")
    for index, region in enumerate(graph.regions):
        _check(f"region {index}", region.call_site, len(graph.call_sites), "call site")
        for each in region.recomputed or ():
            _check(f"region {index}", each.call_site, len(graph.call_sites), "call site")
    for index, constant in enumerate(graph.constants):
        check_facts(f"constant {index}", (constant.tensor,))
        check_figures(f"constant {index}", (constant.value,))
    for refused in graph.refused:
        check_facts(f"refused root {refused.name}", (refused.tensor,))


def _check_for_cycles(graph: Graph) -> None:
    """Raise `InvalidGraph` if a node is computed from itself."""
    order = traversal.topological_order(graph)
    if len(order) < len(graph.nodes):
        first = min(set(range(len(graph.nodes))).difference(order))
        raise InvalidGraph(f"the edges around node {first} make a cycle")


def _check_findings(graph: Graph) -> None:
    for finding in graph.findings:
        _check(finding.code, finding.node, len(graph.nodes), "node")
    for cut_edge in graph.cut_edges:
        where = f"a cut edge to {cut_edge.cut}"
        for node in cut_edge.nodes:
            _check(where, node, len(graph.nodes), "node")
        _check(where, cut_edge.refused, len(graph.refused), "refused root")
        _check(where, cut_edge.constant, len(graph.constants), "constant")
        _check(where, cut_edge.scope, len(graph.scopes), "module scope")
        if (cut_edge.node is None) == (cut_edge.refused is None):
            raise InvalidGraph(f"{where} must begin at a node or at a refused root, but not at both")


def _check_root_shares(graph: Graph) -> None:
    if graph.root_shares is None:
        return
    count = len(graph.root_shares.losses)
    for loss in graph.root_shares.losses:
        _check(f"loss {loss.name}", loss.call_site, len(graph.call_sites), "call site")
        for node_id in loss.nodes:
            _check(f"loss {loss.name}", node_id, len(graph.nodes), "node")
    for entry in graph.root_shares.leaves:
        _check("a share of losses", entry.leaf, len(graph.nodes), "node")
        if len(entry.products) != count * count:
            raise InvalidGraph(f"{count} losses have {len(entry.products)} products at node {entry.leaf}")


# Checks every reference of a call log.


def check_call_log(log: CallLog) -> None:
    """Raise `InvalidGraph` at the first call, tensor or optimizer that refers to something missing."""
    sizes = {
        "call": len(log.calls),
        "tensor": len(log.tensors),
        "call site": len(log.call_sites),
        "scope": len(log.scopes),
        "optimizer": len(log.optimizers),
        "definition": len(log.definitions),
    }
    for what, number, index in _references_backwards(log):
        if index is not None and not 0 <= index < number:
            raise InvalidGraph(f"{what} {number} refers to {what} {index}, which does not precede it")
    for what, references in _references(log):
        for table, index in references:
            if index is not None and not 0 <= index < sizes[table]:
                raise InvalidGraph(f"{what} refers to {table} {index} of {sizes[table]}")
    for number, tensor in enumerate(log.tensors):
        check_facts(f"tensor {number}", (tensor.facts,))
        if tensor.end is not None and tensor.end.grad is not None:
            _check_values(f"tensor {number}", tensor.end.grad)
    for number, call in enumerate(log.calls):
        for use in (*call.inputs, *call.outputs):
            if use.values is not None:
                _check_values(f"call {number}", use.values)
            check_fingerprint(f"call {number}", use.fingerprint)
    for definition in log.definitions:
        if definition.first_line > definition.last_line:
            raise InvalidGraph(f"{definition.name} has lines {definition.first_line} to {definition.last_line}")
    if log.dropped_at is not None and not 0 <= log.dropped_at <= len(log.calls):
        raise InvalidGraph(f"calls are missing before call {log.dropped_at} of {len(log.calls)}")


def _check_values(where: str, values: ValueFacts) -> None:
    check_range(where, values.minimum, values.maximum)
    special = values.zeros + values.nans + values.infs
    if special > 2 * values.count:  # of complex numbers, both parts count
        raise InvalidGraph(f"{where} has a tensor of {values.count} elements, {special} of them zero, NaN or Inf")


def _references_backwards(log: CallLog) -> Iterator[tuple[str, int, int | None]]:
    yield from (("call", number, call.inside) for number, call in enumerate(log.calls))
    yield from (("call site", number, site.caller) for number, site in enumerate(log.call_sites))
    yield from (("scope", number, scope.parent) for number, scope in enumerate(log.scopes))


def _references(log: CallLog) -> Iterator[tuple[str, Iterable[tuple[str, int | None]]]]:
    for number, call in enumerate(log.calls):
        yield f"call {number}", _of_call(call)
    for number, tensor in enumerate(log.tensors):
        yield f"tensor {number}", _of_tensor(tensor)
    for number, optimizer in enumerate(log.optimizers):
        yield f"optimizer {number}", [("tensor", index) for group in optimizer.groups for index in group]
    for shared in log.shared_steps:
        yield "shared steps", [("optimizer", index) for index in shared.optimizers]
        yield "shared steps", [("tensor", index) for index in shared.tensors]
    for load in log.loads:
        yield "a load", [("call site", load.call_site)]
    for unknown in log.unknown_keys:
        yield "unknown keys", [("call site", unknown.call_site)]
    for attribute in log.idle_attributes:
        yield "an attribute", [("tensor", index) for index in attribute.tensors]
    for repeated in log.repeated_modules:
        yield "a repeated module", [("call site", repeated.call_site)]
        yield "a repeated module", [("tensor", index) for index in repeated.tensors]
    for loader in log.loaders:
        yield "a data loader", [("call site", loader.call_site)]
    for schedule in log.schedules:
        yield "a schedule", [("call site", schedule.call_site), ("optimizer", schedule.optimizer)]
        yield "a schedule", [("call site", site) for site, _ in schedule.readings]
    for number, scope in enumerate(log.scopes):
        yield f"scope {number}", [("call site", scope.call_site)]
    for moment in log.moments:
        yield "a moment", [("call", moment)]


def _of_call(call: Call) -> Iterator[tuple[str, int | None]]:
    yield "call site", call.call_site
    yield "call site", call.grad_mode_site
    yield "call site", call.checkpoint_site
    yield "call site", call.redrawn_site
    yield "scope", call.scope
    yield "optimizer", call.optimizer
    yield "definition", call.definition
    for use in call.inputs:
        yield "tensor", use.tensor
    for use in call.outputs:
        yield "tensor", use.tensor


def _of_tensor(tensor: LoggedTensor) -> Iterator[tuple[str, int | None]]:
    yield "call", tensor.first_seen
    yield "call", tensor.producer
    yield "call", tensor.alive_after
    yield "tensor", tensor.gradient_of
    yield "tensor", tensor.from_numpy_of
    yield "tensor", tensor.array_of
