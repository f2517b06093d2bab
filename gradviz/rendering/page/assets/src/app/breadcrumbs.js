/**
 * The boxes around what is selected, or around what is seen, as a row of buttons.
 *
 * @import { Model } from "../graph/model.js"
 */
import { byId, h } from "../shared/dom.js";

/**
 * @param {Model} model
 * @param {number[]} around the outermost first
 * @param {{top: () => void, go: (number: number) => void}} actions
 */
export function showBreadcrumbs(model, around, { top, go }) {
  const first = h("button", { type: "button", onclick: top }, "graph");
  const steps = around.map((number) => h("button", { type: "button", onclick: () => go(number) }, model.items[number].title));
  byId("crumbs").replaceChildren(...[first, ...steps].map((step) => h("li", {}, step)));
}
