/**
 * What differs between two runs that are drawn as one graph: a list of it, and the facts of both runs about one item.
 *
 * @import { PageSides } from "../document/types.js"
 * @import { Model } from "../graph/model.js"
 * @import { Child } from "../shared/dom.js"
 * @import { Go } from "./sections.js"
 */
import { h } from "../shared/dom.js";
import { itemButton, section } from "./sections.js";

const MAX_STOPS = 300;

/**
 * Every difference, in the order of the computation.
 *
 * @param {Model} model
 * @param {Go} go
 * @param {number|null} selected
 * @returns {Child[]}
 */
export function differenceList(model, go, selected) {
  const { stops = [] } = model.document.difference ?? {};
  const rows = stops.slice(0, MAX_STOPS).map(({ item, words, reason, is_first: isFirst }) =>
    h("article", { class: "difference", "data-first": isFirst ? "" : null },
      itemButton(model, item, go, { isCurrent: item === selected }),
      h("p", {}, h("b", {}, isFirst ? `✗ ${words}` : words), reason ? h("span", { class: "quiet" }, ` ${reason}`) : null)));
  const more = stops.length - rows.length;
  return [
    h("p", { class: "hint" }, h("kbd", {}, "d"), " goes to the next one, ", h("kbd", {}, "D"), " to the one before."),
    ...rows,
    more > 0 ? h("p", { class: "quiet" }, `and ${more.toLocaleString("en")} more`) : null,
  ];
}

/**
 * What the two runs are called, and in a sentence what differs.
 *
 * @param {Model} model
 * @returns {Child}
 */
export function differenceSummary(model) {
  const { difference } = model.document;
  if (!difference) return null;
  return section("two runs", [
    h("p", {}, h("b", {}, difference.sentence)),
    h("dl", { class: "runs" }, [["A", difference.a], ["B", difference.b]].map(([side, name]) => h("div", {}, h("dt", {}, side), h("dd", {}, name)))),
  ]);
}

/**
 * The facts about one item in both runs; what is not the same stands out.
 *
 * @param {PageSides[]|undefined} sides
 * @param {number} repeat how many alike the item stands for
 */
export function sidesTable(sides, repeat) {
  if (!sides?.length) return null;
  const rows = sides.filter(({ a, b }) => a || b);
  const together = sides.filter(({ a, b }) => !a && !b);
  return section(repeat > 1 ? `in both runs (the first of ${repeat.toLocaleString("en")})` : "in both runs", [
    h("table", { class: "sides" },
      h("thead", {}, h("tr", {}, h("th", {}, ""), h("th", {}, "A"), h("th", {}, "B"))),
      h("tbody", {}, rows.map(sideRow))),
    ...together.map(({ what }) => h("p", { class: "quiet" }, what)),
  ]);
}

/** @param {PageSides} row */
function sideRow({ what, a, b }) {
  const differs = a !== b;
  return h("tr", { class: differs ? "differs" : null },
    h("th", { scope: "row" }, differs ? h("span", { class: "sign", title: "not the same" }, "≠ ") : null, what), h("td", {}, a), h("td", {}, b));
}
