/** Words beside wires, where they touch no item, no title, no other words and no other wire; what finds no room is left out. */
import { byId, s } from "./dom.js";
import { boundsOf, touch } from "./rects.js";

const HEIGHT = 11;
const BASELINE = 8.5;
/** Between words and their own wire. */
const CLEARANCE = 5;
const LEAST_STRETCH = 12;
/** Fractions of a stretch of wire at which words are tried. */
const PLACES = [0.5, 0.3, 0.7, 0.12, 0.88];
const TITLE_HEIGHT = 32;
/** In a picture with more, nobody reads them, and looking for room would take longer than drawing. */
const MOST_LINES = 1500;

const brush = document.createElement("canvas").getContext("2d");

/** @param {import("./composition.js").Scene} scene what is drawn */
export function showLabels(layer, scene) {
  layer.replaceChildren();
  if (scene.lines.length > MOST_LINES) return;
  // Of a wire that crosses borders of boxes, the stretch that leaves the item.
  const wanted = scene.lines.filter(({ flow, from }) => flow?.label && from.startsWith("item:"));
  if (!wanted.length) return;
  brush.font = `9.5px ${getComputedStyle(byId("picture")).fontFamily}`;
  const titles = [...scene.open.values()].map(({ x, y, titleFrom, box }) => ({ x: x + titleFrom, y, width: box.header_width, height: TITLE_HEIGHT }));
  const taken = [...scene.items.values(), ...titles];
  const wires = scene.lines.flatMap((line) => stretchesOf(line.points).map(boundsOf));
  for (const line of wanted) {
    const place = placeFor(line, taken, wires);
    if (!place) continue;
    taken.push(place);
    layer.append(s("text", { class: shadeAt(place, scene), x: round(place.x), y: round(place.y + BASELINE) }, line.flow.label));
  }
}

function placeFor(line, taken, wires) {
  const { width } = brush.measureText(line.flow.label);
  const isFree = (rect) => ![taken, wires].some((others) => others.some((other) => touch(other, rect)));
  for (const [from, to] of stretchesOf(line.points)) {
    if (Math.hypot(to.x - from.x, to.y - from.y) < LEAST_STRETCH) continue;
    for (const part of PLACES) {
      const [x, y] = [from.x + part * (to.x - from.x), from.y + part * (to.y - from.y)];
      const corners = from.x === to.x
        ? [[x + CLEARANCE, y - HEIGHT / 2], [x - CLEARANCE - width, y - HEIGHT / 2]]
        : [[x - width / 2, y - CLEARANCE - HEIGHT], [x - width / 2, y + CLEARANCE]];
      const found = corners.map(([left, top]) => ({ x: left, y: top, width, height: HEIGHT })).find(isFree);
      if (found) return found;
    }
  }
  return null;
}

/** Of the box in which it stands: words have a seam of that colour. */
function shadeAt(place, scene) {
  const depths = [...scene.open.values()].filter((rect) => touch(rect, place)).map(({ depth }) => depth);
  return depths.length ? `d${Math.min(3, Math.max(...depths))}` : null;
}

const stretchesOf = (points) => points.slice(1).map((point, at) => [points[at], point]);
const round = (value) => Math.round(value * 10) / 10;
