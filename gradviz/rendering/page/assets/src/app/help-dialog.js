/**
 * The list of all keys, of what the mouse does, and of what can be searched for.
 *
 * @typedef {{key: string, words: string}} Row
 */
import { EXAMPLES } from "../search/query.js";
import { byId, h } from "../shared/dom.js";

const SIGNS = new Map([["ArrowUp", "↑"], ["ArrowDown", "↓"], ["ArrowLeft", "← →"]]);
const MOUSE = [
  { key: "click", words: "select: what its gradient flows to, and what it came from, light up" },
  { key: "Shift + click", words: "the shortest way from what is selected; Way to … in the panel, too" },
  { key: "drag, wheel", words: "pan and zoom" },
  { key: "Back", words: "the view before" },
];

/** @param {Row[]} keys those without words belong to the one before them */
export function showHelp(keys) {
  const told = keys.filter(({ words }) => words).map(({ key, words }) => ({ key: SIGNS.get(key) ?? key, words }));
  const searches = EXAMPLES.map(({ typed, finds }) => ({ key: typed, words: finds }));
  byId("help-lists").replaceChildren(
    h("section", {}, h("h3", {}, "Keys"), table(told)),
    h("section", {}, h("h3", {}, "Mouse and touch"), table(MOUSE), h("h3", {}, "Search"), table(searches)),
  );
  byId("help-dialog").showModal();
  byId("help-dialog").scrollTop = 0; // The button that closes it has the focus, and stands at its end.
}

/** @param {Row[]} rows */
const table = (rows) => h("dl", {}, rows.map(({ key, words }) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, words))));

export function listenToHelp() {
  byId("help-close").addEventListener("click", () => byId("help-dialog").close());
}
