/**
 * Titles of open boxes stay in sight as long as their box is: one below the other, at the upper edge of what is seen.
 * Of a box of which hardly more is left than the rows of those around it, the title would lie on these: it goes first.
 *
 * @import { OpenRect, SeenRect } from "../layout/types.js"
 * @import { ItemElements } from "./element-layers.js"
 *
 * @typedef {{x: number, y: number, toggle: number, isMoved: boolean, isLeaving: boolean}} TitlePosition `toggle` is where the
 *   button that folds the box is, from left to right
 */
import { partOf } from "../shared/dom.js";
import { rounded } from "../shared/number-words.js";
import { translate } from "./svg-elements.js";

/** Pixels at the upper edge that breadcrumbs take. */
const TOP = 34;
const SIDE = 10;
const ROW = 25;
/** Of a title, and of the least that is left of its box below it. */
const HEIGHT = 34;
const ROOM_FOR_TOGGLE = 16;

/**
 * @param {Map<number, OpenRect>} open each box after those around it
 * @param {ItemElements} elements of titles
 * @param {SeenRect} seen
 * @param {(number: number) => number|null} boxAround
 */
export function keepTitlesInSight(open, elements, seen, boxAround) {
  /** @type {Map<number|null, number>} where the row below the title of a box is */
  const next = new Map();
  for (const [number, rect] of open) {
    const top = next.get(boxAround(number)) ?? seen.y + TOP / seen.scale;
    const y = between(rect.y, top, rect.y + rect.height - HEIGHT);
    next.set(number, y + ROW);
    const width = rect.box.header_width;
    const natural = rect.x + rect.titleFrom;
    const x = between(natural, seen.x + SIDE / seen.scale, rect.x + rect.width - width - SIDE);
    const right = rect.x + rect.width;
    const toggle = Math.max(Math.min(right, seen.x + seen.width - ROOM_FOR_TOGGLE / seen.scale), Math.min(right, x + width + ROOM_FOR_TOGGLE));
    const element = elements.get(number);
    if (element) put(element, rect, { x, y, toggle, isMoved: y > rect.y || x > natural, isLeaving: y < top });
  }
}

/**
 * `wanted`, but no less than `min`, and no more than `max` where that is more.
 *
 * @param {number} min
 * @param {number} wanted
 * @param {number} max
 */
const between = (min, wanted, max) => Math.max(min, Math.min(wanted, max));

/**
 * @param {SVGGElement} element
 * @param {OpenRect} rect
 * @param {TitlePosition} position
 */
function put(element, rect, { x, y, toggle, isMoved, isLeaving }) {
  transform(element, translate({ x: rect.x, y }));
  transform(partOf(element, ".title"), `translate(${rounded(x - rect.x)} 0)`);
  transform(partOf(element, ".toggle"), `translate(${rounded(toggle - rect.x)} 18)`);
  element.classList.toggle("leaving", isLeaving);
  if (element.classList.toggle("moved", isMoved) && element.nextElementSibling?.matches(":not(.moved)")) raise(element);
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

/**
 * Over what it stands before; not what has the focus, which it would lose.
 *
 * @param {Element} element
 */
function raise(element) {
  if (element !== document.activeElement) element.parentNode?.append(element);
}
