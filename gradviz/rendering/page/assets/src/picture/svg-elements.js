/**
 * Items, open boxes and wires as SVG elements.
 *
 * @import { Item, PageChip, PageLine } from "../document/types.js"
 * @import { Scale } from "../graph/color-scale.js"
 * @import { Model } from "../graph/model.js"
 * @import { OpenRect, Point, SceneLine } from "../layout/types.js"
 */
import { stepOf } from "../graph/color-scale.js";
import { itemAt } from "../graph/connections.js";
import { pathOf } from "../layout/wire-routes.js";
import { partOf, s } from "../shared/dom.js";
import { rounded } from "../shared/number-words.js";
import { pillOfOpen, wordsOn } from "./pills.js";

/** Of a count: from the baseline of its words up to its edge, to the words' own one, and from its left end to them. */
export const CHIP = { rise: 11.5, sink: 0.4, side: 6, height: 15 };

/** @param {Point} point */
export function translate({ x, y }) {
  return `translate(${rounded(x)} ${rounded(y)})`;
}

/**
 * A closed item, drawn from its corner.
 *
 * @param {Model} model
 * @param {number} number
 * @param {string} colour
 */
export function itemElement(model, number, colour) {
  const item = model.items[number];
  const { front, inner, behind } = model.document.shapes[item.shape];
  const tints = model.tintsOf(item, colour);
  const { lines, chips } = wordsOn(item, colour);
  const opens = model.canOpen(number);
  return s(
    "g",
    {
      class: itemClass(model, item, colour),
      "data-item": number, role: "button", tabindex: -1, "aria-label": spoken(item),
      "aria-expanded": opens ? "false" : null,
    },
    behind.map((path) => s("path", { class: "s", d: path })),
    bands(tints, item, front),
    s("path", { class: isBanded(tints) ? "s clear" : "s", d: front }),
    inner ? s("path", { class: "i", d: inner }) : null,
    s("g", { class: "words" }, lines.map(lineElement), chips.map(chipElement)),
    opens ? toggle(item.width, (item.height - 7 * Number(behind.length > 0)) / 2, "+") : null,
  );
}

/**
 * Its classes: of what stands for several, with the tint of the one in the middle.
 *
 * @param {Model} model
 * @param {Item} item
 * @param {string} colour
 */
export function itemClass(model, item, colour) {
  const tints = model.tintsOf(item, colour);
  const middle = tints[Math.floor(tints.length / 2)] ?? "";
  return ["item", item.role, item.is_failed ? "failed" : middle].filter(Boolean).join(" ");
}

/** @param {string[]} tints */
const isBanded = (tints) => new Set(tints).size > 1;

/**
 * Of what stands for several a band of each one's colour, in the order of the computation.
 *
 * @param {string[]} tints
 * @param {Item} item
 * @param {string} front
 */
function bands(tints, item, front) {
  if (!isBanded(tints)) return null;
  const height = item.height / tints.length;
  const id = `clip${item.shape}`;
  const rects = tints.map((tint, at) =>
    s("g", { class: tint }, s("rect", { class: "s", y: rounded(at * height), width: item.width, height: rounded(height + 0.3) })));
  return s("g", { class: "bands" }, s("clipPath", { id }, s("path", { d: front })), s("g", { "clip-path": `url(#${id})` }, rects));
}

/**
 * The class of what lies in so many boxes; the deepest shade repeats.
 *
 * @param {number} depth
 */
export const shadeOf = (depth) => `d${Math.min(depth, 3)}`;

/**
 * The background of an open box, and its title, which stands over wires; `sizeOpen` places them.
 *
 * @param {Model} model
 * @param {number} number
 * @param {OpenRect} rect
 * @param {string} colour
 */
export function openElements(model, number, { box, depth }, colour) {
  const item = model.items[number];
  const shade = shadeOf(depth);
  const chip = pillOfOpen(item, box.chip, colour);
  const back = s("rect", { class: `o ${shade}${item.is_failed ? " failed" : ""}`, rx: 9, "data-back": number });
  const title = s(
    "g",
    { class: "h item", "data-item": number, "data-box": box.item, role: "button", tabindex: -1, "aria-label": spoken(item), "aria-expanded": "true" },
    s("rect", { class: "grip", x: 0, y: 0, height: 30, width: 10 }),
    s("g", { class: "title" },
      lineElement({ ...box.header, style: `t ${shade}` }),
      chip ? s("g", { class: "box" }, ...chipElement(chip).childNodes) : null),
    toggle(10, 0, "−"),
  );
  return { back, title };
}

