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
   * @param {Iterable<number>} numbers
   * @param {"onwards"|"back"} way with the data, or with the gradient
   * @returns {{items: Set<number>, lines: Set<string>}}
   */
  reached(numbers, way) {
    const found = { items: new Set(), lines: new Set() };
    const waiting = [...numbers].map((number) => `item:${number}`);
    const seen = new Set(waiting);
    while (waiting.length) {
      const end = waiting.pop();
      for (const line of this[way].get(end) ?? []) {
        found.lines.add(line.key);
        const next = way === "onwards" ? line.to : line.from;
        if (seen.has(next)) continue;
        seen.add(next);
        waiting.push(next);
        if (next.startsWith("item:")) found.items.add(Number(next.slice(5)));
      }
    }
    return found;
  }

  /** The items at the other ends of an item's wires, nearest first. */
  neighbours(numbers, way) {
    const own = new Set(numbers);
    const found = new Set();
    const waiting = [...own].map((number) => `item:${number}`);
    const seen = new Set(waiting);
    while (waiting.length) {
      for (const line of this[way].get(waiting.shift()) ?? []) {
        const next = way === "onwards" ? line.to : line.from;
        if (seen.has(next)) continue;
        seen.add(next);
        if (!next.startsWith("item:")) waiting.push(next);
        else if (!own.has(Number(next.slice(5)))) found.add(Number(next.slice(5)));
      }
    }
    return [...found];
  }

  /** The items that take what flows along a line, whichever borders of boxes it has still to cross. */
  takersOf(line) {
    const found = [];
    const waiting = [line.to];
    while (waiting.length) {
      const end = waiting.pop();
      if (end.startsWith("item:")) found.push(Number(end.slice(5)));
      else waiting.push(...(this.onwards.get(end) ?? []).map((next) => next.to));
    }
    return found;
  }

  /** The shortest way with the data from one item to another; null where there is none. */
  way(from, to) {
    const goal = `item:${to}`;
    const cameBy = new Map([[`item:${from}`, null]]);
    const waiting = [`item:${from}`];
    while (waiting.length && !cameBy.has(goal)) {
      for (const line of this.onwards.get(waiting.shift()) ?? []) {
        if (cameBy.has(line.to)) continue;
        cameBy.set(line.to, line);
        waiting.push(line.to);
      }
    }
    if (!cameBy.has(goal)) return null;
    const found = { items: new Set([from, to]), lines: new Set() };
    for (let line = cameBy.get(goal); line; line = cameBy.get(line.from)) {
      found.lines.add(line.key);
      if (line.from.startsWith("item:")) found.items.add(Number(line.from.slice(5)));
    }
    return found;
  }
}

function add(lines, end, line) {
  if (!lines.has(end)) lines.set(end, []);
  lines.get(end).push(line);
}
