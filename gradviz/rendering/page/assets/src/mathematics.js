/**
 * Formulas as mathematics: lines such as ``x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)`` become MathML, which browsers draw by themselves.
 *
 * What stands beside one another without a sign is a product of matrices, which binds more than a division does.
 */
import { h } from "./dom.js";

const MATHML = "http://www.w3.org/1998/Math/MathML";
const m = (tag, ...children) => {
  const element = document.createElementNS(MATHML, tag);
  element.append(...children);
  return element;
};

/** A letter may be followed by the macron that stands over it. */
const TOKEN = new RegExp([
  /(?<space>\s+)/, /(?<number>\d+(?:\.\d+)?(?:e[-+]?\d+)?)/, /(?<word>[A-Za-z][A-Za-z0-9_]*[A-Za-z0-9])/, /(?<letter>[\p{Ll}\p{Lu}∞…]\p{M}?)/, /(?<sub>_(?:\([^()]*\)|[A-Za-z0-9]+)|[₀-₉ₙₖ]+)/, /(?<sup>[′²³ᵀᴴ]+)/,
  /(?<power>\^)/, /(?<open>[([⟨⌊])/, /(?<close>[)\]⟩⌋])/, /(?<prefix>[√Σ])/, /(?<sign>[=+−∘·/<>≤≥≠,:|])/,
].map(({ source }) => source).join("|"), "uy");
const PROSE = new Set("where else if in with at and or not the shape of to summed added is missing".split(" "));
const SUPERSCRIPTS = { "²": "2", "³": "3", "ᵀ": "T", "ᴴ": "H", "′": "′" };

/** What is said of a node's formula or anything else of its step; lines that are mathematics as such. */
export function factBody(heading, lines) {
  if (heading !== "formula") return h("pre", { class: "fact" }, lines.join("\n"));
  return h("div", { class: "formula" }, lines.map((line) => h("p", {}, (/^\S{1,8} = /u.test(line) && typeset(line)) || line)));
}

/** An element; null for a line with signs that nobody knows. */
function typeset(line) {
  const tokens = tokensOf(line);
  if (!tokens) return null;
  const math = m("math", ...rowOf(tokens));
  math.setAttribute("alttext", line);
  math.setAttribute("displaystyle", "true");
  return tokens.length ? null : math;
}

function tokensOf(text) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const from = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) return null;
    const [kind] = Object.entries(match.groups).find(([, value]) => value !== undefined);
    tokens.push({ kind, text: match[0], isJoined: from > 0 && text[from - 1] !== " " });
  }
  return tokens.filter(({ kind }) => kind !== "space");
}

/** Everything up to a closing bracket, which is left; takes its tokens away. */
function rowOf(tokens) {
  const row = [];
  let above = null;
  while (tokens.length && tokens[0].kind !== "close") {
    const [{ kind, text }] = tokens;
    if (text === "/" && row.at(-1)?.factor) {
      tokens.shift();
      above = row.pop();
    } else if (kind === "sign") row.push(m("mo", tokens.shift().text));
    else if (kind === "word" && PROSE.has(text)) row.push(proseOf(tokens));
    else {
      const factor = factorOf(tokens);
      row.push(above ? { factor: [m("mfrac", bare(above.factor), bare(factor))] } : { factor });
      above = null;
    }
  }
  return row.flatMap((each) => each.factor ?? [each]);
}

function proseOf(tokens) {
  const words = [];
  while (tokens.length && PROSE.has(tokens[0].text)) words.push(tokens.shift().text);
  return m("mtext", `\u00a0${words.join(" ")}\u00a0`);
}

/** What is multiplied without a sign. */
function factorOf(tokens) {
  const factor = [operandOf(tokens)];
  const goesOn = () => tokens.length && !["sign", "close", "power"].includes(tokens[0].kind) && !PROSE.has(tokens[0].text);
  while (goesOn()) {
    const space = m("mspace");
    space.setAttribute("width", "0.22em");
    factor.push(space, operandOf(tokens));
  }
  return factor;
}

/** A fraction needs no brackets around what is above or below its line. */
function bare(factor) {
  return factor.length === 1 && factor[0].inside ? m("mrow", ...factor[0].inside) : m("mrow", ...factor);
}

function operandOf(tokens) {
  const token = tokens.shift();
  if (token.kind === "prefix") return prefixed(token, tokens);
  let operand = token.kind === "open" ? bracket(token, tokens) : leafOf(token);
  // ``f(x)`` and ``w[k]``, but not ``A (B + C)``.
  while (tokens[0]?.kind === "open" && tokens[0].isJoined && token.kind !== "number") operand = m("mrow", operand, bracket(tokens.shift(), tokens));
  return withScripts(operand, tokens);
}

function leafOf({ kind, text }) {
  const leaf = m(kind === "number" ? "mn" : "mi", text);
  // Browsers slant single letters, but not those with a macron.
  if (kind === "letter" && text.normalize("NFD").length > 1) leaf.setAttribute("class", "barred");
  return leaf;
}

function prefixed({ text }, tokens) {
  if (text === "√") return m("msqrt", ...(tokens.length ? [bare([operandOf(tokens)])] : []));
  return withScripts(m("mo", text), tokens);
}

function bracket({ text }, tokens) {
  const inside = rowOf(tokens);
  const close = tokens.shift()?.text ?? "";
  const group = m("mrow", m("mo", text), ...inside, m("mo", close));
  if (text === "(") group.inside = inside;
  return group;
}

function withScripts(operand, tokens) {
  let found = operand;
  while (["sub", "sup", "power"].includes(tokens[0]?.kind)) {
    const { kind, text } = tokens.shift();
    if (kind === "power") found = m("msup", found, bare([operandOf(tokens)]));
    else found = m(kind === "sup" ? "msup" : "msub", found, scriptOf(kind, text));
  }
  return found;
}

function scriptOf(kind, text) {
  const plain = kind === "sup" ? [...text].map((sign) => SUPERSCRIPTS[sign]).join("") : text.normalize("NFKC").replace(/^_\(?|\)$/g, "");
  const script = m(plain === "′" ? "mo" : /^\d/.test(plain) ? "mn" : "mi", plain);
  if (kind === "sup") script.setAttribute("mathvariant", "normal"); // a T that transposes is no variable
  return script;
}
