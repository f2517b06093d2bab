/**
 * The whole view as a part of the address, so that it can be linked to:
 * ``#node=12&open=model.h.3&color=memory&find=softmax&at=120,640,0.8``.
 *
 * @import { Model } from "../graph/model.js"
 *
 * @typedef {object} View what can be linked to
 * @property {Set<number>} opened boxes
 * @property {number|null} selected
 * @property {string} colour what items are coloured by
 * @property {boolean|null} isWeighed whether wires are as wide as their gradients are large; null where nobody said
 * @property {boolean} isSideways whether data flows from left to right
 * @property {boolean} only whether only what is joined to the selected item is shown
 * @property {number|null} goal the other end of a way from the selected item
 * @property {string} find what is searched for
 * @property {number|null} step of the backward pass; null where that is not played
 * @property {string} tab of the panel
 * @property {Position|null} at what is in the middle, and how large it is; null where all is fitted into the window
 *
 * @typedef {{x: number, y: number, zoom: number}} Position
 */

/** @type {Omit<View, "opened"|"colour">} the view at first, apart from what the page itself says */
export const FIRST = { selected: null, isWeighed: null, isSideways: false, only: false, goal: null, find: "", step: null, tab: "about", at: null };

/**
 * @param {Model} model
 * @param {View} view
 */
export function hashOf(model, view) {
  const { index } = model.document;
  const parts = index ? [`graph=${index + 1}`] : [];
  if (view.selected !== null) parts.push(namedItem(model, view, view.selected, "node", "item"));
  if (view.selected !== null && view.goal !== null) parts.push(namedItem(model, view, view.goal, "to", "to-item"));
  const first = new Set(model.document.opened);
  const opened = [...view.opened].filter((box) => !first.has(box));
  const closed = [...first].filter((box) => model.openAs(box, view.opened) === null);
  if (opened.length) parts.push(`open=${opened.map((box) => nameOf(model, box)).join(",")}`);
  if (closed.length) parts.push(`close=${closed.map((box) => nameOf(model, box)).join(",")}`);
  if (view.colour !== model.firstColour) parts.push(`color=${view.colour}`);
  if (view.isWeighed !== null) parts.push(`weigh=${view.isWeighed ? "yes" : "no"}`);
  if (view.isSideways) parts.push("direction=LR");
  if (view.only) parts.push("only=yes");
  if (view.find) parts.push(`find=${encodeURIComponent(view.find)}`);
  if (view.step !== null) parts.push(`step=${view.step}`);
  if (view.tab !== FIRST.tab) parts.push(`tab=${view.tab}`);
  if (view.at) parts.push(`at=${view.at.x},${view.at.y},${view.at.zoom}`);
  return parts.join("&");
}

/**
 * An item by its node where that means no other item, else by its number.
 *
 * @param {Model} model
 * @param {View} view
 * @param {number} number
 * @param {string} byNode
 * @param {string} byNumber
 */
function namedItem(model, view, number, byNode, byNumber) {
  const node = model.items[number].nodes?.[0];
  const isItsOwn = node !== undefined && model.itemOfNode(node, view.opened) === number;
  return isItsOwn ? `${byNode}=${node}` : `${byNumber}=${number}`;
}

/**
 * The address of another graph of the page.
 *
 * @param {number} index
 * @param {string | null} colour null for the one that the graph has first
 * @param {string} tab of the panel
 */
export const hashOfGraph = (index, colour, tab) =>
  `graph=${index + 1}${colour === null ? "" : `&color=${colour}`}${tab === "about" ? "" : `&tab=${tab}`}`;

/**
 * What a hash asks for; parts that fit nothing in this graph are passed over.
 *
 * @param {Model} model
 * @param {string} hash
 * @returns {View}
 */
