/**
 * What is searched for: words, ``op:softmax``, ``saved>1MB``, ``nan``, ``/regular expression/``; all of them must fit.
 *
 * @import { SearchableItem } from "./searchable-items.js"
 *
 * @typedef {(item: SearchableItem) => boolean} Filter
 */

/** @type {Record<string, number>} */
const UNITS = { "": 1, b: 1, kb: 1e3, kib: 1024, mb: 1e6, mib: 1024 ** 2, gb: 1e9, gib: 1024 ** 3, s: 1, ms: 1e-3, "µs": 1e-6, us: 1e-6 };
/** @type {Record<string, string>} */
const QUANTITIES = { saved: "memory", memory: "memory", grad: "gradient", gradient: "gradient", time: "time" };
/** @type {Record<string, (a: number, b: number) => boolean>} */
const COMPARE = { ">": (a, b) => a > b, "<": (a, b) => a < b, ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, "=": (a, b) => a === b };
const COMPARISON = /^(?<name>[a-z]+)(?<sign>>=|<=|>|<|=)(?<digits>[\d.eE+-]+)(?<unit>[a-zµ]*)$/i;
const FIELD = /^(?<field>op|name|module|shape|line):(?<text>.+)$/i;

/** The help shows them. */
export const EXAMPLES = [
  { typed: "attn", finds: "names, modules, operations, shapes and lines that have it" },
  { typed: "op:softmax", finds: "operations; also name:, module:, shape:, line:" },
  { typed: "saved>1MB", finds: "what keeps more than that for backward; also grad>10, time>1ms" },
  { typed: "grad=0", finds: "gradients that are zero" },
  { typed: "nan", finds: "gradients with NaN or Inf" },
  { typed: "finding", finds: "what gradviz check found" },
  { typed: "/h\\.\\d+\\.attn/", finds: "a regular expression" },
];

/**
 * @param {string} typed
 * @returns {{fits: Filter, problem: string}} `problem` says what cannot be understood
 */
export function parse(typed) {
  /** @type {Filter[]} */
  const filters = [];
  let problem = "";
  for (const word of typed.match(/\/(?:\\.|[^/\\])+\/|\S+/g) ?? []) {
    try {
      filters.push(filterOf(word));
    } catch (error) {
      problem = `${word}: ${error instanceof Error ? error.message : error}`;
    }
  }
  return { fits: (item) => filters.every((fits) => fits(item)), problem };
}

/**
 * @param {string} word
 * @returns {Filter}
 */
function filterOf(word) {
  const { expression } = /^\/(?<expression>.+)\/$/.exec(word)?.groups ?? {};
  if (expression) {
    const pattern = new RegExp(expression, "i");
    return (item) => pattern.test(item.words);
  }
  const comparison = COMPARISON.exec(word)?.groups;
  if (comparison && QUANTITIES[comparison.name.toLowerCase()]) return comparisonFilter(comparison);
  const { field, text } = FIELD.exec(word)?.groups ?? {};
  if (field) {
    const part = text.toLowerCase();
    const kind = /** @type {"op"|"name"|"module"|"shape"|"line"} */ (field.toLowerCase());
    return (item) => item[kind].includes(part);
  }
  const lower = word.toLowerCase();
  if (lower === "nan" || lower === "inf") return (item) => item.isBroken;
  if (lower === "finding") return (item) => item.hasFinding;
  return (item) => item.words.includes(lower);
}

/**
 * @param {Record<string, string>} comparison
 * @returns {Filter}
 */
function comparisonFilter({ name, sign, digits, unit }) {
  const factor = UNITS[unit.toLowerCase()];
  const limit = Number(digits) * factor;
  if (Number.isNaN(limit)) throw new Error("not a number with a unit such as KB, MiB or ms");
  const quantity = QUANTITIES[name.toLowerCase()];
  return ({ numbers }) => quantity in numbers && COMPARE[sign](numbers[quantity], limit);
}
