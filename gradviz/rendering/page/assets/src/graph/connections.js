/**
 * Which shown things are joined: what a gradient flows to, and what it came from.
 *
 * @import { Scene, SceneLine } from "../layout/types.js"
 *
 * @typedef {"onwards"|"back"} Way with the data, or with the gradient
 * @typedef {{items: Set<number>, lines: Set<string>}} Part of a scene: items by number, lines by key
 */
import { append } from "../shared/group-by.js";

/**
 * Ends of lines are items (``item:12``) or positions where data crosses the border of an open box.
 */
export class Connections {
  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
    /** @type {Record<Way, Map<string, SceneLine[]>>} */
    this.lines = { onwards: new Map(), back: new Map() };
    for (const line of scene.lines) {
      append(this.lines.onwards, line.from, line);
      append(this.lines.back, line.to, line);
    }
  }

  /**
   * Everything that is reached from some items.
   *
   * @param {number[]} numbers
   * @param {Way} way
   * @returns {Part}
   */
  reached(numbers, way) {
    return this.#walk(numbers.map(endOf), way, () => true);
  }

  /**
   * The items at the other ends of an item's wires, nearest first.
   *
   * @param {number[]} numbers
   * @param {Way} way
   */
  neighbours(numbers, way) {
    return [...this.#walk(numbers.map(endOf), way, isBorder).items];
  }

  /**
   * The items that take what flows along a line, whichever borders of boxes it has still to cross.
   *
   * @param {SceneLine} line
   */
  takersOf(line) {
    const own = itemAt(line.to);
    return own === null ? [...this.#walk([line.to], "onwards", isBorder).items] : [own];
  }

  /**
   * From some ends along all lines, and on from those ends that `goesOn` lets pass; the ends themselves are not found.
   *
   * @param {string[]} ends
   * @param {Way} way
   * @param {(end: string) => boolean} goesOn
   */
  #walk(ends, way, goesOn) {
    const found = nothing();
    const seen = new Set(ends);
    const waiting = [...ends];
    for (const end of waiting) {
      for (const line of this.lines[way].get(end) ?? []) {
        found.lines.add(line.key);
        const next = way === "onwards" ? line.to : line.from;
        if (seen.has(next)) continue;
        seen.add(next);
        const item = itemAt(next);
        if (item !== null) found.items.add(item);
        if (goesOn(next)) waiting.push(next);
      }
    }
    return found;
  }

  /**
   * The shortest way with the data from one item to another; null where there is none.
   *
   * @param {number} from
   * @param {number} to
   * @returns {Part|null}
   */
  way(from, to) {
    const goal = endOf(to);
    /** @type {Map<string, SceneLine|null>} */
    const cameBy = new Map([[endOf(from), null]]);
    const waiting = [endOf(from)];
    for (const end of waiting) {
      if (cameBy.has(goal)) break;
      for (const line of this.lines.onwards.get(end) ?? []) {
        if (cameBy.has(line.to)) continue;
        cameBy.set(line.to, line);
        waiting.push(line.to);
      }
    }
    if (!cameBy.has(goal)) return null;
    const found = nothing();
    found.items.add(from).add(to);
    for (let line = cameBy.get(goal); line; line = cameBy.get(line.from)) {
      found.lines.add(line.key);
      const item = itemAt(line.from);
      if (item !== null) found.items.add(item);
    }
    return found;
  }
}

/** @returns {Part} */
export const nothing = () => ({ items: new Set(), lines: new Set() });

/** @param {number} number */
const endOf = (number) => `item:${number}`;

/** @param {string} end */
const isBorder = (end) => itemAt(end) === null;

/**
 * The item at an end of a line; null where that is at a border.
 *
 * @param {string} end
 */
export const itemAt = (end) => (end.startsWith("item:") ? Number(end.slice(5)) : null);
