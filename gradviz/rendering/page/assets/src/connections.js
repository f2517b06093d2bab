/** Which shown things are joined: what a gradient flows to, and what it came from. */

/**
 * Ends of lines are items (``item:12``) or places where data crosses the border of an open box.
 */
export class Connections {
  /** @param {import("./composition.js").Scene} scene */
  constructor(scene) {
    this.scene = scene;
    this.onwards = new Map();
    this.back = new Map();
    for (const line of scene.lines) {
      add(this.onwards, line.from, line);
      add(this.back, line.to, line);
    }
  }

  /**
   * Everything that is reached from some items.
   *
   * @param {number[]} numbers
   * @param {"onwards"|"back"} way with the data, or with the gradient
   * @returns {{items: Set<number>, lines: Set<string>}}
   */
  reached(numbers, way) {
    return this.#walk(numbers.map(endOf), way, () => true);
  }

  /** The items at the other ends of an item's wires, nearest first. */
  neighbours(numbers, way) {
    return [...this.#walk(numbers.map(endOf), way, isBorder).items];
  }

  /** The items that take what flows along a line, whichever borders of boxes it has still to cross. */
  takersOf(line) {
    const own = itemAt(line.to);
    return own === null ? [...this.#walk([line.to], "onwards", isBorder).items] : [own];
  }

  /** From some ends along all lines, and on from those ends that `goesOn` lets pass; the ends themselves are not found. */
  #walk(ends, way, goesOn) {
    const found = { items: new Set(), lines: new Set() };
    const seen = new Set(ends);
    const waiting = [...ends];
    for (const end of waiting) {
      for (const line of this[way].get(end) ?? []) {
        found.lines.add(line.key);
        const next = way === "onwards" ? line.to : line.from;
        if (seen.has(next)) continue;
        seen.add(next);
        if (!isBorder(next)) found.items.add(itemAt(next));
        if (goesOn(next)) waiting.push(next);
      }
    }
    return found;
  }

  /** The shortest way with the data from one item to another; null where there is none. */
  way(from, to) {
    const goal = endOf(to);
    const cameBy = new Map([[endOf(from), null]]);
    const waiting = [endOf(from)];
    for (const end of waiting) {
      if (cameBy.has(goal)) break;
      for (const line of this.onwards.get(end) ?? []) {
        if (cameBy.has(line.to)) continue;
        cameBy.set(line.to, line);
        waiting.push(line.to);
      }
    }
    if (!cameBy.has(goal)) return null;
    const found = { items: new Set([from, to]), lines: new Set() };
    for (let line = cameBy.get(goal); line; line = cameBy.get(line.from)) {
      found.lines.add(line.key);
      if (!isBorder(line.from)) found.items.add(itemAt(line.from));
    }
    return found;
  }
}

const endOf = (number) => `item:${number}`;
const isBorder = (end) => !end.startsWith("item:");
const itemAt = (end) => (isBorder(end) ? null : Number(end.slice(5)));

function add(lines, end, line) {
  if (!lines.has(end)) lines.set(end, []);
  lines.get(end).push(line);
}
