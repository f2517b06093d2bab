/** What the panel says of one item. */
import { h } from "./dom.js";
import { findingParts } from "./findings.js";
import { gradientParts, ofTheFirst } from "./gradients.js";
import { factBody } from "./mathematics.js";
import { counted, itemButton, itemLink, lines, section } from "./parts.js";
import { coloured, sourceAround } from "./source.js";

const MOST_NEIGHBOURS = 30;
const FIGURES = { gradient: "gradient norm", memory: "kept for backward", time: "engine time" };

/**
 * @param {object|null} details null while they are packed
 * @param {{from: number[], to: number[]}} around its neighbours in the picture
 */
export function aboutItem(model, number, details, { from, to }, actions) {
  const item = model.items[number];
  const { select: go } = actions;
  const findings = (details?.findings ?? []).map((place) => model.document.findings[place]);
  return [
    figures(item),
    findings.length ? section("findings", findingParts(findings)) : null,
    codeOf(model, item, details?.callers),
    details?.formula ? section(details.formula.heading, [factBody(details.formula.heading, details.formula.lines)]) : null,
    neighbours(model, "takes data from", from, "and sends its gradient there", go),
    neighbours(model, "gives data to", to, "and gets its gradient from there", go),
    ...(details ? [
      ...gradientParts(model, details, go),
      details.saved?.length ? section("saved for backward", [...ofTheFirst(details.norms ?? []), ...details.saved.map((each) => savedTensor(model, each, go))]) : null,
      ...(details.sections ?? []).map(({ heading, lines: told }) => section(heading, lines(told.map(withQuietName)))),
    ] : [h("p", { class: "quiet" }, "…")]),
  ].filter(Boolean);
}

function figures(item) {
  const told = Object.entries(FIGURES).filter(([by]) => item.figures?.[by]);
  if (!told.length) return null;
  return h("dl", { class: "figures" }, told.map(([by, name]) => h("div", {}, h("dt", {}, name), h("dd", {}, item.figures[by]))));
}

/** The line that made it, in its context, and those above it. */
function codeOf({ document: { sources } }, item, callers = []) {
  const code = item.source && sources[item.source[0]] && sourceAround(sources[item.source[0]], item.source[1]);
  if (!code) return null;
  const above = callers.map(([file, line]) => callerRow(file, line, sources[file]?.[line] ?? ""));
  const beside = item.link ? h("a", { href: item.link, class: "edit" }, "open in editor") : null;
  return section(item.line, [code, above.length ? h("div", { class: "source callers", tabindex: 0 }, above) : null], { beside });
}

const callerRow = (file, line, text) =>
  h("div", {}, h("span", { class: "quiet" }, `from ${file.split(/[\\/]/).at(-1)}:${line}`), h("code", {}, coloured(text.trim())));

function neighbours(model, heading, numbers, title, go) {
  if (!numbers.length) return null;
  const rows = numbers.slice(0, MOST_NEIGHBOURS).map((number) => h("li", {}, itemButton(model, number, go)));
  if (numbers.length > MOST_NEIGHBOURS) rows.push(h("li", { class: "quiet" }, `and ${numbers.length - MOST_NEIGHBOURS} more`));
  return section(heading, [h("ul", { class: "neighbours" }, rows)], { title });
}

/** A slot with its size, and what else keeps the same memory. */
function savedTensor(model, { slot, facts = [], shared_with: shared = [], sharing = 0 }, go) {
  const links = shared.flatMap((node) => model.itemOfNode(node) ?? []).map((number) => itemLink(model, number, go));
  const more = sharing - links.length;
  const others = [...links, more > 0 ? h("span", { class: "quiet" }, `${links.length ? "and " : ""}${counted(more, links.length ? "other" : "other node")}`) : null];
  return h("div", { class: "saved" },
    h("p", {}, h("b", {}, slot), h("span", { class: "quiet" }, ` ${facts.join(" · ")}`)),
    sharing ? h("p", {}, h("span", { class: "quiet" }, "the same memory is kept by "), others) : null);
}

/** ``name: value`` with the name quiet. */
function withQuietName(line) {
  const [, name, rest] = /^([^:=]{1,40})( = |: )/.exec(line) ?? [];
  return name ? [h("span", { class: "quiet" }, name + rest), line.slice(name.length + rest.length)] : line;
}
