/** What a check found: verdict, reason, and what to do. */
import { h } from "./dom.js";
import { itemButton } from "./parts.js";

const MOST_PLACES = 8;

/** @param {object[]} findings of the document */
export function findingParts(findings) {
  return findings.map((finding) => article(finding));
}

/** All of a graph; each with the places that it is about. */
export function findingList(model, go, selected) {
  return model.document.findings.map((finding) => {
    const items = [...new Set(finding.nodes.flatMap((node) => model.itemOfNode(node) ?? []))];
    if (!items.length) return article(finding, [h("p", { class: "quiet" }, "about nothing that is in the picture")]);
    const places = items.slice(0, MOST_PLACES).map((number) => itemButton(model, number, go, { isCurrent: number === selected }));
    if (items.length > MOST_PLACES) places.push(h("p", { class: "quiet" }, `and ${(items.length - MOST_PLACES).toLocaleString("en")} more`));
    return article(finding, places);
  });
}

const article = (finding, places = []) =>
  h("article", { class: "finding", "data-severity": finding.severity }, told(finding), places);

function told({ severity, code, cause, message, why, fix }) {
  return [
    h("p", { class: "verdict" }, h("b", {}, `${severity} ${code} ${cause}`)),
    h("p", {}, message),
    why ? h("p", {}, h("span", { class: "quiet" }, "why "), why) : null,
    fix ? h("p", {}, h("span", { class: "quiet" }, "do "), fix) : null,
  ];
}
