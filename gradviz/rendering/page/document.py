"""What the page is given: every box of a graph, laid out with all that it holds closed, and every item with its words.

The page puts these together: where a box is open, it makes room for its inside among its neighbours, which are where
they were. Lengths are pixels; places in a box are from its upper left corner.
"""

from __future__ import annotations

from msgspec import Struct

Lines = tuple[str, ...]
Ints = tuple[int, ...]


class PageLine(Struct, frozen=True, omit_defaults=True, gc=False):
    """Words on an item, from their left end on the baseline."""

    text: str
    style: str
    """Its class: title, leaf's title, or small."""
    x: float
    y: float
    aside: str = ""
    aside_x: float = 0.0


class PageChip(Struct, frozen=True, omit_defaults=True, gc=False):
    """A count, or a mark with its level, from the left end of the chip on the baseline of its words."""

    text: str
    x: float
    y: float
    width: float
    level: str = ""


class PageSection(Struct, frozen=True, gc=False):
    """Lines of the panel below a heading."""

    heading: str
    lines: Lines


class PageItem(Struct, frozen=True, omit_defaults=True):
    """One thing that can be drawn. Its number is its place in `PageDocument.items`."""

    role: str
    width: float
    height: float
    shape: int
    """Its outline in `PageDocument.shapes`."""
    title: str
    parent: int | None = None
    """The box in which it lies."""
    is_leaf: bool = False
    lines: tuple[int, ...] = ()
    """In `PageDocument.lines`."""
    chips: tuple[PageChip, ...] = ()
    subtitle: str = ""
    path: str = ""
    """Of a module call, where it stands in the model."""
    shape_words: str = ""
    line: str = ""
    source: tuple[str, int] | None = None
    link: str = ""
    """Opens that line in an editor."""
    names: Lines = ()
    """More words by which it is found: parameters and modules of all that it stands for."""
    nodes: tuple[int, ...] = ()
    """Ids of the autograd nodes that it stands for; none of a box."""
    node_count: int = 0
    repeat: int = 1
    each_of: int | None = None
    """Of a box that is open with each of its repetitions, the box that is open with the first of them."""
    tints: int | None = None
    """In `PageDocument.tints`."""
    figures: dict[str, str] = {}
    """What was measured, in words, by what items can be coloured by."""
    numbers: dict[str, float] = {}
    """The largest of what was measured, by the same."""
    finding: str = ""
    """The severity of the worst that a check found in it."""
    is_failed: bool = False


class PageGradient(Struct, frozen=True, omit_defaults=True, gc=False):
    """A gradient that went along an edge, or arrived as the sum of several."""

    node: int | None = None
    """At the other end of the edge."""
    what: str = ""
    """Which sum it is, where there are several."""
    shape: str = ""
    facts: Lines = ()
    """Figures in words; none where nothing was measured."""
    numbers: str = ""
    """Every one of them, where they were kept."""
    histogram: tuple[int, ...] = ()
    """How many of a sample have their absolute value in each power of ten."""
    first_decade: int = 0
    """The exponent of the first of these."""


class PageSaved(Struct, frozen=True, omit_defaults=True, gc=False):
    """A tensor that a node keeps for its backward."""

    slot: str
    facts: Lines = ()
    shared_with: tuple[int, ...] = ()
    """Some of the other nodes that keep the same memory."""
    sharing: int = 0
    """How many those are."""


class PageDetails(Struct, frozen=True, omit_defaults=True, gc=False):
    """What is known of one item beyond what the picture shows; of several repetitions, of the first."""

    sections: tuple[PageSection, ...] = ()
    formula: PageSection | None = None
    """What backward computes there."""
    callers: tuple[tuple[str, int], ...] = ()
    """Files and numbers of the reader's own lines above the one that made it, the innermost first."""
    entering: tuple[PageGradient, ...] = ()
    """Along each edge from something else."""
    arrived: tuple[PageGradient, ...] = ()
    """The sums of these."""
    leaving: tuple[PageGradient, ...] = ()
    has_more_edges: bool = False
    """Some are left out."""
    norms: tuple[float | None, ...] = ()
    """Of what arrived at each repetition, where it stands for several."""
    saved: tuple[PageSaved, ...] = ()
    findings: tuple[int, ...] = ()
    """Places in `PageDocument.findings`."""


