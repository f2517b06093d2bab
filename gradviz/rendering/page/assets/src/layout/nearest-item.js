/**
 * Which of the things that are shown is nearest to another: where arrow keys lead.
 *
 * @import { Model } from "../graph/model.js"
 * @import { Rect, Scene } from "./types.js"
 */
import { rectOf } from "./compose-scene.js";

const MIN_STEP = 8;
const REACH = 40;

/**
 * Of several items the nearest, operations before leaves; null of none.
 *
 * @param {Model} model
 * @param {Scene} scene
 * @param {number} number
 * @param {number[]} others that are shown as well
 * @returns {number|null}
 */
export function nearestOf(model, scene, number, others) {
  const own = rectOf(scene, number);
  /** @param {Rect|null} rect */
  const away = (rect) => (rect && own ? Math.hypot(middleOf(rect) - middleOf(own), rect.y - own.y) : Infinity);
  const found = others.map((other) => ({ other, isLeaf: model.items[other].is_leaf ? 1 : 0, away: away(rectOf(scene, other)) }));
  return found.sort((one, other) => one.isLeaf - other.isLeaf || one.away - other.away)[0]?.other ?? null;
}

/** @param {Rect} rect */
const middleOf = (rect) => rect.x + rect.width / 2;

/**
 * The nearest item at the left or right, within about the same height; null for none.
 *
 * @param {Scene} scene
 * @param {number} number
 * @param {"left"|"right"} direction
 * @returns {number|null}
 */
export function besideOf(scene, number, direction) {
  const own = rectOf(scene, number);
  if (!own) return null;
  const sign = direction === "left" ? -1 : 1;
  let best = null;
  let nearest = Infinity;
  for (const [other, rect] of scene.items) {
    const across = (rect.x + rect.width / 2 - own.x - own.width / 2) * sign;
    const down = Math.abs(rect.y + rect.height / 2 - own.y - own.height / 2);
    if (other === number || across < MIN_STEP || down > own.height / 2 + REACH) continue;
    if (across + 3 * down < nearest) {
      best = other;
      nearest = across + 3 * down;
    }
  }
  return best;
}
