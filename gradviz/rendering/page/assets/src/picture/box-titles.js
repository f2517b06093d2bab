/**
 * Titles of open boxes keep their size on the screen, as far as there is room: they cover nothing.
 *
 * From further away a title grows into the free corner of its box; where that is too small for all of it, only the name is
 * left. A title stays in sight as long as the upper border of its box is, and moves aside for wires.
 *
 * @import { OpenRect, Rect, Scene, SeenRect } from "../layout/types.js"
 * @import { ItemElements } from "./element-layers.js"
 *
 * @typedef {object} Room of a title
 * @property {number} whole how many times as large all of it can be
 * @property {number} name how many times as large its name alone can be
 * @property {number[]} crossings from left to right, where wires run through the upper border
 */
import { boundsOf, isWithin, touch } from "../layout/rectangles.js";
import { brushOf, byId, partOf } from "../shared/dom.js";
import { append } from "../shared/group-by.js";
import { rounded } from "../shared/number-words.js";
import { translate } from "./svg-elements.js";

const SIDE = 10;
/** Of the words at their own size, below the border. */
export const TITLE_TOP = 6;
const HEIGHT = 19;
const CLEARANCE = 6;
const ROOM_FOR_TOGGLE = 16;
const FONT = "700 13px";
const BAND = 400;
/** How many times as large a title is tried. */
const FACTORS = [1.2, 1.4, 1.7, 2, 2.4, 2.9, 3.5, 4.2, 5, 6, 8, 10];

/**
 * The room of each title.
 *
 * @param {Scene} scene
 * @returns {Map<number, Room>}
 */
export function roomForTitles(scene) {
  const brush = brushOf(document.createElement("canvas"));
  brush.font = `${FONT} ${getComputedStyle(byId("picture")).fontFamily}`;
  const wires = new Bands(scene.lines.flatMap(({ points }) => points.slice(1).map((to, at) => boundsOf([points[at], to]))));
  const items = new Bands([...scene.items.values(), ...scene.open.values()]);
  return new Map([...scene.open].map(([number, rect]) => [number, roomFor(rect, brush.measureText(rect.box.header.text).width, { items, wires })]));
}

/** Rectangles by how far down they are, so that of many thousands few are looked at. */
class Bands {
  /** @type {Map<number, Rect[]>} */
  #bands = new Map();

  /** @param {Rect[]} rects */
  constructor(rects) {
    for (const rect of rects) for (const band of bandsOf(rect)) append(this.#bands, band, rect);
  }

  /**
   * Those that touch a rectangle.
   *
   * @param {Rect} rect
   * @returns {Rect[]}
   */
  touching(rect) {
    const found = bandsOf(rect).flatMap((band) => (this.#bands.get(band) ?? []).filter((other) => touch(other, rect)));
    return [...new Set(found)];
  }
}

/** @param {Rect} rect */
function bandsOf({ y, height }) {
  const first = Math.floor(y / BAND);
  return Array.from({ length: Math.floor((y + height) / BAND) - first + 1 }, (_, at) => first + at);
}

/**
 * @param {OpenRect} rect
 * @param {number} nameWidth
 * @param {{items: Bands, wires: Bands}} around closed items and open boxes, and wires
 * @returns {Room}
 */
function roomFor(rect, nameWidth, around) {
  const corner = { x: rect.x, y: rect.y + 1, width: rect.width, height: Math.min(rect.height, TITLE_TOP + HEIGHT * FACTORS[FACTORS.length - 1]) };
  // What is around a box touches its corner, too, but is in nobody's way.
  const taken = around.items.touching(corner).filter((other) => !isWithin(rect, other));
  const wires = around.wires.touching(corner);
  /** @param {number} width */
  const largest = (width) => {
    /** @param {number} factor */
    const isFree = (factor) => {
      const wanted = { x: rect.x + rect.titleFrom - 2, y: rect.y + TITLE_TOP, width: width * factor + CLEARANCE, height: HEIGHT * factor };
      return wanted.x + wanted.width < rect.x + rect.width - ROOM_FOR_TOGGLE && wanted.y + wanted.height < rect.y + rect.height
        && ![...taken, ...wires].some((other) => touch(other, wanted));
    };
    const blocked = FACTORS.findIndex((factor) => !isFree(factor));
    return blocked < 0 ? FACTORS[FACTORS.length - 1] : FACTORS[blocked - 1] ?? 1;
  };
  const row = { ...corner, height: TITLE_TOP + HEIGHT };
  const crossings = wires.filter((wire) => touch(wire, row)).map(({ x }) => x);
  return { whole: largest(rect.box.header_width), name: largest(nameWidth), crossings: crossings.sort((one, other) => one - other) };
}

/**
 * How large a title is in the picture, and whether only its name is shown.
 *
 * @param {Room} room
 * @param {number} scale
 */
export function titleSize({ whole, name }, scale) {
  const factor = Math.min(1 / scale, Math.max(whole, name));
  return { factor, isNameOnly: factor > whole };
}

/**
 * @param {Map<number, OpenRect>} open
 * @param {Map<number, Room>} rooms
 * @param {ItemElements} elements of titles
 * @param {SeenRect} seen
 */
export function placeTitles(open, rooms, elements, seen) {
  for (const [number, rect] of open) {
    const [element, room] = [elements.get(number), rooms.get(number)];
    if (element && room) put(element, rect, room, seen);
  }
}

/**
 * @param {SVGGElement} element
 * @param {OpenRect} rect
 * @param {Room} room
 * @param {SeenRect} seen
 */
function put(element, rect, room, seen) {
  const { factor, isNameOnly } = titleSize(room, seen.scale);
  const width = rect.box.header_width * factor;
  const natural = rect.x + rect.titleFrom;
  const edge = seen.x + SIDE / seen.scale;
  const last = rect.x + rect.width - width - ROOM_FOR_TOGGLE;
  const x = natural >= edge || last <= natural ? natural : besides(room.crossings, edge, width, last) ?? natural;
  const right = rect.x + rect.width;
  const toggle = Math.max(Math.min(right, seen.x + seen.width - ROOM_FOR_TOGGLE / seen.scale), Math.min(right, x + width + ROOM_FOR_TOGGLE));
  transform(element, translate(rect));
  transform(partOf(element, ".title"), `translate(${rounded(x - rect.x)} ${rounded(TITLE_TOP * (1 - factor))}) scale(${Number(factor.toPrecision(4))})`);
  transform(partOf(element, ".toggle"), `translate(${rounded(toggle - rect.x)} 18)`);
  element.classList.toggle("name-only", isNameOnly);
}

/**
 * The first position from an edge on where a title touches no wire; null for none.
 *
 * @param {number[]} crossings
 * @param {number} edge
 * @param {number} width
 * @param {number} last
 */
function besides(crossings, edge, width, last) {
  let x = edge;
  for (const crossing of crossings) if (crossing > x - CLEARANCE && crossing < x + width + CLEARANCE) x = crossing + CLEARANCE;
  return x <= last ? x : null;
}

/**
 * Writes only what changes: this is done for every frame.
 *
 * @param {Element} element
 * @param {string} value
 */
function transform(element, value) {
  if (element.getAttribute("transform") !== value) element.setAttribute("transform", value);
}
