/**
 * What outlines, colours and light mean, for what is shown.
 *
 * @import { Role } from "../document/types.js"
 * @import { Model } from "../graph/model.js"
 * @import { Scene } from "../layout/types.js"
 */
import { isQuantity } from "../graph/color-scale.js";
import { byId, h, s } from "../shared/dom.js";

/** On a phone it is closed at first: it would take the room of the picture. */
export function closeLegendOnPhone() {
  const narrow = matchMedia("(max-width: 620px)");
  const close = () => { byId("legend").open = !narrow.matches; };
  narrow.addEventListener("change", close);
  close();
}

/**
 * @param {Model} model
 * @param {Scene} scene
 * @param {{colour: string, isWeighed: boolean, isLit: boolean, isWay: boolean, isFound: boolean}} look
 */
export function showLegend(model, scene, { colour, isWeighed, isLit, isWay, isFound }) {
  const { legends, roles } = model.document;
  const legend = Object.hasOwn(legends, colour) ? legends[colour] : null;
  const present = new Set([...scene.items.keys()].map((number) => model.items[number].role));
  const rows = lightRows({ isLit, isWay, isFound });
  const scale = isQuantity(colour) ? model.scales[colour] : null;
  if (legend?.is_scale) {
    const steps = legend.tints.map(({ tint }) => tint).filter((tint) => tint.startsWith("step"));
    rows.push(h("span", { class: "entry" }, swatchRow(steps), `${legend.words}: ${scale?.words ?? "nothing measured here"}`));
  }
  if (isWeighed) {
    const widths = `width of wires: ${legends.gradient.words}, ${model.scales.gradient?.words ?? "not measured here"}`;
    rows.push(h("span", { class: "entry" }, colour === "gradient" ? "wires are as wide as it is large" : widths));
  }
  for (const { tint, words } of legend?.tints ?? []) if (words) rows.push(h("span", { class: "entry" }, swatchRow([tint]), words));
  for (const [name, role] of Object.entries(roles)) {
    const isPlain = legend && colour !== "kind" && ["box", "operation"].includes(name);
    if (present.has(name) && !isPlain && name !== "root") rows.push(h("span", { class: "entry" }, roleSwatch(name, role), role.words));
  }
  byId("legend-rows").replaceChildren(...rows);
  byId("legend").hidden = !rows.length;
}

/**
 * What lights up for what is selected, and what was found.
 *
 * @param {{isLit: boolean, isWay: boolean, isFound: boolean}} lit
 */
function lightRows({ isLit, isWay, isFound }) {
  const rows = [];
  if (isWay) rows.push({ kind: "to", words: "the shortest way" });
  else if (isLit) rows.push({ kind: "from", words: "its gradient flows to these" }, { kind: "to", words: "its gradient came from these" });
  if (isFound) rows.push({ kind: "match", words: "found" });
  return rows.map(({ kind, words }) => h("span", { class: `entry light ${kind}` }, words));
}

/** @param {string[]} tints */
function swatchRow(tints) {
  const width = tints.length > 1 ? 13 : 20;
  return s("svg", { width: width * tints.length, height: 13, "aria-hidden": "true" },
    tints.map((tint, at) => s("g", { class: tint }, s("rect", { class: "s", x: at * width + 0.5, y: 0.5, width: width - (tints.length > 1 ? 0 : 1), height: 12 }))));
}

/**
 * @param {string} name
 * @param {Role} role
 */
function roleSwatch(name, { outline, inner }) {
  return s("svg", { width: 24, height: 16, viewBox: "-1 -1 24 16", "aria-hidden": "true" },
    s("g", { class: name }, s("path", { class: "s", d: outline }), inner ? s("path", { class: "i", d: inner }) : null));
}
