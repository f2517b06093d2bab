/**
 * Reads what the file carries about its graphs.
 *
 * @import { PageDetails, PageDocument } from "./wire-types.js"
 * @import { Details, GraphDocument } from "./types.js"
 */
import { decodeDetails, decodeDocument } from "./decode-document.js";

/**
 * Which of several graphs an address is about, counted from 0; the first, where it names none that is there.
 *
 * @param {string} hash
 * @returns {number}
 */
export function graphIndexOf(hash) {
  const index = Number(/(?:^#|&)graph=(?<number>\d+)(?:&|$)/.exec(hash)?.groups?.number ?? 1) - 1;
  return scriptsOf("data", index).length ? index : 0;
}

/**
 * @param {number} index of the graph
 * @returns {Promise<GraphDocument>}
 */
export async function readDocument(index) {
  return decodeDocument(/** @type {PageDocument} */ (await unpacked(scriptsOf("data", index)[0])));
}

/** What is known of items beyond what the picture shows: unpacked piece by piece, once it is asked for. */
export class DetailsReader {
  /** @type {Map<number, Details[]|Promise<void>>} */
  #read = new Map();

  /** @param {{index: number}} document of the graph */
  constructor({ index }) {
    this.scripts = scriptsOf("details", index);
    this.itemsInAPiece = Number(this.scripts[0]?.dataset.items ?? 1);
  }

  /**
   * Of one item; null as long as its piece is packed.
   *
   * @param {number} number
   * @returns {Details|null}
   */
  of(number) {
    const piece = this.#read.get(this.#pieceOf(number));
    return Array.isArray(piece) ? piece[number % this.itemsInAPiece] : null;
  }

  /**
   * Unpacks the piece in which an item is.
   *
   * @param {number} number
   */
  async load(number) {
    const at = this.#pieceOf(number);
    if (!this.#read.has(at)) this.#read.set(at, this.#unpack(at));
    await this.#read.get(at);
  }

  /** @param {number} at */
  async #unpack(at) {
    this.#read.set(at, decodeDetails(/** @type {PageDetails[]} */ (await unpacked(this.scripts[at]))));
  }

  /** @param {number} number */
  #pieceOf(number) {
    return Math.floor(number / this.itemsInAPiece);
  }
}

/**
 * @param {"data"|"details"} kind
 * @param {number} index of the graph
 * @returns {HTMLScriptElement[]}
 */
const scriptsOf = (kind, index) => [...document.querySelectorAll(/** @type {"script"} */ (`script.${kind}[data-graph="${index}"]`))];

/** So many letters of base64 become bytes at a time: all of them at once would be a second copy of a large graph. */
const LETTERS = 1 << 18;

/**
 * @param {HTMLScriptElement} script
 * @returns {Promise<unknown>}
 */
function unpacked(script) {
  const packed = script.text;
  let at = 0;
  const bytes = new ReadableStream({
    pull(controller) {
      if (at >= packed.length) return controller.close();
      const letters = atob(packed.slice(at, (at += LETTERS)));
      const piece = new Uint8Array(letters.length);
      for (let index = 0; index < letters.length; index++) piece[index] = letters.charCodeAt(index);
      return controller.enqueue(piece);
    },
  });
  return new Response(bytes.pipeThrough(new DecompressionStream("deflate-raw"))).json();
}
