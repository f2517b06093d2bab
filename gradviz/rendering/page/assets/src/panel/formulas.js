/**
 * Formulas as mathematics: lines such as ``x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)`` become MathML, which browsers draw by themselves.
 *
 * What stands beside one another without a sign is a product of matrices, which binds more than a division does.
 *
 * @typedef {{kind: string, text: string, isJoined: boolean}} Token `isJoined` to the one before it, without a space
 * @typedef {{element: Element, inside?: Element[]}} Operand `inside` is what stands between brackets, if it is that
 */
import { h } from "../shared/dom.js";

const MATHML = "http://www.w3.org/1998/Math/MathML";

/**
 * @param {string} tag
 * @param {...(Node|string)} children
 */
const m = (tag, ...children) => {
  const element = document.createElementNS(MATHML, tag);
  element.append(...children);
  return element;
};

/** A letter may be followed by the macron that stands over it. */
const TOKEN = new RegExp([
  /(?<space>\s+)/, /(?<number>\d+(?:\.\d+)?(?:e[-+]?\d+)?)/, /(?<word>[A-Za-z][A-Za-z0-9_]*[A-Za-z0-9])/, /(?<letter>[\p{Ll}\p{Lu}∞…]\p{M}?)/u, /(?<sub>_(?:\([^()]*\)|[A-Za-z0-9]+)|[₀-₉ₙₖ]+)/, /(?<sup>[′²³ᵀᴴ]+)/,
  /(?<power>\^)/, /(?<open>[([⟨⌊])/, /(?<close>[)\]⟩⌋])/, /(?<prefix>[√Σ])/, /(?<sign>[=+−∘·/<>≤≥≠,:|])/,
].map(({ source }) => source).join("|"), "uy");
const PROSE = new Set("where else if in with at and or not the shape of to summed added is missing".split(" "));
/** @type {Record<string, string>} */
const SUPERSCRIPTS = { "²": "2", "³": "3", "ᵀ": "T", "ᴴ": "H", "′": "′" };

/**
 * What is said of a node's formula or anything else of its step; lines that are mathematics as such.
 *
 * @param {string} heading
 * @param {string[]} lines
 */
export function factBody(heading, lines) {
  if (heading !== "formula") return h("pre", { class: "fact" }, lines.join("\n"));
  return h("div", { class: "formula" }, lines.map((line) => h("p", {}, (/^\S{1,8} = /u.test(line) && typeset(line)) || line)));
}

/**
 * An element; null for a line with signs that nobody knows.
 *
 * @param {string} line
 */
function typeset(line) {
  const tokens = tokensOf(line);
  if (!tokens) return null;
  const math = m("math", ...rowOf(tokens));
  math.setAttribute("alttext", line);
  math.setAttribute("displaystyle", "true");
  return tokens.length ? null : math;
}

/**
 * The words and signs of a formula; null where there is one that nobody knows.
 *
 * @param {string} text
 * @returns {Token[]|null}
 */
export function tokensOf(text) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const from = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match?.groups) return null;
    const { groups } = match;
    const kind = Object.keys(groups).find((each) => groups[each] !== undefined) ?? "";
    tokens.push({ kind, text: match[0], isJoined: from > 0 && text[from - 1] !== " " });
  }
  return tokens.filter(({ kind }) => kind !== "space");
}

/**
 * Takes the next token away.
 *
 * @param {Token[]} tokens
 */
function taken(tokens) {
  const token = tokens.shift();
  if (!token) throw new Error("the formula ends too early");
  return token;
}

/**
 * Everything up to a closing bracket, which is left; takes its tokens away.
 *
 * @param {Token[]} tokens
 * @returns {Element[]}
 */
function rowOf(tokens) {
  /** @type {{operands: Operand[], isFactor: boolean}[]} */
  const row = [];
  /** @type {Operand[]|null} */
  let above = null;
  while (tokens.length && tokens[0].kind !== "close") {
    const [{ kind, text }] = tokens;
    const last = row.at(-1);
    if (text === "/" && last?.isFactor) {
      tokens.shift();
      row.pop();
      above = last.operands;
    } else if (kind === "sign") row.push(single(m("mo", taken(tokens).text)));
    else if (kind === "word" && PROSE.has(text)) row.push(single(proseOf(tokens)));
    else {
      const factor = factorOf(tokens);
      row.push({ operands: above ? [{ element: m("mfrac", bare(above), bare(factor)) }] : factor, isFactor: true });
      above = null;
    }
  }
  return row.flatMap(({ operands }) => operands.map(({ element }) => element));
}

