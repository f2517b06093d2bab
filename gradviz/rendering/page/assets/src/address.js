/** The view as a part of the address, so that it can be linked to: ``#node=12&open=model.h.3&close=lm_head``. */

/** @param {import("./model.js").Model} model */
export function hashOf(model, state) {
  const { place } = model.document;
  const parts = place ? [`graph=${place + 1}`] : [];
  if (state.selected !== null) {
    const [node] = model.items[state.selected].nodes ?? [];
    const isItsOwn = node !== undefined && model.itemOfNode(node, state.opened) === state.selected;
    parts.push(isItsOwn ? `node=${node}` : `item=${state.selected}`);
  }
  const first = new Set(model.document.opened);
  const opened = [...state.opened].filter((box) => !first.has(box));
  const closed = [...first].filter((box) => model.openAs(box, state.opened) === null);
  if (opened.length) parts.push(`open=${opened.map((box) => nameOf(model, box)).join(",")}`);
  if (closed.length) parts.push(`close=${closed.map((box) => nameOf(model, box)).join(",")}`);
  if (state.colour !== model.firstColour) parts.push(`color=${state.colour}`);
  if (state.isWeighed !== null) parts.push(`weigh=${state.isWeighed ? "yes" : "no"}`);
  return parts.join("&");
}

/** What a hash asks for; parts that fit nothing in this graph are passed over. */
export function stateOf(model, hash) {
  const asked = new Map(hash.replace(/^#/, "").split("&").map((part) => part.split("=")).filter((pair) => pair.length === 2));
  let opened = new Set(model.document.opened);
  for (const box of boxesOf(model, asked.get("open"))) opened = model.withOpen(opened, [box, ...model.boxesAround(box)]);
  for (const box of boxesOf(model, asked.get("close"))) opened.delete(box);
  const item = Number(asked.get("item"));
  const node = model.itemOfNode(Number(asked.get("node")), opened);
  const selected = asked.has("node") ? node ?? null : asked.has("item") && model.items[item] ? model.shownAs(item) : null;
  if (selected !== null) opened = model.withOpen(opened, model.boxesAround(selected));
  const colour = asked.get("color");
  const isWeighed = new Map([["yes", true], ["no", false]]).get(asked.get("weigh")) ?? null;
  return { opened, selected, isWeighed, colour: Object.hasOwn(model.document.legends, colour) || colour === "role" ? colour : model.firstColour };
}

/** Its module where no other box stands for the same, else its number. */
function nameOf(model, box) {
  const module = model.moduleOf(box);
  const isPlain = /^[\w.]+\*?$/.test(module);
  const called = isPlain ? boxesCalled(model, module) : [];
  return called.length === 1 && called[0] === box ? module : String(box);
}

function boxesOf(model, names) {
  if (!names) return [];
  return names.split(",").flatMap((name) => {
    if (/^\d+$/.test(name)) return model.canOpen(Number(name)) ? [Number(name)] : [];
    const called = boxesCalled(model, name);
    return called.length ? called : [...model.boxesByModule].flatMap(([module, boxes]) => (module.endsWith(`.${name}`) ? boxes : []));
  });
}

/** What is in a box that shows each of several is meant where nothing else is called so. */
function boxesCalled(model, name) {
  const exact = model.boxesByModule.get(name) ?? [];
  const plain = exact.filter((box) => !model.isOneOfEach(box));
  return plain.length ? plain : exact;
}
