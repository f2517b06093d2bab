"""The data of the page: every box of a graph, laid out with closed boxes inside, and every item with its words.

The page combines them: an open box takes space for its inside, and its neighbours keep their arrangement. Lengths are
pixels; positions in a box are relative to its upper left corner.
"""

from __future__ import annotations

from msgspec import Struct

Lines = tuple[str, ...]
Ints = tuple[int, ...]


class PageLine(Struct, frozen=True, omit_defaults=True, gc=False):
    """Words on an item, with the left end of their baseline."""

    text: str
    style: str
    """Its class: title, leaf's title, or small."""
    x: float
    y: float
    aside: str = ""
    aside_x: float = 0.0


class PageChip(Struct, frozen=True, omit_defaults=True, gc=False):
    """A count, or a flag with its level, with the left end of the chip on the baseline of its words."""

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
    """Something that can be drawn. Its number is its index in `PageDocument.items`."""

    role: str
    width: float
    height: float
    shape: int
    """The index of its outline in `PageDocument.shapes`."""
    title: str
    parent: int | None = None
    """The box around it."""
    is_leaf: bool = False
    lines: tuple[int, ...] = ()
    """Indices in `PageDocument.lines`."""
    chips: tuple[PageChip, ...] = ()
    subtitle: str = ""
    path: str = ""
    """The path of a module call in the model."""
    shape_words: str = ""
    line: str = ""
    source: tuple[str, int] | None = None
    link: str = ""
    """A link that opens that line in an editor."""
    names: Lines = ()
    """More words for the search: parameters and modules that it represents."""
    nodes: tuple[int, ...] = ()
    """Ids of the autograd nodes that it represents; none for a box."""
    node_count: int = 0
    repeat: int = 1
    each_of: int | None = None
    """For a box that is open with all of its repetitions: the box that is open with the first one."""
    tints: int | None = None
    """An index in `PageDocument.tints`."""
    figures: dict[str, str] = {}
    """The measured figures in words, by the name of the colouring."""
    numbers: dict[str, float] = {}
    """The largest measured figure, by the name of the colouring."""
    finding: str = ""
    """The severity of the most severe finding in it."""
    is_failed: bool = False


class PageGradient(Struct, frozen=True, omit_defaults=True, gc=False):
    """A gradient that flowed along an edge, or arrived as the sum of several."""

    node: int | None = None
    """The item at the other end of the edge."""
    what: str = ""
    """The name of the sum, if there are several."""
    shape: str = ""
    facts: Lines = ()
    """Its figures in words; empty if it was not measured."""
    numbers: str = ""
    """All of its numbers, if they were recorded."""
    histogram: tuple[int, ...] = ()
    """How many absolute values of a sample are in each power of ten."""
    first_decade: int = 0
    """The exponent of the first of these."""


class PageSaved(Struct, frozen=True, omit_defaults=True, gc=False):
    """A tensor that a node keeps for its backward."""

    slot: str
    facts: Lines = ()
    shared_with: tuple[int, ...] = ()
    """Some of the other nodes that keep the same memory."""
    sharing: int = 0
    """The number of those nodes."""


class PageSides(Struct, frozen=True, array_like=True, gc=False):
    """A fact about one item in each of two runs."""

    what: str
    a: str
    b: str
    """Both empty for a row about the two together, whose words are in `what`."""


class PageDetails(Struct, frozen=True, omit_defaults=True, gc=False):
    """The facts about one item that the picture does not show; of several repetitions, about the first."""

    sections: tuple[PageSection, ...] = ()
    formula: PageSection | None = None
    """The formula of its backward."""
    callers: tuple[tuple[str, int], ...] = ()
    """Files and line numbers of the user's code above the line that made it, the innermost first."""
    entering: tuple[PageGradient, ...] = ()
    """The gradient along each edge that enters the item."""
    arrived: tuple[PageGradient, ...] = ()
    """The sums of these."""
    leaving: tuple[PageGradient, ...] = ()
    has_more_edges: bool = False
    """True if some are left out."""
    norms: tuple[float | None, ...] = ()
    """The gradient norm at each repetition, if it represents several."""
    saved: tuple[PageSaved, ...] = ()
    findings: tuple[int, ...] = ()
    """Indices in `PageDocument.findings`."""
    sides: tuple[PageSides, ...] = ()
    """For a graph of two runs: the facts of both."""