class PageFlow(Struct, frozen=True, omit_defaults=True, gc=False):
    """What is said of data that flows, and of the gradient that flows back."""

    words: Lines = ()
    state: str = ""
    """``lost``, ``broken`` or ``cut_edge``: see `gradviz.rendering.look.link_looks`."""
    norm: float | None = None
    """Of the gradient."""
    label: str = ""
    """Stands beside the wire: what neither of its ends says."""


class PagePlace(Struct, frozen=True, array_like=True, gc=False):
    """An item in a cluster, from the cluster's corner, and its way to the item for which it is there."""

    item: int
    x: float
    y: float
    route: tuple[float, ...] = ()
    flow: int | None = None
    """In `PageDocument.flows`."""


class PageCluster(Struct, frozen=True, gc=False):
    """An item with the leaves drawn beside it; places are its own first."""

    x: float
    y: float
    left: float
    """Where what is beside it begins, from `x`: zero or less."""
    right: float
    height: float
    places: tuple[PagePlace, ...]


class PageWire(Struct, frozen=True, omit_defaults=True, gc=False):
    """Data that flows between two things in a box, or through its border."""

    source: int
    """For one that `enters`, what the data comes from, outside the box."""
    target: int | None
    """None for one that leaves the box."""
    route: tuple[float, ...]
    """x and y in turn."""
    enters: bool = False
    ports: tuple[int, ...] = ()
    """What exactly the data comes from, one level of boxes deeper: where it crosses the border of an open box."""
    flow: int | None = None
    """In `PageDocument.flows`."""
    is_quiet: bool = False


class PageBox(Struct, frozen=True):
    """What an open box holds; the first of `PageDocument.boxes` is the outermost level."""

    width: float
    height: float
    clusters: tuple[PageCluster, ...]
    wires: tuple[PageWire, ...]
    entries: dict[int, float]
    """Where data enters through the upper border, by what it comes from."""
    exits: dict[int, float]
    item: int | None = None
    header: PageLine | None = None
    header_width: float = 0.0
    chip: PageChip | None = None
    stands_for: dict[int, Ints] = {}
    """Of a box that shows each repetition: for what crosses its lower border, what does while it shows the first."""


class PageLegend(Struct, frozen=True):
    """What tints mean, in order, with their classes."""

    words: str
    tints: tuple[tuple[str, str], ...]
    is_scale: bool = False
    ends: tuple[float, float] | None = None
    """Least and largest figure of the scale of gradients, which is logarithmic and also tells how wide wires are."""


class PageArrival(Struct, frozen=True, array_like=True, gc=False):
    """A gradient that enters a step."""

    step: int
    """The one that sends it, counted from 1; 0 for what backward starts from."""
    slot: int = 0
    """The place in `PageStep.sums` of what it is summed into."""
    amount: str = ""
    """In a word or two; empty where nobody measured it, and for one of very many."""


class PageStep(Struct, frozen=True, gc=False):
    """What the engine ran as one."""

    nodes: tuple[int, ...]
    title: str
    subtitle: str
    facts: tuple[PageSection, ...]
    """What entered, how it is summed, the formula, and what left."""
    arrivals: tuple[PageArrival, ...]
    """The gradients that enter, in the order of their arrival."""
    sums: Lines
    """What they make together, in a word or two, for each slot in which some are summed; empty where not measured."""


class PageReplay(Struct, frozen=True):
    """The backward pass."""

    steps: tuple[PageStep, ...]
    beginning: Lines
    """What it starts from."""
    was_watched: bool
    """False where the order is the one that the engine would take."""


