/**
 * The view as a part of the address, so that it can be linked to: ``#node=12&open=model.h.3&close=lm_head``.
 *
 * @import { Model } from "../graph/model.js"
 *
 * @typedef {object} View what can be linked to
 * @property {Set<number>} opened boxes
 * @property {number|null} selected
 * @property {string} colour what items are coloured by
 * @property {boolean|null} isWeighed whether wires are as wide as their gradients are large; null where nobody said
 */

/**
 * @param {Model} model
 * @param {View} view
 */
export function hashOf(model, view) {
  const { index } = model.document;
  const parts = index ? [`graph=${index + 1}`] : [];
  if (view.selected !== null) {
    const node = model.items[view.selected].nodes?.[0];
    const isItsOwn = node !== undefined && model.itemOfNode(node, view.opened) === view.selected;
    parts.push(isItsOwn ? `node=${node}` : `item=${view.selected}`);
  }
  const first = new Set(model.document.opened);
  const opened = [...view.opened].filter((box) => !first.has(box));
  const closed = [...first].filter((box) => model.openAs(box, view.opened) === null);
  if (opened.length) parts.push(`open=${opened.map((box) => nameOf(model, box)).join(",")}`);
  if (closed.length) parts.push(`close=${closed.map((box) => nameOf(model, box)).join(",")}`);
  if (view.colour !== model.firstColour) parts.push(`color=${view.colour}`);
  if (view.isWeighed !== null) parts.push(`weigh=${view.isWeighed ? "yes" : "no"}`);
  return parts.join("&");
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
  const selected = selectedBy(model, asked, opened);
  if (selected !== null) opened = model.withOpen(opened, model.boxesAround(selected));
  const colour = asked.get("color") ?? "";
  const isKnown = Object.hasOwn(model.document.legends, colour) || colour === "none";
  return { opened, selected, isWeighed: WEIGHED.get(asked.get("weigh") ?? "") ?? null, colour: isKnown ? colour : model.firstColour };
}

const WEIGHED = new Map([["yes", true], ["no", false]]);

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
 * @param {Map<string, string>} asked
 * @param {Set<number>} opened
 * @returns {number|null}
 */
function selectedBy(model, asked, opened) {
  if (asked.has("node")) return model.itemOfNode(Number(asked.get("node")), opened) ?? null;
  const item = Number(asked.get("item"));
  return asked.has("item") && model.items[item] ? model.shownAs(item) : null;
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
