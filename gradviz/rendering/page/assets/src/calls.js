/** The backward calls of the recording side by side, and what changed from one to the next. */
import { h } from "./dom.js";
import { breakable, section } from "./parts.js";

/**
 * The graphs of the page; below the one that is shown, what differs from the one before it.
 *
 * @param {(place: number) => void} turnTo another graph
 * @param {(number: number) => void} go to an item of this one
 */
export function callParts(model, turnTo, go) {
  const { calls, place } = model.document;
  return calls.flatMap(({ title, place: line, size }, number) => {
    const isShown = number === place;
    const words = [h("b", {}, title), h("span", { class: "quiet" }, [line, size].filter(Boolean).join(" · "))];
    const row = h("button", { type: "button", class: "call", "data-focus": `call-${number}`, "aria-current": isShown ? "true" : null,
      onclick: () => !isShown && turnTo(number) }, words);
    return isShown && number ? [row, changeParts(model, calls[number - 1].title, go)] : [row];
  });
}

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

function changeRow(model, { what, then, now, node }, go) {
  const item = node === null ? undefined : model.itemOfNode(node);
  const name = item === undefined ? breakable(what) : h("button", { type: "button", "data-focus": `change-${what}`, onclick: () => go(item) }, breakable(what));
  return h("tr", {}, h("td", {}, name), h("td", { class: "figure" }, then), h("td", { class: "figure" }, now));
}
