/**
 * What can be found of every item, by what a query can ask for.
 *
 * @import { Model } from "../graph/model.js"
 *
 * @typedef {object} SearchableItem texts are in small letters
 * @property {number} number
 * @property {string} op
 * @property {string} shape
 * @property {string} line
 * @property {string} module
 * @property {string} name
 * @property {string} words all of these
 * @property {Record<string, number>} numbers what was measured
 * @property {boolean} isBroken whether there is NaN or Inf in its gradient
 * @property {boolean} hasFinding
 */

/**
 * @param {Model} model
 * @returns {SearchableItem[]}
 */
export function searchableItems(model) {
  return model.items.flatMap((item, number) => {
    if (model.shownAs(number) !== number) return [];
    const names = (item.names ?? []).join("\n").toLowerCase();
    const path = (item.path ?? "").toLowerCase();
    const op = [item.is_leaf ? "" : item.title, item.subtitle ?? ""].join("\n").toLowerCase();
    const shape = (item.shape_words ?? "").toLowerCase();
    const line = (item.line ?? "").toLowerCase();
    const variable = (item.lines ?? []).map((each) => each.text).join("\n").toLowerCase();
    const module = model.canOpen(number) || path ? `${path}\n${names}` : modulesAround(model, number);
    return [{
      number, op, shape, line, module, name: [item.title.toLowerCase(), names, variable].join("\n"),
      words: [item.title.toLowerCase(), op, names, path, shape, line, variable].join("\n"),
      numbers: item.numbers ?? {},
      isBroken: (item.readings?.gradient ?? []).includes("broken"),
      hasFinding: Boolean(item.finding),
    }];
  });
}

/**
 * @param {Model} model
 * @param {number} number
 */
function modulesAround(model, number) {
  return (model.boxesAround(number).map((box) => model.items[box].path ?? "").at(-1) ?? "").toLowerCase();
}
