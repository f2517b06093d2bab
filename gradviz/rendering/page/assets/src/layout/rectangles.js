/**
 * Rectangles, and how they lie to one another.
 *
 * @import { Point, Rect, SceneLine } from "./types.js"
 */

/**
 * @param {Rect} one
 * @param {Rect} other
 */
export const touch = (one, other) =>
  one.x <= other.x + other.width && other.x <= one.x + one.width && one.y <= other.y + other.height && other.y <= one.y + one.height;

/**
 * @param {Rect} inner
 * @param {Rect} outer
 */
export const isWithin = (inner, outer) =>
  inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width && inner.y + inner.height <= outer.y + outer.height;

/**
 * The smallest that holds all points.
 *
 * @param {Point[]} points
 * @returns {Rect}
 */
export function boundsOf(points) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of points) {
    left = Math.min(left, x);
    top = Math.min(top, y);
    right = Math.max(right, x);
    bottom = Math.max(bottom, y);
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

/**
 * Whether any of a line may be in a rectangle.
 *
 * @param {SceneLine} line
 * @param {Rect} rect
 */
export const lineTouches = (line, rect) => touch((line.bounds ??= boundsOf(line.points)), rect);

/**
 * With some part of its own size more at every side.
 *
 * @param {Rect} rect
 * @param {number} part
 * @returns {Rect}
 */
export const widened = ({ x, y, width, height }, part) =>
  ({ x: x - part * width, y: y - part * height, width: (1 + 2 * part) * width, height: (1 + 2 * part) * height });
