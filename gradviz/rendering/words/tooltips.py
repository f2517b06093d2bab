"""The tooltip of an item: all facts that do not fit in the picture, one on each line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradviz.analysis.finding import Location, text_at
from gradviz.graph.model import CallSite, Constant, HeldTensor, Node, NodeKind, RefusedRoot, Root
from gradviz.graph.node_findings import CutEdge
from gradviz.graph.query.operation_names import autograd_name
from gradviz.graph.query.own_line import line_words
from gradviz.rendering.words.box_words import operations_in, scope_tooltip
from gradviz.rendering.words.common_words import counted, full_tensor_words, listed
from gradviz.rendering.words.compiled_tooltips import compiled_lines
from gradviz.rendering.words.flags import findings_on, gradient_flag, item_flag
from gradviz.rendering.words.gradient_tooltips import (
    MAX_NUMBERS,
    figures_lines,
    node_gradients,
    node_run,
    node_values,
    range_of_gradients,
)
from gradviz.rendering.words.memory_tooltips import kept_by_box, kept_by_node
from gradviz.rendering.words.repetition_shapes import differing_shapes
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.rendering.words.value_words import value_words
from gradviz.view.model import Item

_NOTABLE: dict[NodeKind, str] = {
    "custom": "custom function",
    "inplace": "in-place operation",
    "checkpoint": "checkpointed operation",
}


Section = tuple[str, tuple[str, ...]]
"""A heading and the lines below it."""


def sections(facts: SubjectFacts, item: Item) -> Iterator[Section]:
    """The tooltip of any item under headings. A section without a heading says what the item is."""
    if item.kind == "box":
        yield from _box(facts, item)
    elif item.constant is not None:
        yield "", _constant(facts, item, facts.graph.constants[item.constant])
    elif item.root is not None:
        yield "", _root(facts, facts.graph.roots[item.root])
    elif item.refused is not None:
        yield "", _refused(facts, facts.graph.refused[item.refused])
    elif item.cut_edge is not None:
        edge = facts.graph.cut_edges[item.cut_edge]
        yield "findings", _cut(facts, edge) if item.kind == "cut" else _cut_off(facts.cut_off_at(item))
    elif item.node is not None:
        node = facts.graph.nodes[item.node]
        yield from _leaf(facts, item, node) if node.is_leaf else _operation(facts, item, node)


def _operation(facts: SubjectFacts, item: Item, node: Node) -> Iterator[Section]:
    """For an operation."""
    yield "forward", (*_made_by(node), *_source(facts, node.call_site), *scope_tooltip(facts, node.scope))
    yield "tensors", (*_outputs(node), *_settings(node))
    yield "findings", tuple(_mark(facts, item))
    yield "value", tuple(node_values(node))
    yield "gradients", tuple(node_gradients(facts, item, node))
    yield "run", tuple(node_run(facts, item, node))
    yield "saved for backward", tuple(kept_by_node(facts, node))
    yield "compiled code", tuple(compiled_lines(facts, node))
    yield "drawn with it", (*_merged(facts, item, node), *_not_drawn(facts, item))


def _leaf(facts: SubjectFacts, item: Item, node: Node) -> Iterator[Section]:
    """For a parameter or an input."""
    alike = [f"stands for {len(item.nodes):,} {node.kind}s, one of each repetition"] if len(item.nodes) > 1 else []
    yield "tensors", (*_held(node), *_outputs(node), *_settings(node))
    yield "findings", tuple(_mark(facts, item))
    yield "value", tuple(node_values(node))
    yield "gradients", tuple(node_gradients(facts, item, node))
    yield "run", tuple(node_run(facts, item, node))
    yield "drawn with it", (*alike, *_only_first(facts, item))


def _constant(facts: SubjectFacts, item: Item, of: Constant) -> tuple[str, ...]:
    """For an input that needs no gradient."""
    alike = [f"stands for {len(item.constants):,} tensors, one of each repetition"] if len(item.constants) > 1 else []
    names = ["also " + listed(of.names[1:])] if of.names[1:] else []
    first = _only_first(facts, item)
    detached = [f"detached from {of.detached_from}: no gradient goes back to it here"] if of.detached_from else []
    value = [f"value = {value_words(of.value, MAX_NUMBERS)}"] if value_words(of.value) else []
    return (*of.names[:1], *names, full_tensor_words(of.tensor), "needs no gradient", *detached, *value, *alike, *first)


def carried(facts: SubjectFacts, item: Item, source: str, instead: str) -> tuple[str, ...]:
    """For a tensor from an earlier repetition of a loop."""
    ago = {1: "the repetition before", 0: "an earlier repetition"}
    when = ago.get(item.repetitions_back, f"{item.repetitions_back:,} repetitions before")
    made_by = facts.view.items[item.source or 0]
    node = None if made_by.node is None else facts.graph.nodes[made_by.node]
    return (
        f"the {source} of {when}",
        *(_source(facts, node.call_site) if node else ()),
        f"the first repetition takes {instead} instead" if instead else "the first repetition takes something else",
    )


def _cut(facts: SubjectFacts, edge: CutEdge) -> tuple[str, ...]:
    """For the call that cuts off a gradient."""
    found = edge.finding
    text = text_at(facts.capture.sources, Location(edge.file, edge.line)).strip()
    return (*filter(None, [text]), f"{found.severity} {found.code} {found.cause}: {found.message}")


def _cut_off(tensors: tuple[str, ...]) -> tuple[str, ...]:
    """For the tensors that get no gradient because of a cut."""
    more = len(tensors) - _MAX_CUT_OFF
    return (*tensors[:_MAX_CUT_OFF], *([f"and {more:,} more"] if more > 0 else []))


_MAX_CUT_OFF = 20
"""The maximum number of names in a tooltip, one on each line."""


def _root(facts: SubjectFacts, of: Root) -> tuple[str, ...]:
    """For a tensor that backward started from."""
    lines = [full_tensor_words(of.tensor)] if of.tensor else []
    lines += figures_lines("gradient that it began with", of.gradient)
    backward = facts.graph.backward
    if backward is None:
        return tuple(lines)
    lines.append(f"{backward.function}() call {backward.number} of this run")
    flags = {"retain_graph": backward.retain_graph, "create_graph": backward.create_graph}
    lines.extend(f"{name}=True" for name, is_set in flags.items() if is_set)
    return (*lines, *_source(facts, backward.call_site))


def _refused(facts: SubjectFacts, root: RefusedRoot) -> tuple[str, ...]:
    """For a tensor that backward could not start from."""
    lines = [full_tensor_words(root.tensor)] if root.tensor else []
    lines.append("requires no grad, and has no grad_fn: there is nothing to go back through")
    backward = facts.graph.backward
    return (*lines, *_source(facts, backward.call_site if backward else None))


def _box(facts: SubjectFacts, item: Item) -> Iterator[Section]:
    """For a module call or a group of operations."""
    last = [] if item.last_scope is None else [f"to {facts.graph.scopes[item.last_scope].path}"]
    own_line = _source(facts, facts.common_call_site(item)) if item.scope is None else ()
    yield "module", (*scope_tooltip(facts, item.scope), *last, *_repeated(facts, item), *own_line)
    yield "contents", tuple(_contents(facts, item))
    yield "gradients", tuple(range_of_gradients(facts, item))
    yield "saved for backward", tuple(kept_by_box(facts, item))


def _mark(facts: SubjectFacts, item: Item) -> Iterator[str]:
    """Why an item has its flag."""
    yield from findings_on(facts, item)
    flag = gradient_flag(facts, item) if facts.marks is None else item_flag(facts, item)
    if flag is not None and flag.reason:
        yield flag.reason


def _repeated(facts: SubjectFacts, item: Item) -> Iterator[str]:
    if item.repeat > 1:
        but = " but for shapes" if item.sizes_differ else ""
        yield f"{item.repeat:,} alike{but}, one after the other; the first is shown"
    if item.sizes_differ:
        yield from differing_shapes(facts, item)


def _only_first(facts: SubjectFacts, item: Item) -> Iterator[str]:
    if item.id in facts.only_first:
        yield "only the first repetition takes it"


def _made_by(node: Node) -> Iterator[str]:
    if node.sequence_nr is not None:
        yield f"sequence number {node.sequence_nr}"
    if node.forward_call:
        yield f"made by {node.forward_call}"


def _source(facts: SubjectFacts, call_site: int | None) -> Iterator[str]:
    """The line of the user's code with its text, then the lines that called it."""
    index, own = call_site, facts.own_site(call_site)
    if own is None or index is None:
        return
    innermost = facts.graph.call_sites[index]
    if innermost != own:
        yield f"inside {line_words(innermost)} in {innermost.function}"
    text = facts.source_text(own)
    yield f"{line_words(own)} in {own.function}" + (f": {text}" if text else "")
    outer = [line_words(site) for site in callers(facts, index)]
    if outer:
        yield f"called from {listed(outer, 3)}"


