/** The backward calls of the recording side by side, and what changed between them. */
import { h } from "./dom.js";

/** The graphs of the page; below the one that is shown, what differs from the one before it. */
export function callParts({ calls, place }, go) {
  return calls.flatMap(({ title, place: line, size, changes }, number) => {
    const isShown = number === place;
    const words = [h("b", {}, title), h("span", { class: "quiet" }, [line, size].filter(Boolean).join(" · "))];
    const row = h("button", { type: "button", class: "call", "aria-current": isShown ? "true" : null, onclick: () => !isShown && go(number) }, words);
    if (!isShown || !number) return [row];
    const told = changes.map(({ heading, lines }) => [h("h4", {}, heading), h("ul", { class: "lines" }, lines.map((change) => h("li", {}, change)))]);
    const before = calls[number - 1].title;
    return [row, h("div", { class: "changes" }, h("p", { class: "quiet" }, told.length ? `Unlike in ${before}:` : `The same operations and figures as in ${before}.`), told.flat())];
  });
}
