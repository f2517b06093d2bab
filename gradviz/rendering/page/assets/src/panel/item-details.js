/**
 * What the panel says of one item.
 *
 * @import { Details, Item, PageSaved } from "../document/types.js"
 * @import { Model } from "../graph/model.js"
 * @import { Child } from "../shared/dom.js"
 * @import { Go } from "./sections.js"
 */
import { h } from "../shared/dom.js";
import { counted } from "../shared/number-words.js";
import { sidesTable } from "./differences.js";
import { findingParts } from "./findings.js";
import { factBody } from "./formulas.js";
import { gradientParts, ofTheFirst } from "./item-gradients.js";
import { itemButton, itemLink, lines, section } from "./sections.js";
import { coloured, sourceAround } from "./source-code.js";

const MAX_NEIGHBOURS = 30;
const FIGURES = [{ by: "gradient", name: "gradient norm" }, { by: "memory", name: "kept for backward" }, { by: "time", name: "engine time" }];

/**
 * @param {Model} model
 * @param {number} number
 * @param {Details|null} details null while they are packed
 * @param {{from: number[], to: number[]}} around its neighbours in the picture
 * @param {Go} go
 * @returns {Child[]}
 */
export function itemDetails(model, number, details, { from, to }, go) {
  const item = model.items[number];
  const findings = (details?.findings ?? []).map((index) => model.document.findings[index]);
  return [
    figures(item),
    findings.length ? section("findings", findingParts(findings)) : null,
    sidesTable(details?.sides, item.repeat ?? 1),
    codeOf(model, item, details),
    details?.formula ? section(details.formula.heading, [factBody(details.formula.heading, details.formula.lines)]) : null,
    neighbours(model, "takes data from", from, "and sends its gradient there", go),
    neighbours(model, "gives data to", to, "and gets its gradient from there", go),
    ...(details ? unpackedParts(model, details, go) : [h("p", { class: "quiet" }, "…")]),
  ];
}

/**
 * @param {Model} model
 * @param {Details} details
 * @param {Go} go
 * @returns {Child[]}
 */
function unpackedParts(model, details, go) {
  const { norms = [], saved = [], sections = [] } = details;
  return [
    ...gradientParts(model, details, go),
    saved.length ? section("saved for backward", [...ofTheFirst(norms), ...saved.map((each) => savedTensor(model, each, go))]) : null,
    ...sections.map(({ heading, lines: told }) => section(heading, [lines(told.map(withQuietName))])),
  ];
}

/** @param {Item} item */
function figures({ figures: measured = {} }) {
  const told = FIGURES.filter(({ by }) => measured[by]);
  if (!told.length) return null;
  return h("dl", { class: "figures" }, told.map(({ by, name }) => h("div", {}, h("dt", {}, name), h("dd", {}, measured[by]))));
}

/**
 * The line that made it, in its context, and those above it.
 *
 * @param {Model} model
 * @param {Item} item
 * @param {Details|null} details
 */
function codeOf({ document: { sources } }, item, details) {
  const code = item.source && sources[item.source.file] && sourceAround(sources[item.source.file], item.source.line);
  if (!code) return null;
  const above = (details?.callers ?? []).map(({ file, line }) => callerRow(file, line, sources[file]?.[line] ?? ""));
  const beside = item.link ? h("a", { href: item.link, class: "edit" }, "open in editor") : null;
  return section(item.line ?? "", [code, above.length ? h("div", { class: "source callers", tabindex: 0 }, above) : null], { beside });
}

/**
 * @param {string} file
 * @param {number} line
 * @param {string} text
 */
const callerRow = (file, line, text) =>
  h("div", {}, h("span", { class: "quiet" }, `from ${file.split(/[\\/]/).at(-1)}:${line}`), h("code", {}, coloured(text.trim())));

/**
 * @param {Model} model
 * @param {string} heading
 * @param {number[]} numbers
 * @param {string} title
 * @param {Go} go
 */
function neighbours(model, heading, numbers, title, go) {
  if (!numbers.length) return null;
  const rows = numbers.slice(0, MAX_NEIGHBOURS).map((number) => h("li", {}, itemButton(model, number, go)));
  if (numbers.length > MAX_NEIGHBOURS) rows.push(h("li", { class: "quiet" }, `and ${numbers.length - MAX_NEIGHBOURS} more`));
  return section(heading, [h("ul", { class: "neighbours" }, rows)], { title });
}

/**
 * A slot with its size, and what else keeps the same memory.
 *
 * @param {Model} model
 * @param {PageSaved} saved
 * @param {Go} go
 */
function savedTensor(model, { slot, facts = [], shared_with: shared = [], sharing = 0 }, go) {
  const links = shared.flatMap((node) => model.itemOfNode(node) ?? []).map((number) => itemLink(model, number, go));
  const more = sharing - links.length;
  const others = [...links, more > 0 ? h("span", { class: "quiet" }, `${links.length ? "and " : ""}${counted(more, links.length ? "other" : "other node")}`) : null];
  return h("div", { class: "saved" },
    h("p", {}, h("b", {}, slot), h("span", { class: "quiet" }, ` ${facts.join(" · ")}`)),
    sharing ? h("p", {}, h("span", { class: "quiet" }, "the same memory is kept by "), others) : null);
}

/**
 * ``name: value`` with the name quiet.
 *
 * @param {string} line
 * @returns {Child[]}
 */
function withQuietName(line) {
  const { name, sign } = /^(?<name>[^:=]{1,40})(?<sign> = |: )/.exec(line)?.groups ?? {};
  return name ? [h("span", { class: "quiet" }, name + sign), line.slice(name.length + sign.length)] : [line];
}
