/** The bar above the picture, and the buttons on it: what they offer for this graph, and what they do. */
import { byId, h } from "./dom.js";
import { announce } from "./parts.js";
import { nextTheme } from "./theme.js";

const COLOURS = { role: "what it is", gradient: "gradient", memory: "memory", time: "time", module: "module", dtype: "dtype", finding: "findings" };

/** @param {import("./app.js").App} app */
export function offerTools(app) {
  const { calls, legends, name, facts, place, replay } = app.model.document;
  byId("name").textContent = name;
  byId("facts").textContent = facts;
  byId("play").hidden = !replay;
  byId("weigh").hidden = !("gradient" in legends);
  byId("colour").append(...["role", ...Object.keys(legends)].map((by) => h("option", { value: by }, COLOURS[by])));
  byId("colour").addEventListener("change", (event) => app.colourBy(event.target.value));
  byId("calls").hidden = !calls.length;
  byId("call").append(...calls.map(({ title }, number) => h("option", { value: number }, title)));
  byId("call").value = place;
  byId("call").addEventListener("change", (event) => app.showGraph(Number(event.target.value), app.panel.tab));
}

/** @param {import("./app.js").App} app */
export function listenToTools(app) {
  const actions = {
    "zoom-in": () => app.viewport.zoomBy(1.3), "zoom-out": () => app.viewport.zoomBy(1 / 1.3), fit: () => app.fit(),
    "unfold-all": () => { app.unfoldAll(null); app.viewport.fit(app.picture.scene, { isLegible: true }); },
    "fold-all": () => app.foldAll(),
    theme: () => { announce(`theme: ${nextTheme()}`); app.minimap.show(app.picture.scene); },
    help: () => app.help(),
    play: () => app.play(),
    weigh: () => app.weigh(),
    "panel-toggle": () => document.body.classList.toggle("no-panel"),
  };
  for (const [id, action] of Object.entries(actions)) byId(id).addEventListener("click", action);
}