/**
 * Exchanges the pill beside the title of an open box.
 *
 * @param {Element} title
 * @param {PageChip|null} chip
 */
export function exchangePill(title, chip) {
  if (chip) partOf(title, ".box").replaceChildren(...chipElement(chip).childNodes);
}

/**
 * Gives an open box its size and position.
 *
 * @param {SVGRectElement} back
 * @param {SVGGElement} title
 * @param {OpenRect} rect
 */
export function sizeOpen(back, title, rect) {
  for (const [name, value] of Object.entries({ x: rect.x, y: rect.y, width: rect.width, height: rect.height })) {
    back.setAttribute(name, String(rounded(value)));
  }
  title.setAttribute("transform", translate(rect));
  partOf(title, ".title").setAttribute("transform", `translate(${rounded(rect.titleFrom)} 0)`);
  partOf(title, ".grip").setAttribute("width", String(rounded(rect.width)));
  partOf(title, ".toggle").setAttribute("transform", `translate(${rounded(rect.width)} 18)`);
}

/**
 * One stretch of a wire, placed by `moveWire`; arrow heads stand only where data reaches an item.
 *
 * @param {Model} model
 * @param {SceneLine} line
 */
export function wireElement(model, line) {
  const state = line.flow?.state ?? "";
  const quiet = isQuiet(model, line);
  const head = HEADS.get(state) ?? (quiet ? "ak" : "a");
  const isData = model.document.arrows === "data";
  const reachesItem = itemAt(isData ? line.to : line.from) !== null;
  const flowsThere = isData || !(quiet || state === "ghost");
  return s("g", { class: "wire", "data-line": line.key }, s("path", { class: "w" }),
    s("path", { class: wireKind(model, line), [isData ? "marker-end" : "marker-start"]: reachesItem && flowsThere ? `url(#${head})` : null }));
}

/** The ids of arrow heads, by the state of what flows. */
const HEADS = new Map([["broken", "ab"], ["lost", "ak"], ["ghost", "ag"]]);

/**
 * Whether no gradient flows along a line.
 *
 * @param {Model} model
 * @param {SceneLine} line
 */
const isQuiet = (model, line) => line.isQuiet ?? model.items[line.source].role === "constant";

/**
 * The class of a wire: what flows back along it.
 *
 * @param {Model} model
 * @param {SceneLine} line
 */
export function wireKind(model, line) {
  return line.flow?.state || (isQuiet(model, line) ? "k" : widthClass(line.flow?.norm, model.scales.gradient));
}

/**
 * Where a gradient lies on the scale of gradients, as the class that makes its wire as wide as that.
 *
 * @param {number|undefined} norm
 * @param {Scale|null|undefined} scale
 */
const widthClass = (norm, scale) => (norm && scale ? `flow${stepOf(scale, norm)}` : null);

/**
 * @param {SVGGElement} element
 * @param {Point[]} points
 */
export function moveWire(element, points) {
  const path = pathOf(points);
  for (const child of element.children) child.setAttribute("d", path);
}

/** @param {PageLine} line */
function lineElement(line) {
  return s(
    "text",
    { class: line.style, x: line.x, y: line.y },
    line.text,
    line.aside ? s("tspan", { class: "q", x: line.aside_x }, line.aside) : null,
  );
}

/** @param {PageChip} chip */
function chipElement(chip) {
  return s(
    "g",
    { class: chip.level ?? null },
    s("rect", { class: "c", x: chip.x, y: chip.y - CHIP.rise, width: chip.width, height: CHIP.height, rx: CHIP.height / 2 }),
    s("text", { class: "b", x: chip.x + CHIP.side, y: chip.y - CHIP.sink }, chip.text),
  );
}

/**
 * @param {number} x
 * @param {number} y
 * @param {"+"|"−"} sign
 */
function toggle(x, y, sign) {
  return s(
    "g",
    { class: "toggle", transform: translate({ x, y }), "aria-hidden": "true" },
    s("circle", { r: 12, class: "reach" }),
    s("circle", { r: 7.5 }),
    s("path", { d: sign === "+" ? "M-3.5 0h7M0 -3.5v7" : "M-3.5 0h7" }),
  );
}

/**
 * What a screen reader says of an item.
 *
 * @param {Item} item
 */
export function spoken({ title, repeat = 1, subtitle, shape_words: shape, line }) {
  return [title, repeat > 1 ? `${repeat} alike` : "", subtitle, shape, line].filter(Boolean).join(", ");
}
