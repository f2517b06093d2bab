/**
 * Words beside wires, where they touch no item, no title, no other words and no other wire; what finds no room is left out.
 *
 * @import { Point, Rect, Scene } from "../layout/types.js"
 */
import { boundsOf, touch } from "../layout/rectangles.js";
import { itemAt } from "../graph/connections.js";
import { brushOf, byId, s } from "../shared/dom.js";
import { rounded } from "../shared/number-words.js";

const HEIGHT = 11;
const BASELINE = 8.5;
/** Between words and their own wire. */
const CLEARANCE = 5;
const MIN_STRETCH = 12;
/** Fractions of a stretch of wire at which words are tried. */
const POSITIONS = [0.5, 0.3, 0.7, 0.12, 0.88];
const TITLE_HEIGHT = 32;
/** In a picture with more, nobody reads them, and looking for room would take longer than drawing. */
const MAX_LINES = 1500;

const brush = brushOf(document.createElement("canvas"));

/**
 * @param {Element} layer
 * @param {Scene} scene what is drawn
 */
export function showLabels(layer, scene) {
  layer.replaceChildren();
  if (scene.lines.length > MAX_LINES) return;
  // Of a wire that crosses borders of boxes, the stretch that leaves the item.
  const wanted = scene.lines.flatMap(({ flow, from, points }) => (flow?.label && itemAt(from) !== null ? [{ label: flow.label, points }] : []));
  if (!wanted.length) return;
  brush.font = `9.5px ${getComputedStyle(byId("picture")).fontFamily}`;
  const titles = [...scene.open.values()].map(({ x, y, titleFrom, box }) => ({ x: x + titleFrom, y, width: box.header_width, height: TITLE_HEIGHT }));
  const taken = [...scene.items.values(), ...titles];
  const wires = scene.lines.flatMap((line) => stretchesOf(line.points).map(({ from, to }) => boundsOf([from, to])));
  for (const { label, points } of wanted) {
    const room = roomFor(label, points, taken, wires);
    if (!room) continue;
    taken.push(room);
    layer.append(s("text", { class: shadeAt(room, scene), x: rounded(room.x), y: rounded(room.y + BASELINE) }, label));
  }
}

/**
 * @param {string} label
 * @param {Point[]} points
 * @param {Rect[]} taken
 * @param {Rect[]} wires
 * @returns {Rect|null}
 */
function roomFor(label, points, taken, wires) {
  const { width } = brush.measureText(label);
  /** @param {Rect} rect */
  const isFree = (rect) => ![taken, wires].some((others) => others.some((other) => touch(other, rect)));
  for (const { from, to } of stretchesOf(points)) {
    if (Math.hypot(to.x - from.x, to.y - from.y) < MIN_STRETCH) continue;
    for (const part of POSITIONS) {
      const [x, y] = [from.x + part * (to.x - from.x), from.y + part * (to.y - from.y)];
      const corners = from.x === to.x
        ? [{ x: x + CLEARANCE, y: y - HEIGHT / 2 }, { x: x - CLEARANCE - width, y: y - HEIGHT / 2 }]
        : [{ x: x - width / 2, y: y - CLEARANCE - HEIGHT }, { x: x - width / 2, y: y + CLEARANCE }];
      const found = corners.map((corner) => ({ ...corner, width, height: HEIGHT })).find(isFree);
      if (found) return found;
    }
  }
  return null;
}

/**
 * Of the box in which it stands: words have a seam of that colour.
 *
 * @param {Rect} room
 * @param {Scene} scene
 */
function shadeAt(room, scene) {
  const depths = [...scene.open.values()].filter((rect) => touch(rect, room)).map(({ depth }) => depth);
  return depths.length ? `d${Math.min(3, Math.max(...depths))}` : null;
}

/** @param {Point[]} points */
const stretchesOf = (points) => points.slice(1).map((to, at) => ({ from: points[at], to }));
