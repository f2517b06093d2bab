/**
 * Ways of wires: lists of points, from what the data comes from to what it goes to.
 *
 * @import { Point } from "./types.js"
 */
import { rounded } from "../shared/number-words.js";

const TURN = 8;
const STUB = 12;
/** A last stretch that is longer keeps its lane and bends just before its end. */
const LONG = 2 * STUB + 12;

/**
 * @param {number[]} flat x and y in turn, as the file has them
 * @returns {Point[]}
 */
export function pointsOf(flat) {
  const points = [];
  for (let at = 0; at < flat.length; at += 2) points.push({ x: flat[at], y: flat[at + 1] });
  return points;
}

/**
 * The same way between other ends. It runs straight along its lanes, and turns where an end is not on one.
 *
 * @param {Point[]} points
 * @param {Point} start
 * @param {Point} end
 * @returns {Point[]}
 */
export function joined(points, start, end) {
  if (points.length < 2) return [start, end];
  const middle = points.slice(1, -1);
  const first = points[0];
  const last = points[points.length - 1];
  if (!middle.length) return tidy(between(start, end, first, last));
  const head = leaving(start, first, middle[0], middle.at(1) ?? last);
  const tail = leaving(end, last, middle[middle.length - 1], middle.at(-2) ?? first);
  const inner = middle.slice(head.uses, middle.length - tail.uses);
  return tidy([...head.points, ...inner, ...tail.points.reverse()]);
}

/**
 * A single stretch: straight where its ends allow, else with turns at a third between them.
 *
 * @param {Point} start
 * @param {Point} end
 * @param {Point} first where it began
 * @param {Point} last where it ended
 * @returns {Point[]}
 */
function between(start, end, first, last) {
  if (first.y === last.y && first.x !== last.x) {
    const x = (start.x + end.x) / 2;
    return [start, { x, y: start.y }, { x, y: end.y }, end];
  }
  const lane = first.x;
  if (end.y - start.y <= LONG) {
    const y = (start.y + end.y) / 2;
    return [start, { x: start.x, y }, { x: end.x, y }, end];
  }
  const out = start.y + STUB;
  const into = end.y - STUB;
  return [start, { x: start.x, y: out }, { x: lane, y: out }, { x: lane, y: into }, { x: end.x, y: into }, end];
}

/**
 * From an end to the rest of its way. `uses` says whether the next point is already part of what is given.
 *
 * @param {Point} end
 * @param {Point} was
 * @param {Point} next
 * @param {Point} afterNext
 * @returns {{points: Point[], uses: number}}
 */
function leaving(end, was, next, afterNext) {
  const isUpright = was.x === next.x;
  const missesLane = isUpright ? end.x !== next.x : end.y !== next.y;
  if (!missesLane) return { points: [end], uses: 0 };
  const length = isUpright ? Math.abs(next.y - end.y) : Math.abs(next.x - end.x);
  const turnsThere = isUpright ? next.y === afterNext.y : next.x === afterNext.x;
  if (turnsThere && length <= LONG) {
    return { points: [end, isUpright ? { x: end.x, y: next.y } : { x: next.x, y: end.y }], uses: 1 };
  }
  if (isUpright) {
    const y = end.y + Math.sign(next.y - end.y) * Math.min(STUB, length / 2);
    return { points: [end, { x: end.x, y }, { x: next.x, y }], uses: 0 };
  }
  const x = end.x + Math.sign(next.x - end.x) * Math.min(STUB, length / 2);
  return { points: [end, { x, y: end.y }, { x, y: next.y }], uses: 0 };
}

/**
 * Without points that repeat or lie on a straight stretch.
 *
 * @param {Point[]} points
 */
function tidy(points) {
  /** @type {Point[]} */
  const line = [];
  for (const point of points) {
    const before = line.at(-1);
    if (before && Math.abs(before.x - point.x) < 0.05 && Math.abs(before.y - point.y) < 0.05) continue;
    const earlier = line.at(-2);
    if (before && earlier && ((earlier.x === before.x && before.x === point.x) || (earlier.y === before.y && before.y === point.y))) {
      line[line.length - 1] = point;
    } else line.push(point);
  }
  return line;
}

/**
 * Path data with round corners.
 *
 * @param {Point[]} points
 */
export function pathOf(points) {
  if (points.length < 2) return "";
  const parts = [`M${pair(points[0])}`];
  for (let at = 1; at + 1 < points.length; at++) {
    const [before, corner, after] = [points[at - 1], points[at], points[at + 1]];
    const radius = Math.min(TURN, distance(before, corner) / 2, distance(corner, after) / 2);
    parts.push(`L${pair(towards(corner, before, radius))}Q${pair(corner)} ${pair(towards(corner, after, radius))}`);
  }
  parts.push(`L${pair(points[points.length - 1])}`);
  return parts.join("");
}

/** @param {Point} point */
const pair = (point) => `${rounded(point.x)} ${rounded(point.y)}`;
/**
 * @param {Point} one
 * @param {Point} other
 */
const distance = (one, other) => Math.max(Math.abs(one.x - other.x), Math.abs(one.y - other.y));

/**
 * @param {Point} start
 * @param {Point} goal
 * @param {number} length
 * @returns {Point}
 */
function towards(start, goal, length) {
  const whole = distance(start, goal) || 1;
  return { x: start.x + ((goal.x - start.x) * length) / whole, y: start.y + ((goal.y - start.y) * length) / whole };
}
