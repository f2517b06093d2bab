// Made by 'python -m tests.page.document_types' of gradviz.rendering.page.document: change that instead.

/** Words on an item, with the left end of their baseline. */
export interface PageLine {
  text: string;
  /** Its class: title, leaf's title, or small. */
  style: string;
  x: number;
  y: number;
  aside?: string;
  aside_x?: number;
}

/** A count, or a flag with its level, with the left end of the chip on the baseline of its words. */
export interface PageChip {
  text: string;
  x: number;
  y: number;
  width: number;
  level?: string;
}

/** Lines of the panel below a heading. */
export interface PageSection {
  heading: string;
  lines: string[];
}

/** Something that can be drawn. Its number is its index in `PageDocument.items`. */
export interface PageItem {
  role: string;
  width: number;
  height: number;
  /** The index of its outline in `PageDocument.shapes`. */
  shape: number;
  title: string;
  /** The box around it. */
  parent?: number;
  is_leaf?: boolean;
  /** Indices in `PageDocument.lines`. */
  lines?: number[];
  chips?: PageChip[];
  subtitle?: string;
  /** The path of a module call in the model. */
  path?: string;
  shape_words?: string;
  line?: string;
  source?: [string, number];
  /** A link that opens that line in an editor. */
  link?: string;
  /** More words for the search: parameters and modules that it represents. */
  names?: string[];
  /** Ids of the autograd nodes that it represents; none for a box. */
  nodes?: number[];
  node_count?: number;
  repeat?: number;
  /** For a box that is open with all of its repetitions: the box that is open with the first one. */
  each_of?: number;
  /** An index in `PageDocument.tints`. */
  tints?: number;
  /** The measured figures in words, by the name of the colouring. */
  figures?: Record<string, string>;
  /** The largest measured figure, by the name of the colouring. */
  numbers?: Record<string, number>;
  /** The severity of the most severe finding in it. */
  finding?: string;
  is_failed?: boolean;
}

/** A gradient that flowed along an edge, or arrived as the sum of several. */
export interface PageGradient {
  /** The item at the other end of the edge. */
  node?: number;
  /** The name of the sum, if there are several. */
  what?: string;
  shape?: string;
  /** Its figures in words; empty if it was not measured. */
  facts?: string[];
  /** All of its numbers, if they were recorded. */
  numbers?: string;
  /** How many absolute values of a sample are in each power of ten. */
  histogram?: number[];
  /** The exponent of the first of these. */
  first_decade?: number;
}

/** A tensor that a node keeps for its backward. */
export interface PageSaved {
  slot: string;
  facts?: string[];
  /** Some of the other nodes that keep the same memory. */
  shared_with?: number[];
  /** The number of those nodes. */
  sharing?: number;
}

/** A fact about one item in each of two runs. */
export interface PageSides {
  what: string;
  a: string;
  /** Both empty for a row about the two together, whose words are in `what`. */
  b: string;
}

/** PageSides as the file has it. */
export type PackedPageSides = [what: string, a: string, b: string];

/** The facts about one item that the picture does not show; of several repetitions, about the first. */
export interface PageDetails {
  sections?: PageSection[];
  /** The formula of its backward. */
  formula?: PageSection;
  /** Files and line numbers of the user's code above the line that made it, the innermost first. */
  callers?: [string, number][];
  /** The gradient along each edge that enters the item. */
  entering?: PageGradient[];
  /** The sums of these. */
  arrived?: PageGradient[];
  leaving?: PageGradient[];
  /** True if some are left out. */
  has_more_edges?: boolean;
  /** The gradient norm at each repetition, if it represents several. */
  norms?: (number | null)[];
  saved?: PageSaved[];
  /** Indices in `PageDocument.findings`. */
  findings?: number[];
  /** For a graph of two runs: the facts of both. */
  sides?: PackedPageSides[];
}