class PageFinding(Struct, frozen=True, gc=False):
    """What a check found."""

    severity: str
    code: str
    cause: str
    message: str
    why: str
    """How the cause brings about what is noticed."""
    fix: str
    """What to do."""
    nodes: tuple[int, ...]
    """What it is about; none where that is in no graph."""


class PageParameter(Struct, frozen=True, gc=False):
    """A row of the table of parameters."""

    name: str
    shape: str
    norm: float | None
    """Of the gradient; None where nothing arrived, or nothing could be measured."""
    ratio: float | None
    """That over the norm of the weights."""
    status: str
    """Why nothing arrived, or what is odd about what did."""
    is_lost: bool
    """Nothing arrived, or zeros, NaN or Inf."""
    node: int | None
    """Its leaf; None where the graph has none."""


class PageCost(Struct, frozen=True, gc=False):
    """What one source line costs."""

    file: str
    line: int
    bytes: int
    """Kept for backward."""
    seconds: float
    """Of its nodes in backward."""


class PageCell(Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """A module, a file or a line that keeps something; or what one slot of one operation keeps there."""

    around: int | None
    """The cell in which it lies, by its place; None for the one around all others."""
    bytes: int
    title: str
    name: str = ""
    kind: str = "box"
    """``box``, or, of what is kept itself, ``input`` or ``intermediate``."""
    storages: int = 0
    file: str = ""
    line: int = 0
    nodes: tuple[int, ...] = ()
    """Some of those that keep it."""


class PageMemory(Struct, frozen=True):
    """What is kept for backward; every storage is counted once."""

    bytes: int
    """Without parameters and buffers."""
    parameter_bytes: int
    recomputed_bytes: int
    """What checkpointing gave up, and computes again."""
    unknown: int
    """How many sorts of saved tensors could not be sized."""
    by_module: tuple[PageCell, ...]
    """Nested, the outer before those in it, the larger before the smaller."""
    by_line: tuple[PageCell, ...]


class PageCall(Struct, frozen=True, gc=False):
    """One of several graphs in a page."""

    title: str
    place: str
    """Its source line."""
    size: str


class PageChange(Struct, frozen=True, gc=False):
    """Something that differs between two graphs."""

    what: str
    then: str
    now: str
    node: int | None = None
    """Where it is in the later one."""


class PageChanges(Struct, frozen=True, gc=False):
    """Differences of one sort, the most noticeable first."""

    heading: str
    rows: tuple[PageChange, ...]
    more: int
    """How many are left out."""


class PageDocument(Struct, frozen=True):
    """Everything that the page shows of one graph."""

    name: str
    facts: str
    error: str
    notes: Lines
    shapes: tuple[tuple[str, ...], ...]
    """Path data of outlines, of the lines inside each, and of the sheets behind it."""
    roles: dict[str, Lines]
    """What each role is called, its outline in a legend, and the lines inside that; in the order of legends."""
    items: tuple[PageItem, ...]
    lines: tuple[PageLine, ...]
    tints: tuple[dict[str, Lines], ...]
    """By what items can be coloured by."""
    boxes: tuple[PageBox, ...]
    flows: tuple[PageFlow, ...]
    opened: tuple[int, ...]
    """The boxes that are open at first, by their items."""
    legends: dict[str, PageLegend]
    sources: dict[str, dict[int, str]]
    costs: tuple[PageCost, ...]
    parameters: tuple[PageParameter, ...]
    """Empty where no gradients were recorded."""
    memory: PageMemory | None
    findings: tuple[PageFinding, ...]
    replay: PageReplay | None
    """None where it has too many steps to be played."""
    arrows: str = "data"
    color_by: str = "role"
    theme: str = "auto"
    calls: tuple[PageCall, ...] = ()
    """All graphs of the page, where there are several."""
    changes: tuple[PageChanges, ...] = ()
    """What differs in this one from the one before."""
    place: int = 0
    """That of this one among them."""
