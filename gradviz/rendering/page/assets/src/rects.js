/** Rectangles, and how they lie to one another. */

export const touch = (one, other) =>
  one.x <= other.x + other.width && other.x <= one.x + one.width && one.y <= other.y + other.height && other.y <= one.y + one.height;

export const isWithin = (inner, outer) =>
  inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width && inner.y + inner.height <= outer.y + outer.height;

/** The least that holds all points. */
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

/** With some part of its own size more at every side. */
export const widened = ({ x, y, width, height }, part) =>
  ({ x: x - part * width, y: y - part * height, width: (1 + 2 * part) * width, height: (1 + 2 * part) * height });
