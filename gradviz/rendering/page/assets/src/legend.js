/** What outlines and colours mean, for what is shown. */
import { byId, h, s } from "./dom.js";

/**
 * @param {import("./model.js").Model} model
 * @param {import("./composition.js").Scene} scene
 */
export function showLegend(model, scene, { colour, isWeighed }) {
  const { legends, roles } = model.document;
  const legend = legends[colour];
  const present = new Set([...scene.items.keys()].map((number) => model.items[number].role));
  const rows = [];
  if (legend?.is_scale) {
    const steps = legend.tints.filter(([tint]) => tint.startsWith("step"));
    rows.push(h("span", { class: "entry" }, swatchRow(steps.map(([tint]) => tint)), legend.words));
  }
  if (isWeighed) rows.push(h("span", { class: "entry" }, colour === "gradient" ? "wires are as wide as it is large" : `width of wires: ${legends.gradient.words}`));
  for (const [tint, words] of legend?.tints ?? []) if (words) rows.push(h("span", { class: "entry" }, swatchRow([tint]), words));
  for (const [role, [words, ...paths]] of Object.entries(roles)) {
    const isPlain = legend && ["box", "operation"].includes(role);
    if (present.has(role) && !isPlain && role !== "root") rows.push(h("span", { class: "entry" }, roleSwatch(role, paths), words));
  }
  byId("legend").replaceChildren(...rows);
}

function swatchRow(tints) {
  const width = tints.length > 1 ? 13 : 20;
  return s("svg", { width: width * tints.length, height: 13, "aria-hidden": "true" },
    tints.map((tint, at) => s("g", { class: tint }, s("rect", { class: "s", x: at * width + 0.5, y: 0.5, width: width - (tints.length > 1 ? 0 : 1), height: 12 }))));
}

function roleSwatch(role, [outline, inner]) {
  return s("svg", { width: 24, height: 16, viewBox: "-1 -1 24 16", "aria-hidden": "true" },
    s("g", { class: role }, s("path", { class: "s", d: outline }), inner ? s("path", { class: "i", d: inner }) : null));
}
