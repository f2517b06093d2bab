/**
 * The bar above the picture, and the buttons on it: what they offer for this graph, and what they do.
 *
 * @import { App } from "./app.js"
 */
import { announce } from "../shared/announce.js";
import { byId, h, listenToButtons } from "../shared/dom.js";
import { nextTheme } from "./theme.js";

/** @type {Record<string, string>} */
const COLOURS = {
  none: "what it is", kind: "kind of operation", gradient: "gradient", memory: "memory", time: "time",
  module: "module", dtype: "dtype", finding: "findings", state: "what differs",
};

/** @param {App} app */
export function offerTools(app) {
  const { calls, legends, name, facts, index } = app.model.document;
  byId("name").textContent = name;
  byId("facts").textContent = facts;
  byId("play").hidden = !app.player.canPlay;
  byId("weigh").hidden = !app.canWeigh;
  byId("next-difference").hidden = !app.canJump;
  byId("colour").append(...["none", ...Object.keys(legends)].map((by) => h("option", { value: by }, COLOURS[by])));
  byId("colour").addEventListener("change", () => app.colourBy(byId("colour").value));
  byId("calls").hidden = !calls.length;
  byId("call").append(...calls.map(({ title }, number) => h("option", { value: number }, title)));
  byId("call").value = String(index);
  byId("call").addEventListener("change", () => app.showGraph(Number(byId("call").value), app.panel.tab));
}

/** @param {App} app */
export function listenToTools(app) {
  listenToButtons({
    "zoom-in": () => app.stage.viewport.zoomBy(1.3), "zoom-out": () => app.stage.viewport.zoomBy(1 / 1.3), fit: () => app.fit(),
    "unfold-all": () => { app.unfoldAll(null); app.stage.fit({ isLegible: true }); },
    "fold-all": () => app.foldAll(),
    theme: () => { announce(`theme: ${nextTheme()}`); app.stage.repaintMinimap(); },
    help: () => app.help(),
    play: () => app.play(),
    weigh: () => app.weigh(),
    "next-difference": () => app.nextDifference(1),
    "panel-toggle": () => { document.body.classList.toggle("no-panel"); },
  });
}
