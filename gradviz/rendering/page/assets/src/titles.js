/**
 * Titles of open boxes stay in sight as long as their box is: one below the other, at the upper edge of what is seen.
 * Of a box of which hardly more is left than the rows of those around it, the title would lie on these: it goes first.
 */

/** Pixels at the upper edge that breadcrumbs take. */
const TOP = 34;
const SIDE = 10;
const ROW = 25;
/** Of a title, and of the least that is left of its box below it. */
const HEIGHT = 34;
const ROOM_FOR_TOGGLE = 16;

/**
 * @param {import("./composition.js").Scene["open"]} open each box after those around it
 * @param {Map<number, SVGElement>} elements of titles
 * @param {{x: number, y: number, width: number, height: number, scale: number}} seen
 * @param {(number: number) => number|null} boxAround
 */
export function keepTitlesInSight(open, elements, seen, boxAround) {
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
    put(elements.get(number), rect, { x, y, toggle, isMoved: y > rect.y || x > natural, isLeaving: y < top });
  }
}

/** `wanted`, but no less than `least`, and no more than `most` where that is more. */
const between = (least, wanted, most) => Math.max(least, Math.min(wanted, most));

function put(element, rect, { x, y, toggle, isMoved, isLeaving }) {
  if (!element) return;
  const places = [`translate(${round(rect.x)} ${round(y)})`, `translate(${round(x - rect.x)} 0)`, `translate(${round(toggle - rect.x)} 18)`];
  [element, element.querySelector(".title"), element.querySelector(".toggle")].forEach((part, at) => {
    if (part.getAttribute("transform") !== places[at]) part.setAttribute("transform", places[at]);
  });
  element.classList.toggle("leaving", isLeaving);
  if (element.classList.toggle("moved", isMoved) && element.nextElementSibling?.matches(":not(.moved)")) raise(element);
}

/** Over what it stands before; not what has the focus, which it would lose. */
function raise(element) {
  if (element !== document.activeElement) element.parentNode.append(element);
}

const round = (value) => Math.round(value * 10) / 10;