def callers(facts: SubjectFacts, call_site: int) -> Iterator[CallSite]:
    """The lines of the user's code above the one shown for a call site, the innermost first."""
    own = facts.own_site(call_site)
    index = facts.graph.call_sites[call_site].caller
    while index is not None:
        site = facts.graph.call_sites[index]
        if not site.is_library and (own is None or (site.file, site.line) != (own.file, own.line)):
            yield site
        index = site.caller


def _outputs(node: Node) -> Iterator[str]:
    for number, tensor in enumerate(node.outputs):
        which = f"output {number}" if len(node.outputs) > 1 else "tensor" if node.is_leaf else "output"
        yield f"{which}: {full_tensor_words(tensor) if tensor else 'never used'}"


def _settings(node: Node) -> Iterator[str]:
    for name, value in node.attributes.items():
        yield f"{name} = {value}"
    if node.hooks:
        yield f"hooks: {listed(node.hooks)}"
    if not node.is_leaf:
        yield from _held(node)


def _held(node: Node) -> Iterator[str]:
    for tensor in node.held:
        if tensor.names or not node.is_leaf:
            yield f"{' = '.join(tensor.names) or 'a variable'}: {_status(tensor)}"


def _status(tensor: HeldTensor) -> str:
    words = ["leaf" if tensor.is_leaf else "not a leaf"]
    words.append("requires grad" if tensor.requires_grad else "requires no grad")
    words.extend(["retains grad"] if tensor.retains_grad and not tensor.is_leaf else [])
    words.append("has .grad" if tensor.has_grad else "no .grad")
    return ", ".join(words)


