/** Lines of Python with their words in colours. */
import { h } from "./dom.js";

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
