/**
 * What is searched for: words, ``op:softmax``, ``saved>1MB``, ``nan``, ``/regular expression/``; all of them must fit.
 */

const UNITS = { "": 1, b: 1, kb: 1e3, kib: 1024, mb: 1e6, mib: 1024 ** 2, gb: 1e9, gib: 1024 ** 3, s: 1, ms: 1e-3, "µs": 1e-6, us: 1e-6 };
const QUANTITIES = { saved: "memory", memory: "memory", grad: "gradient", gradient: "gradient", time: "time" };
const COMPARE = { ">": (a, b) => a > b, "<": (a, b) => a < b, ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, "=": (a, b) => a === b };

/** Each line: what is typed, what it finds. The help shows them. */
export const EXAMPLES = [
  ["attn", "names, modules, operations, shapes and lines that have it"],
  ["op:softmax", "operations; also name:, module:, shape:, line:"],
  ["saved>1MB", "what keeps more than that for backward; also grad>10, time>1ms"],
  ["grad=0", "gradients that are zero"],
  ["nan", "gradients with NaN or Inf"],
  ["finding", "what gradviz check found"],
  ["/h\\.\\d+\\.attn/", "a regular expression"],
];

/**
 * @param {string} typed
 * @returns {{fits: (entry: object) => boolean, problem: string}} `problem` says what cannot be understood
 */
export function parse(typed) {
  const terms = [];
  let problem = "";
  for (const word of typed.match(/\/(?:\\.|[^/\\])+\/|\S+/g) ?? []) {
    try {
      terms.push(termOf(word));
    } catch (error) {
      problem = `${word}: ${error.message}`;
    }
  }
  return { fits: (entry) => terms.every((fits) => fits(entry)), problem };
}

function termOf(word) {
  const expression = /^\/(.+)\/$/.exec(word);
  if (expression) {
    const pattern = new RegExp(expression[1], "i");
    return (entry) => pattern.test(entry.words);
  }
  const comparison = /^([a-z]+)(>=|<=|>|<|=)([\d.eE+-]+)([a-zµ]*)$/i.exec(word);
  if (comparison && QUANTITIES[comparison[1].toLowerCase()]) return measuredTerm(comparison);
  const field = /^(op|name|module|shape|line):(.+)$/i.exec(word);
  if (field) {
    const [kind, text] = [field[1].toLowerCase(), field[2].toLowerCase()];
    return (entry) => entry[kind].includes(text);
  }
  const lower = word.toLowerCase();
  if (lower === "nan" || lower === "inf") return (entry) => entry.isBroken;
  if (lower === "finding") return (entry) => entry.hasFinding;
  return (entry) => entry.words.includes(lower);
}

function measuredTerm([, name, sign, digits, unit]) {
  const factor = UNITS[unit.toLowerCase()];
  const limit = Number(digits) * factor;
  if (Number.isNaN(limit)) throw new Error("not a number with a unit such as KB, MiB or ms");
  const quantity = QUANTITIES[name.toLowerCase()];
  return ({ numbers }) => quantity in numbers && COMPARE[sign](numbers[quantity], limit);
}

/** What `parse` looks at, for every item. */
export function entriesOf(model) {
  return model.items.flatMap((item, number) => {
    if (model.shownAs(number) !== number) return [];
    const names = (item.names ?? []).join("\n").toLowerCase();
    const path = (item.path ?? "").toLowerCase();
    const op = [item.is_leaf ? "" : item.title, item.subtitle ?? ""].join("\n").toLowerCase();
    const shape = (item.shape_words ?? "").toLowerCase();
    const line = (item.line ?? "").toLowerCase();
    const variable = (item.lines ?? []).map((each) => each.text).join("\n").toLowerCase();
    const module = model.canOpen(number) || path ? `${path}\n${names}` : modulesAround(model, number);
    return [{
      number, op, shape, line, module, name: [item.title.toLowerCase(), names, variable].join("\n"),
      words: [item.title.toLowerCase(), op, names, path, shape, line, variable].join("\n"),
      numbers: item.numbers ?? {},
      isBroken: (item.tints?.gradient ?? []).includes("broken"),
      hasFinding: Boolean(item.finding),
    }];
  });
}

function modulesAround(model, number) {
  return (model.boxesAround(number).map((box) => model.items[box].path ?? "").at(-1) ?? "").toLowerCase();
}
