/**
 * A part of a scene, laid out anew: what is left keeps its order, and room that nothing of it needs is given up.
 *
 * @import { Part } from "../graph/connections.js"
 * @import { OpenRect, Rect, Scene, SceneLine } from "./types.js"
 *
 * @typedef {{from: number, to: number}} Span
 */
import { boundsOf } from "./rectangles.js";

/** What stays of a gap between two things. */
const MAX_GAP = 30;
const TITLE_HEIGHT = 34;
/** Beside the title of an open box: its margins, and the button that folds it. */
const BESIDE_TITLE = 44;

/**
 * Only some items and lines, and the open boxes around those items.
 *
 * @param {Scene} scene
 * @param {Part} kept
 * @param {(number: number) => number[]} boxesAround the items by which the boxes around an item are drawn
 * @returns {Scene}
 */
export function condensed(scene, kept, boxesAround) {
  const items = new Map([...scene.items].filter(([number]) => kept.items.has(number)));
  const around = new Set([...items.keys()].flatMap(boxesAround));
  const open = new Map([...scene.open].filter(([number]) => around.has(number)));
  const lines = scene.lines.filter(({ key, from, to }) => kept.lines.has(key) && isJoined(from, items) && isJoined(to, items));
  if (!items.size) return scene;
  const across = shrinking([...spansAcross(items.values(), open.values(), lines)]);
  const down = shrinking([...spansDown(items.values(), open.values(), lines)]);
  /** @param {Rect} rect */
  const moved = ({ x, y, width, height }) => ({ x: across(x), y: down(y), width: across(x + width) - across(x), height: down(y + height) - down(y) });
  const part = {
    items: new Map([...items].map(([number, rect]) => [number, moved(rect)])),
    open: new Map([...open].map(([number, rect]) => [number, { ...rect, ...moved(rect), titleFrom: across(rect.x + rect.titleFrom) - across(rect.x) }])),
    lines: lines.map((line) => ({ ...line, bounds: undefined, points: line.points.map(({ x, y }) => ({ x: across(x), y: down(y) })) })),
  };
  const rects = [...part.items.values(), ...part.open.values()];
  return { ...part, ...boundsOf([...rects.flatMap(cornersOf), ...part.lines.flatMap(({ points }) => points)]) };
}

/**
 * Whether an end is at the border of a box, or at one of some items.
 *
 * @param {string} end
 * @param {Map<number, Rect>} items
 */
const isJoined = (end, items) => !end.startsWith("item:") || items.has(Number(end.slice("item:".length)));

/** @param {Rect} rect */
const cornersOf = ({ x, y, width, height }) => [{ x, y }, { x: x + width, y: y + height }];

/**
 * @param {Iterable<Rect>} items
 * @param {Iterable<OpenRect>} open
 * @param {SceneLine[]} lines
 * @returns {Iterable<Span>}
 */
function* spansAcross(items, open, lines) {
  for (const { x, width } of items) yield { from: x, to: x + width };
  for (const { x, width, titleFrom, box } of open) {
    yield { from: x, to: x + titleFrom + box.header_width + BESIDE_TITLE };
    yield { from: x + width, to: x + width };
  }
  for (const { points } of lines) for (const { x } of points) yield { from: x, to: x };
}

/**
 * @param {Iterable<Rect>} items
 * @param {Iterable<OpenRect>} open
 * @param {SceneLine[]} lines
 * @returns {Iterable<Span>}
 */
function* spansDown(items, open, lines) {
  for (const { y, height } of items) yield { from: y, to: y + height };
  for (const { y, height } of open) {
    yield { from: y, to: y + TITLE_HEIGHT };
    yield { from: y + height, to: y + height };
  }
  for (const { points } of lines) for (const { y } of points) yield { from: y, to: y };
}

/**
 * Maps positions on an axis: of what lies between spans, only `MAX_GAP` stays.
 *
 * @param {Span[]} spans
 * @returns {(position: number) => number}
 */
function shrinking(spans) {
  spans.sort((one, other) => one.from - other.from);
  /** @type {{after: number, less: number}[]} each gap that was shrunk: behind it, all that was given up so far */
  const gaps = [];
  let [end, less] = [spans[0].from, 0];
  for (const { from, to } of spans) {
    if (from - end > MAX_GAP) {
      less += from - end - MAX_GAP;
      gaps.push({ after: from, less });
    }
    end = Math.max(end, to);
  }
  return (position) => position - (gaps.findLast(({ after }) => after <= position)?.less ?? 0);
}
