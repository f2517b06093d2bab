/**
 * Lines of Python with their words in colours.
 *
 * @import { Model } from "../graph/model.js"
 * @import { Child } from "../shared/dom.js"
 *
 * @typedef {(items: number[], words: string) => void} LightUp items, as if `words` had been searched for
 * @typedef {{size: number, seconds: number, maxSize: number}} Cost of a line, and the largest of all lines
 */
import { h } from "../shared/dom.js";
import { append } from "../shared/group-by.js";
import { bytes, counted, duration } from "../shared/number-words.js";
import { bar } from "./sections.js";

const AROUND = 4;
const WORDS =
  /(?<string>(?:[rbfu]{0,2})(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))|(?<comment>#.*)|(?<number>\b\d[\w.]*)|(?<keyword>\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b)/g;

/**
 * What was recorded of a file around a line; lines in which nothing happened are not known, and are left out.
 *
 * @param {Record<string, string>} lines by their numbers
 * @param {number} wanted
 */
export function sourceAround(lines, wanted) {
  const known = lineNumbers(lines);
  const at = known.indexOf(wanted);
  if (at < 0) return null;
  const shown = known.slice(Math.max(0, at - AROUND), at + AROUND + 1);
  const indent = Math.min(...shown.filter((line) => lines[line].trim()).map((line) => lines[line].search(/\S/)));
  return h("div", { class: "source", tabindex: 0 }, withGaps(shown, (line) =>
    h("div", { class: line === wanted ? "here" : "" }, h("span", { class: "number" }, String(line)), h("code", {}, coloured(lines[line].slice(indent))))));
}

/** @param {Record<string, string>} lines */
const lineNumbers = (lines) => Object.keys(lines).map(Number).sort((one, other) => one - other);

/**
 * A row for each line, and a sign between those that do not follow one another.
 *
 * @param {number[]} lines
 * @param {(line: number) => HTMLElement} rowOf
 */
function withGaps(lines, rowOf) {
  return lines.flatMap((line, at) => (at && line > lines[at - 1] + 1 ? [h("div", { class: "gap" }, "⋯"), rowOf(line)] : [rowOf(line)]));
}

/**
 * A line as text and spans.
 *
 * @param {string} text
 * @returns {Child[]}
 */
export function coloured(text) {
  /** @type {Child[]} */
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(WORDS)) {
    if (match.index > from) parts.push(text.slice(from, match.index));
    const groups = match.groups ?? {};
    parts.push(h("span", { class: Object.keys(groups).find((kind) => groups[kind] !== undefined) }, match[0]));
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

/**
 * The program beside the graph: lines with what they cost; a click lights up what one made.
 *
 * @param {Model} model
 * @param {LightUp} light
 * @param {number|null} selected an item, whose line is marked
 */
export function sourceParts(model, light, selected) {
  const { sources, costs } = model.document;
  const made = itemsByLine(model);
  const byLine = new Map(costs.map((cost) => [`${cost.file}:${cost.line}`, cost]));
  const maxSize = Math.max(...costs.map(({ bytes: size }) => size), 1);
  const own = selected === null ? undefined : model.items[selected].source;
  return Object.keys(sources).flatMap((file) => {
    const items = made.get(file);
    if (!items) return [];
    const rows = withGaps(lineNumbers(sources[file]), (line) => {
      const { bytes: size, seconds } = byLine.get(`${file}:${line}`) ?? { bytes: 0, seconds: 0 };
      const isCurrent = file === own?.file && line === own.line;
      return lineRow(sources[file][line], { line, isCurrent }, items.get(line), { size, seconds, maxSize }, light);
    });
    const head = h("div", { class: "heads" }, h("span", {}, "kept"), h("span", {}, "time"));
    return [h("section", {}, h("h3", {}, file.split(/[\\/]/).at(-1)), h("div", { class: "source lines-view" }, head, rows))];
  });
}

/**
 * @param {string} text
 * @param {{line: number, isCurrent: boolean}} where
 * @param {number[]|undefined} items
 * @param {Cost} cost
 * @param {LightUp} light
 */
function lineRow(text, { line, isCurrent }, items, { size, seconds, maxSize }, light) {
  const words = [
    h("span", { class: "cost" }, bar(size, maxSize), size ? bytes(size) : ""), h("span", { class: "time" }, seconds ? duration(seconds) : ""),
    h("span", { class: "number" }, String(line)), h("code", {}, coloured(text)),
  ];
  if (!items) return h("div", { class: "idle" }, words);
  const title = [`${counted(items.length, "thing")} made here`, size ? `${bytes(size)} kept for backward` : "", seconds ? `${duration(seconds)} in backward` : ""];
  return h("button", { type: "button", title: title.filter(Boolean).join(", "), "data-focus": `line-${line}`, "aria-current": isCurrent ? "true" : null,
    onclick: () => light(items, `line:${line}`) }, words);
}

/**
 * By file and line, without boxes and roots: those hold what stands there already.
 *
 * @param {Model} model
 */
function itemsByLine(model) {
  /** @type {Map<string, Map<number, number[]>>} */
  const made = new Map();
  model.items.forEach((item, number) => {
    if (item.role === "box" || item.role === "root" || !item.source || !model.isCurrent(number)) return;
    const lines = made.get(item.source.file) ?? new Map();
    made.set(item.source.file, lines);
    append(lines, item.source.line, number);
  });
  return made;
}