/** The words for data that flows, and for the gradient that flows back. */
export interface PageFlow {
  words?: string[];
  /** ``lost``, ``broken`` or ``ghost``: see `gradviz.rendering.look.link_looks`. */
  state?: string;
  /** The norm of the gradient. */
  norm?: number;
  /** The words beside the wire: what neither of its ends shows. */
  label?: string;
}

/** An item in a cluster: its position relative to the cluster's corner, and its route to the item that uses it. */
export interface PagePosition {
  item: number;
  x: number;
  y: number;
  route: number[];
  /** An index in `PageDocument.flows`. */
  flow: number | null;
}

/** PagePosition as the file has it. */
export type PackedPagePosition = [item: number, x: number, y: number, route: number[], flow: number | null];

/** An item with the leaves drawn beside it. The item itself is first in `positions`. */
export interface PageCluster {
  x: number;
  y: number;
  /** The left edge of what is beside it, relative to `x`: zero or less. */
  left: number;
  right: number;
  height: number;
  positions: PackedPagePosition[];
}

/** Data that flows between two items in a box, or through its border. */
export interface PageWire {
  /** For a wire that `enters`: the source of the data, outside the box. */
  source: number;
  /** None for a wire that leaves the box. */
  target: number | null;
  /** x and y in turn. */
  route: number[];
  enters?: boolean;
  /** The sources of the data one level of boxes deeper, if the source is an open box. */
  ports?: number[];
  /** An index in `PageDocument.flows`. */
  flow?: number;
  is_quiet?: boolean;
}

/** The content of an open box. The first of `PageDocument.boxes` is the outermost level. */
export interface PageBox {
  width: number;
  height: number;
  clusters: PageCluster[];
  wires: PageWire[];
  /** The x at which data enters through the upper border, by its source. */
  entries: Record<string, number>;
  exits: Record<string, number>;
  item: number | null;
  header: PageLine | null;
  header_width: number;
  chip: PageChip | null;
  /** For a box that shows each repetition: its items by those that the box has while it shows only the first. */
  stands_for: Record<string, number[]>;
}

/** The meaning of tints, in order, with their classes. */
export interface PageLegend {
  words: string;
  tints: [string, string][];
  is_scale: boolean;
  /** The smallest and the largest figure of the gradient scale. It is logarithmic and also sets the wire widths. */
  ends: [number, number] | null;
}

/** A gradient that enters a step. */
export interface PageArrival {
  /** The number of the step that sends it, from 1; 0 for the gradient that backward starts from. */
  step: number;
  /** The index in `PageStep.sums` of its sum. */
  slot: number;
  /** In a word or two; empty if it was not measured, or if there are very many. */
  amount: string;
}

/** PageArrival as the file has it. */
export type PackedPageArrival = [step: number, slot: number, amount: string];

/** Nodes that the engine ran as one step. */
export interface PageStep {
  nodes: number[];
  title: string;
  subtitle: string;
  /** The gradients that entered, their sum, the formula, and the gradients that left. */
  facts: PageSection[];
  /** The gradients that enter, in the order of their arrival. */
  arrivals: PackedPageArrival[];
  /** Their sum in a word or two, for each slot in which several are summed; empty if it was not measured. */
  sums: string[];
}

/** The backward pass. */
export interface PageReplay {
  steps: PageStep[];
  /** The gradient that it starts from. */
  beginning: string[];
  /** False if the order is not recorded but the order that the engine would use. */
  was_watched: boolean;
}

/** A finding of a check. */
export interface PageFinding {
  severity: string;
  code: string;
  cause: string;
  message: string;
  /** How the cause leads to the symptom. */
  why: string;
  /** What to do about it. */
  fix: string;
  /** The nodes that it belongs to; empty if they are in no graph. */
  nodes: number[];
}