/** @param {Element} element that nothing divides */
const single = (element) => ({ operands: [{ element }], isFactor: false });

/** @param {Token[]} tokens */
function proseOf(tokens) {
  const words = [];
  while (tokens.length && PROSE.has(tokens[0].text)) words.push(taken(tokens).text);
  return m("mtext", `\u00a0${words.join(" ")}\u00a0`);
}

/**
 * What is multiplied without a sign.
 *
 * @param {Token[]} tokens
 * @returns {Operand[]}
 */
function factorOf(tokens) {
  const factor = [operandOf(tokens)];
  const goesOn = () => tokens.length && !["sign", "close", "power"].includes(tokens[0].kind) && !PROSE.has(tokens[0].text);
  while (goesOn()) {
    const space = m("mspace");
    space.setAttribute("width", "0.22em");
    factor.push({ element: space }, operandOf(tokens));
  }
  return factor;
}

/**
 * A fraction needs no brackets around what is above or below its line.
 *
 * @param {Operand[]} factor
 */
function bare(factor) {
  const [{ inside }] = factor;
  return m("mrow", ...(factor.length === 1 && inside ? inside : factor.map(({ element }) => element)));
}

/**
 * @param {Token[]} tokens
 * @returns {Operand}
 */
function operandOf(tokens) {
  const token = taken(tokens);
  if (token.kind === "prefix") return prefixed(token, tokens);
  let operand = token.kind === "open" ? bracket(token, tokens) : leafOf(token);
  // ``f(x)`` and ``w[k]``, but not ``A (B + C)``.
  while (tokens[0]?.kind === "open" && tokens[0].isJoined && token.kind !== "number") {
    operand = { element: m("mrow", operand.element, bracket(taken(tokens), tokens).element) };
  }
  return withScripts(operand, tokens);
}

/**
 * @param {Token} token
 * @returns {Operand}
 */
function leafOf({ kind, text }) {
  const leaf = m(kind === "number" ? "mn" : "mi", text);
  // Browsers slant single letters, but not those with a macron.
  if (kind === "letter" && text.normalize("NFD").length > 1) leaf.setAttribute("class", "barred");
  return { element: leaf };
}

/**
 * @param {Token} token
 * @param {Token[]} tokens
 * @returns {Operand}
 */
function prefixed({ text }, tokens) {
  if (text === "√") return { element: m("msqrt", ...(tokens.length ? [bare([operandOf(tokens)])] : [])) };
  return withScripts({ element: m("mo", text) }, tokens);
}

/**
 * @param {Token} token
 * @param {Token[]} tokens
 * @returns {Operand}
 */
function bracket({ text }, tokens) {
  const inside = rowOf(tokens);
  const close = tokens.shift()?.text ?? "";
  const element = m("mrow", m("mo", text), ...inside, m("mo", close));
  return text === "(" ? { element, inside } : { element };
}

/**
 * @param {Operand} operand
 * @param {Token[]} tokens
 * @returns {Operand}
 */
function withScripts(operand, tokens) {
  let found = operand;
  while (["sub", "sup", "power"].includes(tokens[0]?.kind)) {
    const { kind, text } = taken(tokens);
    if (kind === "power") found = { element: m("msup", found.element, bare([operandOf(tokens)])) };
    else found = { element: m(kind === "sup" ? "msup" : "msub", found.element, scriptOf(kind, text)) };
  }
  return found;
}

/**
 * @param {string} kind
 * @param {string} text
 */
function scriptOf(kind, text) {
  const plain = kind === "sup" ? [...text].map((sign) => SUPERSCRIPTS[sign]).join("") : text.normalize("NFKC").replace(/^_\(?|\)$/g, "");
  const script = m(plain === "′" ? "mo" : /^\d/.test(plain) ? "mn" : "mi", plain);
  if (kind === "sup") script.setAttribute("mathvariant", "normal"); // a T that transposes is no variable
  return script;
}
