/** Lines of Python with their words in colours. */
import { h } from "./dom.js";
import { bar, bytes, counted, duration } from "./parts.js";

const AROUND = 4;
const WORDS =
  /(?<string>(?:[rbfu]{0,2})(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))|(?<comment>#.*)|(?<number>\b\d[\w.]*)|(?<keyword>\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b)/g;

/** What was recorded of a file around a line; lines in which nothing happened are not known, and are left out. */
export function sourceAround(lines, wanted) {
  const known = Object.keys(lines).map(Number).sort((one, other) => one - other);
  const at = known.indexOf(wanted);
  if (at < 0) return null;
  const shown = known.slice(Math.max(0, at - AROUND), at + AROUND + 1);
  const indent = Math.min(...shown.filter((line) => lines[line].trim()).map((line) => /^\s*/.exec(lines[line])[0].length));
  const rows = [];
  shown.forEach((line, place) => {
    if (place && line > shown[place - 1] + 1) rows.push(h("div", { class: "gap" }, "⋯"));
    rows.push(h("div", { class: line === wanted ? "here" : "" }, h("span", { class: "number" }, String(line)), h("code", {}, coloured(lines[line].slice(indent)))));
  });
  return h("div", { class: "source", tabindex: 0 }, rows);
}

/** A line as text and spans. */
export function coloured(text) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(WORDS)) {
    if (match.index > from) parts.push(text.slice(from, match.index));
    const [kind] = Object.entries(match.groups).find(([, value]) => value !== undefined);
    parts.push(h("span", { class: kind }, match[0]));
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

/**
 * The program beside the graph: lines with what they cost; a click lights up what one made.
 *
 * @param {(items: number[], words: string) => void} light
 * @param {number|null} selected an item, whose line is marked
 */
export function sourceParts(model, light, selected) {
  const { sources, costs } = model.document;
  const made = itemsByLine(model);
  const byLine = new Map(costs.map((cost) => [`${cost.file}:${cost.line}`, cost]));
  const most = Math.max(...costs.map(({ bytes: size }) => size), 1);
  const [ownFile, ownLine] = (selected !== null && model.items[selected].source) || [];
  return Object.keys(sources).filter((file) => made.has(file)).map((file) => {
    const numbers = Object.keys(sources[file]).map(Number).sort((one, other) => one - other);
    const rows = numbers.flatMap((line, place) => {
      const cost = byLine.get(`${file}:${line}`) ?? { bytes: 0, seconds: 0 };
      const isCurrent = file === ownFile && line === ownLine;
      const row = lineRow(sources[file][line], { line, isCurrent }, made.get(file).get(line), { ...cost, most }, light);
      return place && line > numbers[place - 1] + 1 ? [h("div", { class: "gap" }, "⋯"), row] : [row];
    });
    const head = h("div", { class: "heads" }, h("span", {}, "kept"), h("span", {}, "time"));
    return h("section", {}, h("h3", {}, file.split(/[\\/]/).at(-1)), h("div", { class: "source lines-view" }, head, rows));
  });
}

function lineRow(text, { line, isCurrent }, items, { bytes: size, seconds, most }, light) {
  const words = [
    h("span", { class: "cost" }, bar(size, most), size ? bytes(size) : ""), h("span", { class: "time" }, seconds ? duration(seconds) : ""),
    h("span", { class: "number" }, String(line)), h("code", {}, coloured(text)),
  ];
  if (!items) return h("div", { class: "idle" }, words);
  const title = [`${counted(items.length, "thing")} made here`, size ? `${bytes(size)} kept for backward` : "", seconds ? `${duration(seconds)} in backward` : ""];
  return h("button", { type: "button", title: title.filter(Boolean).join(", "), "data-focus": `line-${line}`, "aria-current": isCurrent ? "true" : null,
    onclick: () => light(items, `line:${line}`) }, words);
}

/** By file and line, without boxes and roots: those hold what stands there already. */
function itemsByLine(model) {
  const made = new Map();
  model.items.forEach((item, number) => {
    if (item.role === "box" || item.role === "root" || !item.source || !model.isCurrent(number)) return;
    const [file, line] = item.source;
    if (!made.has(file)) made.set(file, new Map());
    const lines = made.get(file);
    if (!lines.has(line)) lines.set(line, []);
    lines.get(line).push(number);
  });
  return made;
}
