/** The view as a part of the address, so that it can be linked to: ``#node=12&open=model.h.3&close=lm_head``. */

/** @param {import("./model.js").Model} model */
export function hashOf(model, state) {
  const { place } = model.document;
  const parts = place ? [`graph=${place + 1}`] : [];
  if (state.selected !== null) {
    const [node] = model.items[state.selected].nodes ?? [];
    const isItsOwn = node !== undefined && model.itemOfNode(node) === state.selected;
    parts.push(isItsOwn ? `node=${node}` : `item=${state.selected}`);
  }
  const first = new Set(model.document.opened);
  const opened = [...state.opened].filter((box) => !first.has(box));
  const closed = [...first].filter((box) => !state.opened.has(box));
  if (opened.length) parts.push(`open=${opened.map((box) => nameOf(model, box)).join(",")}`);
  if (closed.length) parts.push(`close=${closed.map((box) => nameOf(model, box)).join(",")}`);
  if (state.colour !== model.firstColour) parts.push(`color=${state.colour}`);
  return parts.join("&");
}

/** What a hash asks for; parts that fit nothing in this graph are passed over. */
export function stateOf(model, hash) {
  const asked = new Map(hash.replace(/^#/, "").split("&").map((part) => part.split("=")).filter((pair) => pair.length === 2));
  const opened = new Set(model.document.opened);
  for (const box of boxesOf(model, asked.get("open"))) for (const each of [box, ...model.boxesAround(box)]) opened.add(each);
  for (const box of boxesOf(model, asked.get("close"))) opened.delete(box);
  const item = Number(asked.get("item"));
  const node = model.itemOfNode(Number(asked.get("node")));
  const selected = asked.has("node") ? node ?? null : asked.has("item") && model.items[item] ? item : null;
  if (selected !== null) for (const box of model.boxesAround(selected)) opened.add(box);
  const colour = asked.get("color");
  return { opened, selected, colour: colour in model.document.legends || colour === "role" ? colour : model.firstColour };
}

/** Its module where no other box stands for the same, else its number. */
function nameOf(model, box) {
  const module = moduleOf(model, box);
  const isPlain = /^[\w.]+$/.test(module);
  return isPlain && [...model.boxes.keys()].every((other) => other === box || moduleOf(model, other) !== module) ? module : String(box);
}

/** Of several alike, drawn as one, the first. */
const moduleOf = (model, box) => (model.items[box].path ?? "").split(" ")[0];

function boxesOf(model, names) {
  if (!names) return [];
  const boxes = [...model.boxes.keys()];
  return names.split(",").flatMap((name) => {
    if (/^\d+$/.test(name)) return model.canOpen(Number(name)) ? [Number(name)] : [];
    const exact = boxes.filter((box) => moduleOf(model, box) === name);
    return exact.length ? exact : boxes.filter((box) => moduleOf(model, box).endsWith(`.${name}`));
  });
}
