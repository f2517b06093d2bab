/** Lines of Python with their words in colours. */
import { h } from "./dom.js";
import { bar, bytes } from "./parts.js";

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

/** Lines of the program, with what each of them keeps first; a click lights up what it made. */
export function lineParts(model, onLine) {
  const { sources } = model.document;
  const made = itemsByLine(model);
  const kept = new Map((model.document.memory?.lines ?? []).map(({ file, line, bytes: size }) => [`${file}:${line}`, size]));
  const most = Math.max(...kept.values(), 1);
  return Object.keys(sources).filter((file) => made.has(file)).flatMap((file) => {
    const numbers = Object.keys(sources[file]).map(Number).sort((one, other) => one - other);
    const rows = numbers.map((line) =>
      lineRow(sources[file][line], line, made.get(file).get(line), { size: kept.get(`${file}:${line}`) ?? 0, most }, onLine));
    return [h("h3", {}, file.split(/[\\/]/).at(-1)), h("div", { class: "source lines-view" }, rows)];
  });
}

function lineRow(text, line, items, { size, most }, onLine) {
  const words = [h("span", { class: "number" }, String(line)), h("code", {}, coloured(text))];
  if (!items) return h("div", { class: "idle" }, words);
  const title = `${items.length === 1 ? "1 thing is" : `${items.length} things are`} made here${size ? `, and ${bytes(size)} kept for backward` : ""}`;
  return h("button", { type: "button", title, onclick: () => onLine(items, line) }, words, h("span", { class: "cost" }, bar(size, most), size ? bytes(size) : ""));
}

/** By file and line, without boxes and roots: those hold what stands there already. */
function itemsByLine(model) {
  const made = new Map();
  model.items.forEach((item, number) => {
    if (item.role === "box" || item.role === "root" || !item.source || !model.isCurrent(number)) return;
    const [file, line] = item.source;
    if (!made.has(file)) made.set(file, new Map());
    const lines = made.get(file);
    lines.set(line, [...(lines.get(line) ?? []), number]);
  });
  return made;
}
