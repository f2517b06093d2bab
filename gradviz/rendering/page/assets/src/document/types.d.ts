/**
 * The document as the script has it, made by `decode-document.js` of what the file carries (`wire-types.d.ts`): what
 * the file tells by its position in a list has a name here, and what many things share stands where it belongs.
 */
import type {
  PageArrival, PageBox, PageCluster, PageDetails, PageDocument, PageFlow, PageItem, PageLegend, PageLine, PagePosition, PageSides, PageStep,
  PageWire,
} from "./wire-types.js";

export type {
  PageArrival, PageCell, PageChip, PageFinding, PageFlow, PageGradient, PageLine, PageParameter, PageSaved, PageSection,
  PageSides,
} from "./wire-types.js";

/** Changes the types of some fields. */
type With<T, Changed> = Omit<T, keyof Changed> & Changed;

export interface SourceLine {
  file: string;
  line: number;
}

/** Path data of an outline, of the lines inside it, and of the sheets behind it. */
export interface Shape {
  front: string;
  inner: string;
  behind: string[];
}

/** What a role is called, and how it looks in a legend. */
export interface Role {
  words: string;
  outline: string;
  inner: string;
}

/** The classes of an item's bands, by what items can be coloured by. */
export type Tints = Record<string, string[]>;

export type Item = With<PageItem, { lines?: PageLine[]; tints?: Tints; source?: SourceLine }>;

/** An item in a cluster, from the cluster's corner. */
export type PlacedItem = With<PagePosition, { flow?: PageFlow }>;

/** An item with the leaves drawn beside it; the first of `items` is the item itself. */
export type Cluster = Omit<PageCluster, "positions"> & { items: PlacedItem[] };

export type Wire = With<PageWire, { flow?: PageFlow }>;

export type Box = With<PageBox, { clusters: Cluster[]; wires: Wire[] }>;

/** A box that is open, as an item: with a title. */
export type TitledBox = With<Box, { item: number; header: PageLine }>;

/** The smallest and the largest figure of a scale. */
export interface Range {
  min: number;
  max: number;
}

export type Legend = With<PageLegend, { tints: { tint: string; words: string }[]; ends: Range | null }>;

export type Details = With<PageDetails, { callers?: SourceLine[]; sides?: PageSides[] }>;

export type Step = With<PageStep, { arrivals: PageArrival[] }>;

export type GraphDocument = With<Omit<PageDocument, "lines" | "tints" | "flows">, {
  shapes: Shape[];
  roles: Record<string, Role>;
  items: Item[];
  boxes: Box[];
  legends: Record<string, Legend>;
  /** Which of the graphs of the page it is, counted from 0. */
  index: number;
}>;
