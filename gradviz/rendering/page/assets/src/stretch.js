/**
 * One axis of a box, stretched so that what was opened in it finds room.
 *
 * Everything keeps its order, and nothing comes nearer to anything else, so what did not overlap does not overlap now.
 * Lengths are added at single places, and two stretches that overlap share what is added: twelve opened boxes in a
 * column make it as wide as the widest of them.
 */
export class Stretch {
  #before = [];
  #after = [];

  /** Between `edge` and `axis`, to the right of it, at least so much has to be added; things at `edge` stay outside. */
  demandBefore(edge, axis, length) {
    if (length > 0) this.#before.push({ edge, axis, length });
  }

  /** Between `axis` and `edge`, to the right of it. */
  demandAfter(axis, edge, length) {
    if (length > 0) this.#after.push({ edge, axis, length });
  }

  /** Decides where lengths are added. */
  settle() {
    /** @type {{at: number, isAfter: boolean, length: number}[]} */
    this.jumps = [];
    const add = (at, isAfter, from, to, length) => {
      const missing = length - this.jumps.reduce((sum, j) => sum + (this.#parts(j, from, to) ? j.length : 0), 0);
      if (missing > 0) this.jumps.push({ at, isAfter, length: missing });
    };
    this.#before.sort((one, other) => other.edge - one.edge);
    for (const { edge, axis, length } of this.#before) add(edge, false, edge, axis, length);
    this.#after.sort((one, other) => one.edge - other.edge);
    for (const { edge, axis, length } of this.#after) add(edge, true, axis, edge, length);
    this.jumps.sort((one, other) => one.at - other.at);
    this.total = this.jumps.reduce((sum, jump) => sum + jump.length, 0);
  }

  /** Whether a jump lies between two places. */
  #parts(jump, from, to) {
    return this.#passed(jump, to) && !this.#passed(jump, from);
  }

  #passed(jump, place) {
    return jump.isAfter ? place >= jump.at : place > jump.at;
  }

  /** Where a place is now. */
  map(place) {
    let shift = 0;
    for (const jump of this.jumps) {
      if (jump.at > place) break;
      if (this.#passed(jump, place)) shift += jump.length;
    }
    return place + shift;
  }
}