export function viewOf(model, hash) {
  const asked = partsOf(hash);
  let opened = new Set(model.document.opened);
  for (const box of boxesOf(model, asked.get("open"))) opened = model.withOpen(opened, [box, ...model.boxesAround(box)]);
  for (const box of boxesOf(model, asked.get("close"))) opened.delete(box);
  const selected = itemNamed(model, opened, asked.get("node"), asked.get("item"));
  if (selected !== null) opened = model.withOpen(opened, model.boxesAround(selected));
  const goal = selected === null ? null : itemNamed(model, opened, asked.get("to"), asked.get("to-item"));
  if (goal !== null) opened = model.withOpen(opened, model.boxesAround(goal));
  const colour = asked.get("color") ?? "";
  const isKnown = Object.hasOwn(model.document.legends, colour) || colour === "none";
  return {
    opened, selected, goal, isWeighed: WEIGHED.get(asked.get("weigh") ?? "") ?? null, colour: isKnown ? colour : model.firstColour,
    isSideways: model.canTurn && asked.get("direction") === "LR", only: selected !== null && asked.get("only") === "yes",
    find: decoded(asked.get("find") ?? ""), step: model.document.replay && asked.has("step") ? wholeNumber(asked.get("step")) : null,
    tab: asked.get("tab") ?? FIRST.tab, at: positionOf(asked.get("at") ?? ""),
  };
}

/**
 * Whether an address says which boxes are open.
 *
 * @param {string} hash
 */
export const saysWhatIsOpen = (hash) => ["open", "close", "node", "item"].some((key) => partsOf(hash).has(key));

const WEIGHED = new Map([["yes", true], ["no", false]]);

/** @param {string|undefined} text */
const wholeNumber = (text) => Math.max(0, Math.floor(Number(text)) || 0);

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // Somebody typed it: a percent sign stands for itself.
  }
}

/**
 * @param {string} text
 * @returns {Position|null}
 */
function positionOf(text) {
  const numbers = text.split(",").map(Number);
  const [x, y, zoom] = numbers;
  return numbers.length === 3 && numbers.every(Number.isFinite) && zoom > 0 ? { x, y, zoom } : null;
}

/**
 * @param {string} hash
 * @returns {Map<string, string>}
 */
function partsOf(hash) {
  const found = new Map();
  for (const part of hash.replace(/^#/, "").split("&")) {
    const { key, value } = /^(?<key>[^=]*)=(?<value>[^=]*)$/.exec(part)?.groups ?? {};
    if (key !== undefined) found.set(key, value);
  }
  return found;
}

/**
 * @param {Model} model
 * @param {Set<number>} opened
 * @param {string|undefined} node
 * @param {string|undefined} item
 * @returns {number|null}
 */
function itemNamed(model, opened, node, item) {
  if (node !== undefined) return model.itemOfNode(Number(node), opened) ?? null;
  return item !== undefined && model.items[Number(item)] ? model.shownAs(Number(item)) : null;
}

/**
 * Its module where no other box stands for the same, else its number.
 *
 * @param {Model} model
 * @param {number} box
 */
function nameOf(model, box) {
  const module = model.moduleOf(box);
  const isPlain = /^[\w.]+\*?$/.test(module);
  const called = isPlain ? boxesCalled(model, module) : [];
  return called.length === 1 && called[0] === box ? module : String(box);
}

/**
 * @param {Model} model
 * @param {string|undefined} names
 * @returns {number[]}
 */
function boxesOf(model, names) {
  if (!names) return [];
  return names.split(",").flatMap((name) => {
    if (/^\d+$/.test(name)) return model.canOpen(Number(name)) ? [Number(name)] : [];
    const called = boxesCalled(model, name);
    return called.length ? called : [...model.boxesByModule].flatMap(([module, boxes]) => (module.endsWith(`.${name}`) ? boxes : []));
  });
}

/**
 * What is in a box that shows each of several is meant where nothing else is called so.
 *
 * @param {Model} model
 * @param {string} name
 */
function boxesCalled(model, name) {
  const exact = model.boxesByModule.get(name) ?? [];
  const plain = exact.filter((box) => !model.isOneOfEach(box));
  return plain.length ? plain : exact;
}
