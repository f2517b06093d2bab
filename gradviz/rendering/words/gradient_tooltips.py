"""Gradients and values in numbers, for tooltips.

Numbers are rounded to three digits, and means to a thousandth of the root mean square: smaller digits are the rounding
errors of sums, which differ on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, log10, sqrt

from gradviz.graph.gradients import BranchShare, LeafGradient, TensorFigures, at_index
from gradviz.graph.model import Node
from gradviz.rendering.words.common_words import counted, shape_words_of
from gradviz.rendering.words.exchange_words import exchange_sentence
from gradviz.rendering.words.gradient_words import LinkBranch, arrived_by_repetition, figures_words, gradient_words
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.rendering.words.value_words import number_words, value_words
from gradviz.view.model import Item, Link

MAX_OUTPUTS = 4
MAX_BRANCHES = 6
MAX_REPETITIONS = 24
MAX_NUMBERS = 64
_LEVELS = "▁▂▃▄▅▆▇█"
_OUTCOMES = {
    "fresh": ".grad was empty before",
    "unchanged": ".grad is unchanged: nothing arrived",
    "taken": ".grad was taken away again by a hook",
}


def node_values(node: Node) -> Iterator[str]:
    """The values that a node computed, if they were recorded."""
    yield from _values("value", node.values)


def node_gradients(facts: SubjectFacts, item: Item, node: Node) -> Iterator[str]:
    """The gradients that arrived at a node, before and after its hooks."""
    if len(arrived_by_repetition(facts, item)) > 1:
        yield from range_of_gradients(facts, item)
        return
    for name, arrived in arrivals(node):
        yield from figures_lines(name, arrived)


def arrivals(node: Node) -> Iterator[tuple[str, TensorFigures | None]]:
    """The gradient that arrived for each output of a node, by name; if a hook changed it, also before that."""
    for index, (name, arrived) in enumerate(_named("gradient", node.arrived)):
        before = at_index(node.before_hooks, index)
        if before is not None and before != arrived:
            yield f"{name} before the hooks on it", before
            yield f"{name} after them", arrived
        else:
            yield name, arrived


def node_run(facts: SubjectFacts, item: Item, node: Node) -> Iterator[str]:
    """What happened to ``.grad``, and when the node ran."""
    if len(arrived_by_repetition(facts, item)) > 1:
        return
    if node.leaf_gradient is not None:
        yield _outcome(node.leaf_gradient)
    for exchange in facts.exchanges_by_leaf.get(node.id, ()):
        yield exchange_sentence(exchange, facts.run_count)
    if node.run is not None:
        yield from _run(facts, node)


def range_of_gradients(facts: SubjectFacts, item: Item) -> Iterator[str]:
    """The gradients of a box, or of an item that represents several repetitions, in one line."""
    if words := gradient_words(facts, item):
        count = len(arrived_by_repetition(facts, item))
        yield f"gradient, norm: {words}" + (f", at the first and the last of {count:,}" if count > 1 else "")


def link_gradients(link: Link, branches: Sequence[LinkBranch]) -> Iterator[str]:
    """The gradients that flow back along a link, and their parts of the sum where branches meet."""
    if len(branches) > (MAX_BRANCHES if link.edge_count > 1 else MAX_REPETITIONS):
        first, last = (figures_words([branch.gradient]) for branch in (branches[0], branches[-1]))
        yield f"gradients back along {len(branches):,} edges, norms: {first} … {last}"
        return
    for branch in branches:
        if branch.gradient is not None:
            yield from figures_lines("gradient back", branch.gradient)
            yield from share_words(branch.share)


def share_words(share: BranchShare | None) -> Iterator[str]:
    """The relation of one of several gradients to their sum."""
    if share is not None and share.share is not None:
        yield f"its part of the sum: {_three(share.share * 100)} %"
    if share is not None and share.cosine is not None:
        yield f"cosine to the other branches: {_three(share.cosine)}"


def figures_lines(name: str, figures: TensorFigures | None) -> Iterator[str]:
    """A line of numbers and, for larger tensors, a line with a histogram."""
    if figures is None:
        return
    if not _is_of_several(figures):
        yield f"{name}: {', '.join(figures_facts(figures))}"
        return
    yield f"{name} {shape_words_of(figures.shape)}: {', '.join(figures_facts(figures))}"
    if figures.values is not None:
        yield f"{name} = {value_words(figures, MAX_NUMBERS)}"
    elif len(figures.histogram) > 1:
        yield _histogram(figures)


def figures_facts(figures: TensorFigures) -> Iterator[str]:
    """The facts about a gradient, without its name and shape."""
    if figures.is_undefined:
        yield "none, which counts as zero"
    elif figures.unmeasured is not None:
        yield f"not measured, {figures.unmeasured}"
    elif figures.count == 1 and figures.minimum is not None:
        yield number_words(figures.minimum)
    else:
        yield from _facts(figures)


def _is_of_several(figures: TensorFigures) -> bool:
    """Whether it was measured and has more than one element."""
    return figures.is_measured and not (figures.count == 1 and figures.minimum is not None)


def _facts(figures: TensorFigures) -> Iterator[str]:
    for count, word in ((figures.nans, "NaN"), (figures.infs, "Inf")):
        if count:
            yield f"{count:,} of {figures.count:,} {word}"
    if figures.is_zero:
        yield f"all {counted(figures.count, 'element')} 0"
        return
    if figures.norm is not None:
        yield f"norm {_three(figures.norm)}"
    if figures.mean is not None and figures.norm is not None:
        yield f"mean {_mean(figures.mean, figures.norm / sqrt(figures.count or 1))}"
    if figures.minimum is not None and figures.maximum is not None:
        yield f"from {_three(figures.minimum)} to {_three(figures.maximum)}"
    if figures.zeros:
        yield f"{_three(100 * figures.zeros / figures.count)} % zeros"


def _mean(mean: float, typical: float) -> str:
    if not typical:
        return "0"
    quantum = 10.0 ** (floor(log10(typical)) - 2)
    # The smallest numbers that float64 has are smaller than their own third digit.
    return _three(round(mean / quantum) * quantum if quantum else mean)


def _three(value: float) -> str:
    return f"{value:.3g}" if value else "0"


def _histogram(figures: TensorFigures) -> str:
    """``sizes 1e-7 ▁▃▇█▂ 1e-2``: how many absolute values are in each power of ten."""
    most = max(figures.histogram)
    # A few must not look like none.
    blocks = (_LEVELS[max(count * 8 // (most + 1), 0)] if count else " " for count in figures.histogram)
    first = figures.histogram_from
    return f"sizes 1e{first} {''.join(blocks)} 1e{first + len(figures.histogram)}"


def _named(what: str, tensors: Sequence[TensorFigures | None]) -> Iterator[tuple[str, TensorFigures | None]]:
    for number, figures in enumerate(tensors[:MAX_OUTPUTS]):
        yield f"{what} of output {number}" if len(tensors) > 1 else what, figures


def _values(what: str, values: Sequence[TensorFigures | None]) -> Iterator[str]:
    for name, figures in _named(what, values):
        if words := value_words(figures, MAX_NUMBERS):
            yield f"{name} = {words}"


def _outcome(leaf: LeafGradient) -> str:
    if leaf.reduced_by:
        norm = figures_words([leaf.after]) or "?"
        return f".grad, which {leaf.reduced_by} made of the gradients of all ranks: norm {norm}"
    if leaf.outcome != "accumulated":
        return _OUTCOMES[leaf.outcome]
    before, after = figures_words([leaf.before]), figures_words([leaf.after])
    return f".grad was added to: norm {before or '?'} before, {after or '?'} after"


def _run(facts: SubjectFacts, node: Node) -> Iterator[str]:
    """Without the duration: the same program must always give the same picture."""
    assert node.run is not None
    thread = f", on thread {node.run.thread}" if node.run.thread else ""
    times = f", {node.run.times} times" if node.run.times > 1 else ""
    yield f"run by the engine as number {node.run.order + 1:,} of {facts.run_count:,}{thread}{times}"
