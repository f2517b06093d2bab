/**
 * The numbers of the backward pass on the picture: what has arrived at each item, and what flows along each wire.
 *
 * @import { Point, Rect } from "../layout/types.js"
 * @import { Gradients } from "./replay.js"
 */
import { s } from "../shared/dom.js";

/** So many parts of a sum are written out. */
const MAX_PARTS = 4;
const SIDE = 6;
const HEIGHT = 17;
/** About how wide one is. */
const LETTER = 6;
/** Of a stretch of wire. */
const BEYOND = 0.6;

/**
 * ``0.5 + 1.2 + …`` while some of it is to come, then ``0.5 + 1.2 = 1.7``; empty where nobody measured it.
 *
 * @param {Gradients} gradients
 */
export function sumWords({ arrivals, come, sums }) {
  const parts = come.slice(0, MAX_PARTS).map(({ amount }) => amount);
  if (!parts.length || parts.some((part) => !part) || sums.length !== 1) return "";
  const isLeftOut = come.length > MAX_PARTS;
  const sum = parts.reduce((words, part) => (part.startsWith("-") ? `${words} − ${part.slice(1)}` : `${words} + ${part}`));
  const written = isLeftOut ? `${sum} + ${come.length - MAX_PARTS} more` : sum;
  if (come.length < arrivals.length) return `${written} + …`;
  if (arrivals.length === 1 || !sums[0]) return written;
  return parts[0].startsWith("norm") ? `${written}, as a sum ${sums[0]}` : `${written} = ${sums[0]}`;
}

/**
 * A label with words around a point, once it stands in the picture: only then it is known how wide words are.
 *
 * @param {Element} layer
 * @param {Point} point
 * @param {string} words
 * @param {string} kind its class
 */
export function addLabel(layer, { x, y }, words, kind) {
  const text = s("text", { y: 3.6, "text-anchor": "middle" }, words);
  const back = s("rect", { y: -HEIGHT / 2, height: HEIGHT, rx: HEIGHT / 2 });
  layer.append(s("g", { class: kind, transform: `translate(${x} ${y})` }, back, text));
  const width = text.getComputedTextLength() + 2 * SIDE;
  back.setAttribute("x", String(-width / 2));
  back.setAttribute("width", String(width));
}

/**
 * Where words stand that belong to a wire: on its longest stretch, nearer to where the data goes, as a sum may stand at
 * its other end; below what it comes from, where that stretch runs across and is too short for them.
 *
 * @param {Point[]} points
 * @param {string} words
 * @param {Rect} source
 * @returns {Point}
 */
export function labelPosition(points, words, source) {
  let [from, to] = points;
  for (let at = 2; at < points.length; at++) {
    const [one, other] = [points[at - 1], points[at]];
    if (Math.hypot(other.x - one.x, other.y - one.y) > Math.hypot(to.x - from.x, to.y - from.y)) [from, to] = [one, other];
  }
  const across = Math.abs(to.x - from.x);
  if (across > 1 && across < LETTER * words.length + 4 * SIDE) {
    return { x: source.x + source.width / 2, y: source.y + source.height + HEIGHT / 2 + 2 };
  }
  return { x: from.x + BEYOND * (to.x - from.x), y: from.y + BEYOND * (to.y - from.y) };
}

/**
 * Of each item's element the texts with a gradient, and what they say with it.
 *
 * @type {WeakMap<Element, {text: Text, whole: string}[]>}
 */
const texts = new WeakMap();

/**
 * Shows or hides, of the numbers on an item, the gradient (``↑ 0.5``): before it has arrived nobody knows it.
 *
 * @param {Element} element
 * @param {boolean} isShown
 */
export function showGradient(element, isShown) {
  const found = texts.get(element) ?? gradientsOn(element);
  texts.set(element, found);
  for (const { text, whole } of found) text.data = isShown ? whole : whole.replace(/[\s·]*↑.*$/, "");
}

/** @param {Element} element */
function gradientsOn(element) {
  const found = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    if (text instanceof Text && text.data.includes("↑")) found.push({ text, whole: text.data });
  }
  return found;
}
