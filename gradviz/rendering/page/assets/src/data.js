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
  constructor({ place }) {
    this.scripts = pieces("details", place);
    this.itemsInAPiece = Number(this.scripts[0]?.dataset.items ?? 1);
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

/** So many letters of base64 become bytes at a time: all of them at once would be a second copy of a large graph. */
const LETTERS = 1 << 18;

function unpacked(script) {
  const packed = script.firstChild.data;
  let at = 0;
  const bytes = new ReadableStream({
    pull(controller) {
      if (at >= packed.length) return controller.close();
      const letters = atob(packed.slice(at, (at += LETTERS)));
      const piece = new Uint8Array(letters.length);
      for (let place = 0; place < letters.length; place++) piece[place] = letters.charCodeAt(place);
      return controller.enqueue(piece);
    },
  });
  return new Response(bytes.pipeThrough(new DecompressionStream("deflate-raw"))).json();
}
