/** Items, open boxes and wires as SVG elements. */
import { s } from "./dom.js";
import { pathOf } from "./routes.js";

/** How many widths there are for wires: one for each colour of a scale. */
const WIDTHS = 7;
/** The ground of a title that stands over other things than its box. */
const SIDE_OF_PLATE = 6;
/** Of a count: from the baseline of its words up to its edge, to the words' own one, and from its left end to them. */
export const CHIP = { rise: 11.5, sink: 0.4, side: 6, height: 15 };
const short = (value) => Math.round(value * 10) / 10;

export function translate({ x, y }) {
  return `translate(${short(x)} ${short(y)})`;
}

/** A closed item, drawn from its corner. */
export function itemElement(model, number, colour) {
  const item = model.items[number];
  const [front, inner, ...behind] = model.document.shapes[item.shape];
  const tints = item.tints?.[colour] ?? [];
  const opens = model.canOpen(number);
  return s(
    "g",
    {
      class: itemClass(item, colour),
      "data-item": number, role: "button", tabindex: -1, "aria-label": spoken(item),
      "aria-expanded": opens ? "false" : null,
    },
    behind.map((path) => s("path", { class: "s", d: path })),
    bands(tints, item, front),
    s("path", { class: isBanded(tints) ? "s clear" : "s", d: front }),
    inner ? s("path", { class: "i", d: inner }) : null,
    s("g", { class: "words" }, (item.lines ?? []).map(lineElement), (item.chips ?? []).map(chipElement)),
    opens ? toggle(item.width, (item.height - 7 * (behind.length > 0)) / 2, "+") : null,
  );
}

/** Its classes: of what stands for several, with the tint of the one in the middle. */
export function itemClass(item, colour) {
  const tints = item.tints?.[colour] ?? [];
  const middle = tints[Math.floor(tints.length / 2)] ?? "";
  return ["item", item.role, item.is_failed ? "failed" : middle].filter(Boolean).join(" ");
}

const isBanded = (tints) => new Set(tints).size > 1;

/** Of what stands for several a band of each one's colour, in the order of the computation. */
function bands(tints, item, front) {
  if (!isBanded(tints)) return null;
  const height = item.height / tints.length;
  const id = `clip${item.shape}`;
  const rects = tints.map((tint, at) =>
    s("g", { class: tint }, s("rect", { class: "s", y: short(at * height), width: item.width, height: short(height + 0.3) })));
  return s("g", { class: "bands" }, s("clipPath", { id }, s("path", { d: front })), s("g", { "clip-path": `url(#${id})` }, rects));
}

/** The class of what lies in so many boxes; the deepest shade repeats. */
export const shadeOf = (depth) => `d${Math.min(depth, 3)}`;

/** The background of an open box, and its title, which stands over wires; `sizeOpen` places them. */
export function openElements(model, number, { box, depth }) {
  const item = model.items[number];
  const shade = shadeOf(depth);
  const back = s("rect", { class: `o ${shade}${item.is_failed ? " failed" : ""}`, rx: 9, "data-back": number });
  const title = s(
    "g",
    { class: "h item", "data-item": number, "data-box": box.item, role: "button", tabindex: -1, "aria-label": spoken(item), "aria-expanded": "true" },
    s("rect", { class: "grip", x: 0, y: 0, height: 30, width: 10 }),
    s("g", { class: "title" },
      s("rect", { class: "plate", x: -SIDE_OF_PLATE, y: 6, width: box.header_width + 2 * SIDE_OF_PLATE, height: 24, rx: 6 }),
      lineElement({ ...box.header, style: `t ${shade}` }),
      box.chip ? s("g", { class: "box" }, chipElement(box.chip)) : null),
    toggle(10, 0, "−"),
  );
  return { back, title };
}

/** Gives an open box its size and place. */
export function sizeOpen(back, title, rect) {
  for (const [name, value] of Object.entries({ x: rect.x, y: rect.y, width: rect.width, height: rect.height })) {
    back.setAttribute(name, short(value));
  }
  title.setAttribute("transform", translate(rect));
  title.querySelector(".title").setAttribute("transform", `translate(${short(rect.titleFrom)} 0)`);
  title.querySelector(".grip").setAttribute("width", short(rect.width));
  title.querySelector(".toggle").setAttribute("transform", `translate(${short(rect.width)} 18)`);
}

/**
 * One stretch of a wire, placed by `moveWire`; arrow heads stand only where data reaches an item.
 *
 * @param {import("./composition.js").Line} line
 */
export function wireElement(model, line) {
  const { arrows } = model.document;
  const state = line.flow?.state ?? "";
  const quiet = isQuiet(model, line);
  const head = { broken: "ab", lost: "ak", ghost: "ag" }[state] ?? (quiet ? "ak" : "a");
  const marker = { data: ["to", "marker-end"], gradient: ["from", "marker-start"] }[arrows];
  const reachesItem = line[marker[0]].startsWith("item:");
  const flowsThere = arrows === "data" || !(quiet || state === "ghost");
  return s("g", { class: "wire", "data-line": line.key }, s("path", { class: "w" }),
    s("path", { class: wireKind(model, line), [marker[1]]: reachesItem && flowsThere ? `url(#${head})` : null }));
}

const isQuiet = (model, line) => line.isQuiet ?? model.items[line.source].role === "constant";

/** The class of a wire: what flows back along it. */
export function wireKind(model, line) {
  return line.flow?.state || (isQuiet(model, line) ? "k" : widthClass(line.flow?.norm, model.document.legends.gradient?.ends));
}

/** Where a gradient lies on the scale of gradients, as the class that makes its wire as wide as that. */
function widthClass(norm, ends) {
  if (!norm || !ends) return null;
  const part = Math.log(norm / ends[0]) / Math.log(ends[1] / ends[0]);
  return `flow${Math.min(WIDTHS - 1, Math.max(0, Math.floor(part * WIDTHS + 1e-9)))}`;
}

export function moveWire(element, points) {
  const path = pathOf(points);
  for (const child of element.children) child.setAttribute("d", path);
}

function lineElement(line) {
  return s(
    "text",
    { class: line.style, x: line.x, y: line.y },
    line.text,
    line.aside ? s("tspan", { class: "q", x: line.aside_x }, line.aside) : null,
  );
}

function chipElement(chip) {
  return s(
    "g",
    { class: chip.level ?? null },
    s("rect", { class: "c", x: chip.x, y: chip.y - CHIP.rise, width: chip.width, height: CHIP.height, rx: CHIP.height / 2 }),
    s("text", { class: "b", x: chip.x + CHIP.side, y: chip.y - CHIP.sink }, chip.text),
  );
}

function toggle(x, y, sign) {
  return s(
    "g",
    { class: "toggle", transform: `translate(${short(x)} ${short(y)})`, "aria-hidden": "true" },
    s("circle", { r: 12, class: "reach" }),
    s("circle", { r: 7.5 }),
    s("path", { d: sign === "+" ? "M-3.5 0h7M0 -3.5v7" : "M-3.5 0h7" }),
  );
}

/** What a screen reader says of an item. */
export function spoken(item) {
  return [item.title, item.repeat > 1 ? `${item.repeat} alike` : "", item.subtitle, item.shape_words, item.line]
    .filter(Boolean).join(", ");
}