class PageFlow(Struct, frozen=True, omit_defaults=True, gc=False):
    """The words for data that flows, and for the gradient that flows back."""

    words: Lines = ()
    state: str = ""
    """``lost``, ``broken`` or ``ghost``: see `gradviz.rendering.look.link_looks`."""
    norm: float | None = None
    """The norm of the gradient."""
    label: str = ""
    """The words beside the wire: what neither of its ends shows."""


class PagePosition(Struct, frozen=True, array_like=True, gc=False):
    """An item in a cluster: its position relative to the cluster's corner, and its route to the item that uses it."""

    item: int
    x: float
    y: float
    route: tuple[float, ...] = ()
    flow: int | None = None
    """An index in `PageDocument.flows`."""


class PageCluster(Struct, frozen=True, gc=False):
    """An item with the leaves drawn beside it. The item itself is first in `positions`."""

    x: float
    y: float
    left: float
    """The left edge of what is beside it, relative to `x`: zero or less."""
    right: float
    height: float
    positions: tuple[PagePosition, ...]


class PageWire(Struct, frozen=True, omit_defaults=True, gc=False):
    """Data that flows between two items in a box, or through its border."""

    source: int
    """For a wire that `enters`: the source of the data, outside the box."""
    target: int | None
    """None for a wire that leaves the box."""
    route: tuple[float, ...]
    """x and y in turn."""
    enters: bool = False
    ports: tuple[int, ...] = ()
    """The sources of the data one level of boxes deeper, if the source is an open box."""
    flow: int | None = None
    """An index in `PageDocument.flows`."""
    is_quiet: bool = False


class PageBox(Struct, frozen=True):
    """The content of an open box. The first of `PageDocument.boxes` is the outermost level."""

    width: float
    height: float
    clusters: tuple[PageCluster, ...]
    wires: tuple[PageWire, ...]
    entries: dict[int, float]
    """The x at which data enters through the upper border, by its source."""
    exits: dict[int, float]
    item: int | None = None
    header: PageLine | None = None
    header_width: float = 0.0
    chip: PageChip | None = None
    stands_for: dict[int, Ints] = {}
    """For a box that shows each repetition: its items by those that the box has while it shows only the first."""


class PageLegend(Struct, frozen=True):
    """The meaning of tints, in order, with their classes."""

    words: str
    tints: tuple[tuple[str, str], ...]
    is_scale: bool = False
    ends: tuple[float, float] | None = None
    """The smallest and the largest figure of the gradient scale. It is logarithmic and also sets the wire widths."""


class PageArrival(Struct, frozen=True, array_like=True, gc=False):
    """A gradient that enters a step."""

    step: int
    """The number of the step that sends it, from 1; 0 for the gradient that backward starts from."""
    slot: int = 0
    """The index in `PageStep.sums` of its sum."""
    amount: str = ""
    """In a word or two; empty if it was not measured, or if there are very many."""


class PageStep(Struct, frozen=True, gc=False):
    """Nodes that the engine ran as one step."""

    nodes: tuple[int, ...]
    title: str
    subtitle: str
    facts: tuple[PageSection, ...]
    """The gradients that entered, their sum, the formula, and the gradients that left."""
    arrivals: tuple[PageArrival, ...]
    """The gradients that enter, in the order of their arrival."""
    sums: Lines
    """Their sum in a word or two, for each slot in which several are summed; empty if it was not measured."""


class PageReplay(Struct, frozen=True):
    """The backward pass."""

    steps: tuple[PageStep, ...]
    beginning: Lines
    """The gradient that it starts from."""
    was_watched: bool
    """False if the order is not recorded but the order that the engine would use."""


class PageFinding(Struct, frozen=True, gc=False):
    """A finding of a check."""

    severity: str
    code: str
    cause: str
    message: str
    why: str
    """How the cause leads to the symptom."""
    fix: str
    """What to do about it."""
    nodes: tuple[int, ...]
    """The nodes that it belongs to; empty if they are in no graph."""


