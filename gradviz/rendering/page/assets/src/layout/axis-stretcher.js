/**
 * One axis of a box, stretched so that what was opened in it finds room.
 *
 * Everything keeps its order, and nothing comes nearer to anything else, so what did not overlap does not overlap now.
 * Lengths are added at single positions, and two stretches that overlap share what is added: twelve opened boxes in a
 * column make it as wide as the widest of them.
 *
 * @typedef {{edge: number, axis: number, length: number}} Demand
 * @typedef {{at: number, isAfter: boolean, length: number}} Jump what is added at a position, or just after it
 */
export class AxisStretcher {
  /** @type {Demand[]} */
  #before = [];
  /** @type {Demand[]} */
  #after = [];
  /** @type {Jump[]} */
  #jumps = [];
  /** All that was added. */
  total = 0;

  /**
   * Between `edge` and `axis`, to the right of it, at least so much has to be added; things at `edge` stay outside.
   *
   * @param {number} edge
   * @param {number} axis
   * @param {number} length
   */
  demandBefore(edge, axis, length) {
    if (length > 0) this.#before.push({ edge, axis, length });
  }

  /**
   * Between `axis` and `edge`, to the right of it.
   *
   * @param {number} axis
   * @param {number} edge
   * @param {number} length
   */
  demandAfter(axis, edge, length) {
    if (length > 0) this.#after.push({ edge, axis, length });
  }

  /** Decides where lengths are added. */
  settle() {
    this.#before.sort((one, other) => other.edge - one.edge);
    for (const { edge, axis, length } of this.#before) this.#add({ at: edge, isAfter: false, length }, edge, axis);
    this.#after.sort((one, other) => one.edge - other.edge);
    for (const { edge, axis, length } of this.#after) this.#add({ at: edge, isAfter: true, length }, axis, edge);
    this.#jumps.sort((one, other) => one.at - other.at);
    this.total = this.#jumps.reduce((sum, jump) => sum + jump.length, 0);
  }

  /**
   * Adds what is missing between two positions.
   *
   * @param {Jump} wanted
   * @param {number} from
   * @param {number} to
   */
  #add(wanted, from, to) {
    const missing = wanted.length - this.#jumps.reduce((sum, jump) => sum + (isBetween(jump, from, to) ? jump.length : 0), 0);
    if (missing > 0) this.#jumps.push({ ...wanted, length: missing });
  }

  /**
   * Where a position is now.
   *
   * @param {number} position
   */
  map(position) {
    let shift = 0;
    for (const jump of this.#jumps) {
      if (jump.at > position) break;
      if (isPassed(jump, position)) shift += jump.length;
    }
    return position + shift;
  }
}

/**
 * @param {Jump} jump
 * @param {number} from
 * @param {number} to
 */
const isBetween = (jump, from, to) => isPassed(jump, to) && !isPassed(jump, from);

/**
 * @param {Jump} jump
 * @param {number} position
 */
const isPassed = (jump, position) => (jump.isAfter ? position >= jump.at : position > jump.at);
