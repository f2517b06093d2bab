/**
 * Which boxes are open once some are opened or closed.
 *
 * @import { Model } from "./model.js"
 */

/** Unfolding all below stops before more than this would be drawn. */
export const MAX_SHOWN = 3000;

/**
 * With a closed box open, or an open one closed; null for what is no box.
 *
 * @param {Model} model
 * @param {Set<number>} opened
 * @param {number} number
 */
export function toggled(model, opened, number) {
  const inside = model.insideOf(number);
  if (inside === undefined) return null;
  const open = model.openAs(number, opened);
  if (open === null) return model.withOpen(opened, [inside]);
  const fewer = new Set(opened);
  fewer.delete(open);
  return fewer;
}

/**
 * With a box that stands for several alike showing each of them, or one for all again; null for any other.
 *
 * @param {Model} model
 * @param {Set<number>} opened
 * @param {number} number
 */
export function withEachToggled(model, opened, number) {
  const each = model.eachBox.get(number);
  if (each === undefined) return null;
  return model.withOpen(opened, [opened.has(each) && model.boxes.has(number) ? number : each]);
}

/**
 * With a box and all in it open; everything, for null.
 *
 * @param {Model} model
 * @param {Set<number>} opened
 * @param {number|null} number
 * @param {number} shown how many items there are already
 * @returns {{opened: Set<number>, isAll: boolean}} not all, where it would be too many
 */
export function withAllInside(model, opened, number, shown) {
  const around = number === null ? [] : model.boxesAround(number);
  const more = [];
  let count = shown;
  for (const box of [...around, ...model.boxesWithin(number)]) {
    if (count > MAX_SHOWN) return { opened: model.withOpen(opened, more), isAll: false };
    if (!opened.has(box)) count += model.boxes.get(box)?.clusters.length ?? 0;
    more.push(box);
  }
  return { opened: model.withOpen(opened, more), isAll: true };
}

/**
 * Of the boxes that are to be open at first those with which words can be read where all is in sight, but no fewer than
 * the outermost.
 *
 * @param {Model} model
 * @param {Set<number>} opened
 * @param {(opened: Set<number>) => boolean} isLegible
 */
export function fewerOpen(model, opened, isLegible) {
  let fewer = opened;
  while (model.document.may_fold && !isLegible(fewer)) {
    const depths = new Map([...fewer].map((box) => [box, model.boxesAround(box).length]));
    const deepest = Math.max(...depths.values());
    if (!(deepest > 0)) break;
    fewer = new Set([...fewer].filter((box) => depths.get(box) !== deepest));
  }
  return fewer;
}
