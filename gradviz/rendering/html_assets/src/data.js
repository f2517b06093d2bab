/** Reads what the file carries about its graphs. */

/** Which of several graphs an address is about, counted from 0; the first, where it names none that is there. */
export function placeOf(hash) {
  const place = Number(/(?:^#|&)graph=(\d+)(?:&|$)/.exec(hash)?.[1] ?? 1) - 1;
  return pieces("data", place).length ? place : 0;
}

/** @returns {Promise<object>} of one graph, the document that `gradviz.rendering.page_document` describes */
export const readDocument = (place) => unpacked(pieces("data", place)[0]);

/** What is known of items beyond what the picture shows: unpacked piece by piece, once it is asked for. */
export class Details {
  #read = new Map();

  /** @param {object} document of the graph */
  constructor({ place, items }) {
    this.scripts = pieces("details", place);
    this.itemsInAPiece = Math.max(1, ...this.scripts.slice(0, 1).map((script) => Number(script.dataset.items)));
    this.count = items.length;
  }

  /** Of one item; null as long as its piece is packed. */
  of(number) {
    const piece = this.#read.get(this.#pieceOf(number));
    return Array.isArray(piece) ? piece[number % this.itemsInAPiece] : null;
  }

  /** Unpacks the piece in which an item is. */
  async load(number) {
    const at = this.#pieceOf(number);
    if (!this.#read.has(at)) this.#read.set(at, unpacked(this.scripts[at]).then((piece) => this.#read.set(at, piece)));
    await this.#read.get(at);
  }

  #pieceOf(number) {
    return Math.floor(number / this.itemsInAPiece);
  }
}

const pieces = (kind, place) => [...document.querySelectorAll(`script.${kind}[data-graph="${place}"]`)];

async function unpacked(script) {
  const bytes = Uint8Array.from(atob(script.textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).json();
}
