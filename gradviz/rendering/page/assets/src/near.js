/** Words like one that nothing has: for whoever mistyped it, or remembers it only in part. */

/** Of two words: twice the pairs of letters that they share, over those that they have. */
const LEAST_ALIKE = 0.4;
/** Paths of very many modules: looking through all of them would be felt while typing. */
const MOST_WORDS = 20_000;
const ONE_WORD = /^[\p{L}\p{N}_.:-]+$/u;
const OTHER_SIGNS = /[^\p{L}\p{N}_.-]+/u;
const FIELD = /^(?<field>op|name|module|shape|line):(?<rest>.+)$/i;

export class NearWords {
  /** By field: every word that it has in any entry, with its pairs of letters. */
  #pairs = new Map();

  /** @param {object[]} entries what `entriesOf` gives */
  constructor(entries) {
    this.entries = entries;
  }

  /** What could be typed instead, the most alike first; nothing where more than one word was typed. */
  to(typed) {
    if (!ONE_WORD.test(typed)) return [];
    const { field = "", rest } = FIELD.exec(typed)?.groups ?? { rest: typed };
    const wanted = pairsOf(rest.toLowerCase());
    const near = [];
    for (const [word, pairs] of this.#pairsIn(field.toLowerCase() || "words")) {
      const alike = likeness(wanted, pairs);
      if (alike >= LEAST_ALIKE) near.push({ word, alike });
    }
    return near.sort((one, other) => other.alike - one.alike || one.word.length - other.word.length)
      .map(({ word }) => (field ? `${field}:${word}` : word));
  }

  /** Gathered once it is asked for: it takes longer than a search. */
  #pairsIn(field) {
    if (!this.#pairs.has(field)) {
      const found = new Map();
      for (const entry of this.entries) {
        if (found.size > MOST_WORDS) break;
        for (const word of entry[field].split(OTHER_SIGNS)) if (word.length > 1 && !found.has(word)) found.set(word, pairsOf(word));
      }
      this.#pairs.set(field, found);
    }
    return this.#pairs.get(field);
  }
}

const pairsOf = (word) => new Set(Array.from({ length: Math.max(0, word.length - 1) }, (_, at) => word.slice(at, at + 2)));

function likeness(one, other) {
  let shared = 0;
  for (const pair of one) if (other.has(pair)) shared++;
  return (2 * shared) / (one.size + other.size || 1);
}
