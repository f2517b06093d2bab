/** Keys for everything, and the list of them. */
import { byId, h } from "./dom.js";
import { EXAMPLES } from "./query.js";

const KEYS = [
  ["/", "search", (app) => app.search.focus()],
  ["n", "next of what was found; N the one before", (app) => app.search.step(1)],
  ["N", "", (app) => app.search.step(-1)],
  ["f", "fit all of it into the window", (app) => app.fit()],
  ["e", "unfold or fold what is selected; Enter and double click, too", (app) => withSelected(app, "toggle")],
  ["E", "unfold all that is inside", (app) => app.unfoldAll(app.state.selected)],
  ["a", "show each of several alike (×12), or one of them", (app) => withSelected(app, "showEach")],
  ["c", "bring what is selected into sight", (app) => withSelected(app, "reveal")],
  ["o", "show only what is joined to it", (app) => app.showOnly(!app.only)],
  ["w", "wires as wide as the gradient that flows along them, or all alike", (app) => app.weigh()],
  ["ArrowUp", "follow the data back, and the gradient onwards", (app) => app.follow("up")],
  ["ArrowDown", "follow the data onwards", (app) => app.follow("down")],
  ["ArrowLeft", "to what stands beside it", (app) => app.follow("left")],
  ["ArrowRight", "", (app) => app.follow("right")],
  ["+", "zoom in; - zooms out", (app) => app.viewport.zoomBy(1.3)],
  ["-", "", (app) => app.viewport.zoomBy(1 / 1.3)],
  ["p", "play the backward pass; then ← → step through it, and space runs it", (app) => app.play()],
  ["Escape", "select nothing; leave the backward pass", (app) => app.leave()],
  ["?", "this list", (app) => app.help()],
];
/** What keys mean while the backward pass is played. */
const PLAYING = new Map([
  ["ArrowLeft", (app) => app.player.step(-1)],
  ["ArrowRight", (app) => app.player.step(1)],
  ["Home", (app) => app.player.go(0)],
  ["End", (app) => app.player.go(Infinity)],
  [" ", (app) => app.player.run()],
]);
const SIGNS = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "← →" };
const MOUSE = [
  ["click", "select: what its gradient flows to, and what it came from, light up"],
  ["Shift + click", "the shortest way from what is selected; Way to … in the panel, too"],
  ["drag, wheel", "pan and zoom"],
  ["Back", "the view before"],
];

function withSelected(app, action) {
  if (app.state.selected !== null) app[action](app.state.selected);
}

/** @param {import("./app.js").App} app */
export function listenToKeys(app) {
  const actions = new Map(KEYS.map(([key, , action]) => [key, action]));
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(SELECT|TEXTAREA)$/.test(event.target.tagName) || event.target.type === "search";
    const isScrolling = event.key.startsWith("Arrow") && event.target.closest("#panel");
    if (isTyping || isScrolling || event.ctrlKey || event.metaKey || event.altKey || byId("help-dialog").open) return;
    const action = (app.player.isOn && PLAYING.get(event.key)) || actions.get(event.key);
    if (!action) return;
    event.preventDefault();
    action(app);
  });
  byId("help-close").addEventListener("click", () => byId("help-dialog").close());
}

export function showHelp() {
  const table = (rows) => h("dl", {}, rows.map(([key, words]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, words))));
  const keys = KEYS.filter(([, words]) => words).map(([key, words]) => [SIGNS[key] ?? key, words]);
  byId("help-lists").replaceChildren(
    h("section", {}, h("h3", {}, "Keys"), table(keys)),
    h("section", {}, h("h3", {}, "Mouse and touch"), table(MOUSE), h("h3", {}, "Search"), table(EXAMPLES)),
  );
  byId("help-dialog").showModal();
  byId("help-dialog").scrollTop = 0; // The button that closes it has the focus, and stands at its end.
}