def _merged(facts: SubjectFacts, item: Item, node: Node) -> Iterator[str]:
    others = [facts.graph.nodes[other] for other in item.nodes if other != node.id]
    alike = sum(other.name == node.name for other in others)
    names = list(dict.fromkeys(autograd_name(other) for other in others if other.name != node.name))
    if names:
        yield f"with {listed(names)}"
    if alike:
        yield f"stands for {counted(alike + 1, 'operation')}, one of each repetition"


def _not_drawn(facts: SubjectFacts, item: Item) -> Iterator[str]:
    constants = [facts.graph.constants[constant] for constant in item.constants]
    if constants:
        words = [" ".join((*of.names[:1], full_tensor_words(of.tensor))) for of in constants]
        yield f"takes, not drawn: {listed(words)}"


def _contents(facts: SubjectFacts, item: Item) -> Iterator[str]:
    if item.nodes:
        yield f"contains {counted(len(item.nodes), 'autograd node')}"
    kinds = Counter(node.kind for node in operations_in(facts, item))
    notable = [counted(kinds[kind], noun) for kind, noun in _NOTABLE.items() if kinds[kind]]
    if notable:
        yield "among them " + listed(notable)
    leaves = [facts.graph.nodes[leaf] for leaf in item.parameters]
    if leaves:
        yield "parameters: " + listed([leaf.names[0] if leaf.names else "unnamed" for leaf in leaves])