class PageParameter(Struct, frozen=True, gc=False):
    """A row of the table of parameters."""

    name: str
    shape: str
    norm: float | None
    """The norm of the gradient; None if no gradient arrived or it could not be measured."""
    ratio: float | None
    """The norm of the gradient divided by the norm of the weights."""
    status: str
    """Why no gradient arrived, or what is unusual about it."""
    is_lost: bool
    """True if no gradient arrived, or only zeros, or NaN or Inf."""
    node: int | None
    """Its leaf; None if the graph has none."""


class PageCost(Struct, frozen=True, gc=False):
    """The cost of one source line."""

    file: str
    line: int
    bytes: int
    """Bytes kept for backward."""
    seconds: float
    """Seconds of its nodes in backward."""


class PageCell(Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """A module, a file or a line that keeps memory; or one slot of one operation there."""

    around: int | None
    """The index of the cell around it; None for the outermost cell."""
    bytes: int
    title: str
    name: str = ""
    kind: str = "box"
    """``box``; for a saved tensor ``input`` or ``intermediate``."""
    storages: int = 0
    file: str = ""
    line: int = 0
    nodes: tuple[int, ...] = ()
    """Some of the nodes that keep it."""


class PageMemory(Struct, frozen=True):
    """The memory kept for backward; every storage is counted once."""

    bytes: int
    """Without parameters and buffers."""
    parameter_bytes: int
    recomputed_bytes: int
    """Not kept because of checkpointing, which computes it again."""
    unknown: int
    """The number of groups of saved tensors of unknown size."""
    by_module: tuple[PageCell, ...]
    """Nested: outer cells before inner ones, larger before smaller."""
    by_line: tuple[PageCell, ...]


class PageCall(Struct, frozen=True, gc=False):
    """One of several graphs in a page."""

    title: str
    location: str
    """Its source line."""
    size: str


class PageChange(Struct, frozen=True, gc=False):
    """A difference between two graphs."""

    what: str
    then: str
    now: str
    node: int | None = None
    """The item in the later graph."""


class PageChanges(Struct, frozen=True, gc=False):
    """Differences of one kind, the largest first."""

    heading: str
    rows: tuple[PageChange, ...]
    more: int
    """The number of differences that are left out."""


class PageStop(Struct, frozen=True, gc=False):
    """A difference between two runs, at an item."""

    item: int
    words: str
    """``+ only in B``"""
    reason: str
    """What differs there, in a sentence; empty if the words say all."""
    is_first: bool
    """Whether the runs begin to differ here."""


class PageDifference(Struct, frozen=True, gc=False):
    """What differs between two runs that are drawn as one graph."""

    sentence: str
    a: str
    b: str
    """Names of the two runs."""
    stops: tuple[PageStop, ...]
    """In the order of the computation."""


class PageDocument(Struct, frozen=True):
    """The data of one graph in the page."""

    name: str
    facts: str
    error: str
    notes: Lines
    shapes: tuple[tuple[str, ...], ...]
    """Path data of outlines, of the lines inside each, and of the sheets behind it."""
    roles: dict[str, Lines]
    """The name of each role, its outline in a legend, and the lines inside the outline; in the order of legends."""
    items: tuple[PageItem, ...]
    lines: tuple[PageLine, ...]
    tints: tuple[dict[str, Lines], ...]
    """Legends by the name of the colouring."""
    boxes: tuple[PageBox, ...]
    flows: tuple[PageFlow, ...]
    opened: tuple[int, ...]
    """The boxes that are open at first, by their items."""
    legends: dict[str, PageLegend]
    sources: dict[str, dict[int, str]]
    costs: tuple[PageCost, ...]
    parameters: tuple[PageParameter, ...]
    """Empty if no gradients were recorded."""
    memory: PageMemory | None
    findings: tuple[PageFinding, ...]
    replay: PageReplay | None
    """None if it has too many steps to be played."""
    arrows: str = "data"
    color_by: str = "kind"
    theme: str = "auto"
    calls: tuple[PageCall, ...] = ()
    """All graphs of the page, if there are several."""
    changes: tuple[PageChanges, ...] = ()
    """The differences from the graph before."""
    index: int = 0
    """The index of this graph among them."""
    difference: PageDifference | None = None
    """For a graph of two runs."""
