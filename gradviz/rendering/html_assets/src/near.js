/** Words like one that nothing has: for whoever mistyped it, or remembers it only in part. */

const MOST_NEAR = 3;
/** Of two words: twice the pairs of letters that they share, over those that they have. */
const LEAST_ALIKE = 0.5;
/** Paths of very many modules: looking through all of them would be felt while typing. */
const MOST_WORDS = 20_000;
const FIELDS = /^(?<field>op|name|module|shape|line):(?<rest>.+)$/i;

/**
 * What could be typed instead, the most alike first; nothing where more than one word was typed.
 *
 * @param {string} typed
 * @param {object[]} entries what `entriesOf` gives
 */
export function nearOf(typed, entries) {
  if (!/^[\p{L}\p{N}_.:-]+$/u.test(typed)) return [];
  const { field, rest } = FIELDS.exec(typed)?.groups ?? { rest: typed };
  const wanted = pairsOf(rest.toLowerCase());
  const near = [];
  for (const word of wordsOf(entries, field?.toLowerCase() ?? "words")) {
    const alike = likeness(wanted, pairsOf(word));
    if (alike >= LEAST_ALIKE) near.push({ word, alike });
  }
  return near.sort((one, other) => other.alike - one.alike || one.word.length - other.word.length).slice(0, MOST_NEAR)
    .map(({ word }) => (field ? `${field}:${word}` : word));
}

function wordsOf(entries, field) {
  const words = new Set();
  for (const entry of entries) {
    if (words.size > MOST_WORDS) break;
    for (const word of entry[field].split(/[^\p{L}\p{N}_.-]+/u)) if (word.length > 1) words.add(word);
  }
  return words;
}

const pairsOf = (word) => new Set(Array.from({ length: Math.max(0, word.length - 1) }, (_, at) => word.slice(at, at + 2)));

function likeness(one, other) {
  let shared = 0;
  for (const pair of one) if (other.has(pair)) shared++;
  return (2 * shared) / (one.size + other.size || 1);
}
