/**
 * The backward calls of the recording side by side, and what changed from one to the next.
 *
 * @import { PageChange } from "../document/wire-types.js"
 * @import { Model } from "../graph/model.js"
 * @import { Go } from "./sections.js"
 */
import { h } from "../shared/dom.js";
import { breakable, section } from "./sections.js";

/**
 * The graphs of the page; below the one that is shown, what differs from the one before it.
 *
 * @param {Model} model
 * @param {(index: number) => void} turnTo another graph
 * @param {Go} go to an item of this one
 */
export function callParts(model, turnTo, go) {
  const { calls, index: shown } = model.document;
  return calls.flatMap(({ title, location: line, size }, index) => {
    const isShown = index === shown;
    const words = [h("b", {}, title), h("span", { class: "quiet" }, [line, size].filter(Boolean).join(" · "))];
    const row = h("button", { type: "button", class: "call", "data-focus": `call-${index}`, "aria-current": isShown ? "true" : null,
      onclick: () => !isShown && turnTo(index) }, words);
    return isShown && index ? [row, changeParts(model, calls[index - 1].title, go)] : [row];
  });
}

/**
 * @param {Model} model
 * @param {string} before what the earlier graph is called
 * @param {Go} go
 */
function changeParts(model, before, go) {
  const { changes } = model.document;
  if (!changes.length) return h("p", { class: "changes quiet" }, `The same operations and figures as in ${before}.`);
  return h("div", { class: "changes" }, changes.map(({ heading, rows, more }) => section(heading, [
    h("table", { class: "parameters" },
      h("thead", {}, h("tr", {}, h("th", {}, ""), h("th", {}, `in ${before.replace(/^.* (?=no\.)/, "")}`), h("th", {}, "here"))),
      h("tbody", {}, rows.map((row) => changeRow(model, row, go)))),
    more ? h("p", { class: "quiet" }, `and ${more.toLocaleString("en")} more`) : null,
  ])));
}

/**
 * @param {Model} model
 * @param {PageChange} change
 * @param {Go} go
 */
function changeRow(model, { what, then, now, node }, go) {
  const item = model.itemOfNode(node);
  const name = item === undefined ? breakable(what) : h("button", { type: "button", "data-focus": `change-${what}`, onclick: () => go(item) }, breakable(what));
  return h("tr", {}, h("td", {}, name), h("td", { class: "figure" }, then), h("td", { class: "figure" }, now));
}
