/** Where everything is. Lengths are pixels at a scale of 1; y grows downwards. */
import type { PageFlow, TitledBox } from "../document/types.js";

export interface Point {
  x: number;
  y: number;
}

export interface Rect extends Point {
  width: number;
  height: number;
}

/** A part of the scene, and how many pixels one of its coordinates is there. */
export interface SeenRect extends Rect {
  scale: number;
}

/** An open box, and how many others it lies in. */
export interface OpenRect extends Rect {
  depth: number;
  box: TitledBox;
  /** From its left end. */
  titleFrom: number;
}

/** One stretch of a wire, drawn as one. */
export interface SceneLine {
  key: string;
  /** What it comes from: an item (``item:12``), or where data crosses the border of an open box. */
  from: string;
  to: string;
  points: Point[];
  flow?: PageFlow;
  /** Unknown of a leaf's. */
  isQuiet?: boolean;
  source: number;
  target: number | null;
  /** What holds all its points, once somebody asked. */
  bounds?: Rect;
}

/** Everything that is shown. */
export interface Scene extends Rect {
  /** Closed items, by their numbers. */
  items: Map<number, Rect>;
  /** Each open box after those around it. */
  open: Map<number, OpenRect>;
  lines: SceneLine[];
}