/** A row of the table of parameters. */
export interface PageParameter {
  name: string;
  shape: string;
  /** The norm of the gradient; None if no gradient arrived or it could not be measured. */
  norm: number | null;
  /** The norm of the gradient divided by the norm of the weights. */
  ratio: number | null;
  /** Why no gradient arrived, or what is unusual about it. */
  status: string;
  /** True if no gradient arrived, or only zeros, or NaN or Inf. */
  is_lost: boolean;
  /** Its leaf; None if the graph has none. */
  node: number | null;
}

/** The cost of one source line. */
export interface PageCost {
  file: string;
  line: number;
  /** Bytes kept for backward. */
  bytes: number;
  /** Seconds of its nodes in backward. */
  seconds: number;
}

/** A module, a file or a line that keeps memory; or one slot of one operation there. */
export interface PageCell {
  /** The index of the cell around it; None for the outermost cell. */
  around: number | null;
  bytes: number;
  title: string;
  name: string;
  /** ``box``; for a saved tensor ``input`` or ``intermediate``. */
  kind: string;
  storages: number;
  file: string;
  line: number;
  /** Some of the nodes that keep it. */
  nodes: number[];
}

/** PageCell as the file has it. */
export type PackedPageCell = [around: number | null, bytes: number, title: string, name: string, kind: string, storages: number, file: string, line: number, nodes: number[]];

/** The memory kept for backward; every storage is counted once. */
export interface PageMemory {
  /** Without parameters and buffers. */
  bytes: number;
  parameter_bytes: number;
  /** Not kept because of checkpointing, which computes it again. */
  recomputed_bytes: number;
  /** The number of groups of saved tensors of unknown size. */
  unknown: number;
  /** Nested: outer cells before inner ones, larger before smaller. */
  by_module: PackedPageCell[];
  by_line: PackedPageCell[];
}

/** One of several graphs in a page. */
export interface PageCall {
  title: string;
  /** Its source line. */
  location: string;
  size: string;
}

/** A difference between two graphs. */
export interface PageChange {
  what: string;
  then: string;
  now: string;
  /** The item in the later graph. */
  node: number | null;
}

/** Differences of one kind, the largest first. */
export interface PageChanges {
  heading: string;
  rows: PageChange[];
  /** The number of differences that are left out. */
  more: number;
}

/** A difference between two runs, at an item. */
export interface PageStop {
  item: number;
  /** ``+ only in B`` */
  words: string;
  /** What differs there, in a sentence; empty if the words say all. */
  reason: string;
  /** Whether the runs begin to differ here. */
  is_first: boolean;
}

/** What differs between two runs that are drawn as one graph. */
export interface PageDifference {
  sentence: string;
  a: string;
  /** Names of the two runs. */
  b: string;
  /** In the order of the computation. */
  stops: PageStop[];
}

/** The data of one graph in the page. */
export interface PageDocument {
  name: string;
  facts: string;
  error: string;
  notes: string[];
  /** Path data of outlines, of the lines inside each, and of the sheets behind it. */
  shapes: string[][];
  /** The name of each role, its outline in a legend, and the lines inside the outline; in the order of legends. */
  roles: Record<string, string[]>;
  items: PageItem[];
  lines: PageLine[];
  /** Legends by the name of the colouring. */
  tints: (Record<string, string[]>)[];
  boxes: PageBox[];
  flows: PageFlow[];
  /** The boxes that are open at first, by their items. */
  opened: number[];
  legends: Record<string, PageLegend>;
  sources: Record<string, Record<string, string>>;
  costs: PageCost[];
  /** Empty if no gradients were recorded. */
  parameters: PageParameter[];
  memory: PageMemory | null;
  findings: PageFinding[];
  /** None if it has too many steps to be played. */
  replay: PageReplay | null;
  arrows: string;
  color_by: string;
  theme: string;
  /** All graphs of the page, if there are several. */
  calls: PageCall[];
  /** The differences from the graph before. */
  changes: PageChanges[];
  /** The index of this graph among them. */
  index: number;
  /** For a graph of two runs. */
  difference: PageDifference | null;
}
