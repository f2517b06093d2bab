/**
 * Goes from one difference between two runs to the next.
 *
 * @import { Model } from "../graph/model.js"
 * @import { View } from "./address.js"
 * @import { App } from "./app.js"
 */
import { announce } from "../shared/announce.js";
import { nextStop } from "./next-stop.js";

/** @param {Model} model */
const stopsOf = (model) => model.document.difference?.stops ?? [];

/** @param {Model} model */
export const hasDifferences = (model) => stopsOf(model).length > 0;

/**
 * A view in which the first difference is selected, where there is one.
 *
 * @param {Model} model
 * @param {View} view
 * @returns {View}
 */
export function withFirstDifference(model, view) {
  const stops = stopsOf(model);
  const first = stops.find((stop) => stop.is_first) ?? stops[0];
  return first ? { ...view, opened: model.withOpen(view.opened, model.boxesAround(first.item)), selected: first.item } : view;
}

/**
 * Goes to a difference, from what is selected, and says which of them it is.
 *
 * @param {App} app
 * @param {1|-1} step
 */
export function goToDifference(app, step) {
  const stops = stopsOf(app.model);
  if (!stops.length) return;
  const at = nextStop(stops.map(({ item }) => item), app.state.selected, step);
  app.goTo(stops[at].item);
  const { words, reason } = stops[at];
  announce(`difference ${at + 1} of ${stops.length}: ${[words, reason].filter(Boolean).join(" · ")}`);
}
