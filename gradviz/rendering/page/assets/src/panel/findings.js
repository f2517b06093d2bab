/**
 * What a check found: verdict, reason, and what to do.
 *
 * @import { PageFinding } from "../document/types.js"
 * @import { Model } from "../graph/model.js"
 * @import { Child } from "../shared/dom.js"
 * @import { Go } from "./sections.js"
 */
import { h } from "../shared/dom.js";
import { itemButton } from "./sections.js";

const MAX_ITEMS = 8;

/** @param {PageFinding[]} findings */
export function findingParts(findings) {
  return findings.map((finding) => article(finding));
}

/**
 * All of a graph; each with the items that it is about.
 *
 * @param {Model} model
 * @param {Go} go
 * @param {number|null} selected
 */
export function findingList(model, go, selected) {
  return model.document.findings.map((finding) => {
    const items = [...new Set(finding.nodes.flatMap((node) => model.itemOfNode(node) ?? []))];
    if (!items.length) return article(finding, [h("p", { class: "quiet" }, "about nothing that is in the picture")]);
    /** @type {Child[]} */
    const buttons = items.slice(0, MAX_ITEMS).map((number) => itemButton(model, number, go, { isCurrent: number === selected }));
    if (items.length > MAX_ITEMS) buttons.push(h("p", { class: "quiet" }, `and ${(items.length - MAX_ITEMS).toLocaleString("en")} more`));
    return article(finding, buttons);
  });
}

/**
 * @param {PageFinding} finding
 * @param {Child[]} [items]
 */
const article = (finding, items = []) =>
  h("article", { class: "finding", "data-severity": finding.severity }, told(finding), items);

/** @param {PageFinding} finding */
function told({ severity, code, cause, message, why, fix }) {
  return [
    h("p", { class: "verdict" }, h("b", {}, `${severity} ${code} ${cause}`)),
    h("p", {}, message),
    why ? h("p", {}, h("span", { class: "quiet" }, "why "), why) : null,
    fix ? h("p", {}, h("span", { class: "quiet" }, "do "), fix) : null,
  ];
}
