/**
 * Words like one that nothing has: for whoever mistyped it, or remembers it only in part.
 *
 * @import { SearchableItem } from "./searchable-items.js"
 *
 * @typedef {"words"|"op"|"name"|"module"|"shape"|"line"} Field
 */

/** Of two words: twice the pairs of letters that they share, over those that they have. */
const MIN_LIKENESS = 0.4;
/** Paths of very many modules: looking through all of them would be felt while typing. */
const MAX_WORDS = 20_000;
const ONE_WORD = /^[\p{L}\p{N}_.:-]+$/u;
const OTHER_SIGNS = /[^\p{L}\p{N}_.-]+/u;
const FIELD = /^(?<field>op|name|module|shape|line):(?<rest>.+)$/i;

export class SimilarWords {
  /**
   * By field: every word that it has in any item, with its pairs of letters.
   *
   * @type {Map<Field, Map<string, Set<string>>>}
   */
  #pairs = new Map();

  /** @param {SearchableItem[]} items */
  constructor(items) {
    this.items = items;
  }

  /**
   * What could be typed instead, the most alike first; nothing where more than one word was typed.
   *
   * @param {string} typed
   * @returns {string[]}
   */
  to(typed) {
    if (!ONE_WORD.test(typed)) return [];
    const { field = "", rest } = FIELD.exec(typed)?.groups ?? { rest: typed };
    const wanted = pairsOf(rest.toLowerCase());
    const similar = [];
    for (const [word, pairs] of this.#pairsIn(/** @type {Field} */ (field.toLowerCase() || "words"))) {
      const alike = likeness(wanted, pairs);
      if (alike >= MIN_LIKENESS) similar.push({ word, alike });
    }
    return similar.sort((one, other) => other.alike - one.alike || one.word.length - other.word.length)
      .map(({ word }) => (field ? `${field}:${word}` : word));
  }

  /**
   * Gathered once it is asked for: it takes longer than a search.
   *
   * @param {Field} field
   */
  #pairsIn(field) {
    const known = this.#pairs.get(field);
    if (known) return known;
    /** @type {Map<string, Set<string>>} */
    const found = new Map();
    for (const item of this.items) {
      if (found.size > MAX_WORDS) break;
      for (const word of item[field].split(OTHER_SIGNS)) if (word.length > 1 && !found.has(word)) found.set(word, pairsOf(word));
    }
    this.#pairs.set(field, found);
    return found;
  }
}

/** @param {string} word */
const pairsOf = (word) => new Set(Array.from({ length: Math.max(0, word.length - 1) }, (_, at) => word.slice(at, at + 2)));

/**
 * @param {Set<string>} one
 * @param {Set<string>} other
 */
function likeness(one, other) {
  let shared = 0;
  for (const pair of one) if (other.has(pair)) shared++;
  return (2 * shared) / (one.size + other.size || 1);
}
