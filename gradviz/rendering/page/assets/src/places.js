/** Which of the things that are shown is nearest to another: where arrow keys lead. */
import { rectOf } from "./composition.js";

const LEAST_STEP = 8;
const REACH = 40;

/** Of several items the nearest, operations before leaves; null of none. */
export function nearestOf(model, scene, number, others) {
  const own = rectOf(scene, number);
  const middle = (rect) => rect.x + rect.width / 2;
  const away = (other) => Math.hypot(middle(rectOf(scene, other)) - middle(own), rectOf(scene, other).y - own.y);
  const isLeaf = (other) => (model.items[other].is_leaf ? 1 : 0);
  return others.sort((one, other) => isLeaf(one) - isLeaf(other) || away(one) - away(other))[0] ?? null;
}

/** The nearest item at the left or right, within about the same height; null for none. */
export function besideOf(scene, number, direction) {
  const own = rectOf(scene, number);
  const sign = direction === "left" ? -1 : 1;
  let best = null;
  let least = Infinity;
  for (const [other, rect] of scene.items) {
    const across = (rect.x + rect.width / 2 - own.x - own.width / 2) * sign;
    const down = Math.abs(rect.y + rect.height / 2 - own.y - own.height / 2);
    if (other === number || across < LEAST_STEP || down > own.height / 2 + REACH) continue;
    if (across + 3 * down < least) [best, least] = [other, across + 3 * down];
  }
  return best;
}
