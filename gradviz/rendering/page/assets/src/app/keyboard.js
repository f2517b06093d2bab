/**
 * Keys for everything.
 *
 * @import { App } from "./app.js"
 *
 * @typedef {{key: string, words: string, action: (app: App) => void, isOffered?: (app: App) => boolean}} Key with `words` for the list of them
 */
import { byId, targetOf } from "../shared/dom.js";
import { goToDifference, hasDifferences } from "./differences.js";

/** @type {Key[]} */
export const KEYS = [
  { key: "/", words: "search", action: (app) => app.search.focus() },
  { key: "n", words: "next of what was found; N the one before", action: (app) => app.search.step(1) },
  { key: "N", words: "", action: (app) => app.search.step(-1) },
  { key: "d", words: "next difference; D the one before", action: (app) => goToDifference(app, 1), isOffered: canJump },
  { key: "D", words: "", action: (app) => goToDifference(app, -1), isOffered: canJump },
  { key: "f", words: "fit all of it into the window", action: (app) => app.fit() },
  { key: "e", words: "unfold or fold what is selected; Enter and double click, too", action: withSelected((app, number) => app.toggle(number)) },
  { key: "E", words: "unfold all that is inside", action: (app) => app.unfoldAll(app.state.selected) },
  { key: "a", words: "show each of several alike (×12), or one of them", action: withSelected((app, number) => app.showEach(number)), isOffered: hasAlike },
  { key: "c", words: "bring what is selected into sight", action: withSelected((app, number) => app.reveal(number)) },
  { key: "o", words: "show only what is joined to it", action: (app) => app.showOnly(!app.state.only) },
  { key: "r", words: "from top to bottom, or from left to right", action: (app) => app.turn(), isOffered: (app) => app.model.canTurn },
  { key: "l", words: "copy a link to this very view", action: (app) => app.copyLink() },
  { key: "w", words: "wires as wide as the gradient that flows along them, or all alike", action: (app) => app.weigh(), isOffered: (app) => app.canWeigh },
  { key: "ArrowUp", words: "follow the data back, and the gradient onwards", action: (app) => app.follow("up") },
  { key: "ArrowDown", words: "follow the data onwards", action: (app) => app.follow("down") },
  { key: "ArrowLeft", words: "to what stands beside it", action: (app) => app.follow("left") },
  { key: "ArrowRight", words: "", action: (app) => app.follow("right") },
  { key: "+", words: "zoom in; - zooms out", action: (app) => app.stage.viewport.zoomBy(1.3) },
  { key: "-", words: "", action: (app) => app.stage.viewport.zoomBy(1 / 1.3) },
  { key: "p", words: "play the backward pass; then ← → step through it, and space runs it", action: (app) => app.play(), isOffered: (app) => app.player.canPlay },
  { key: "Escape", words: "select nothing; leave the backward pass", action: (app) => app.leave() },
  { key: "?", words: "this list", action: (app) => app.help() },
];

/**
 * What keys mean while the backward pass is played.
 *
 * @type {Map<string, (app: App) => void>}
 */
const PLAYING = new Map([
  ["ArrowLeft", (app) => app.player.step(-1)],
  ["ArrowRight", (app) => app.player.step(1)],
  ["Home", (app) => app.player.go(0)],
  ["End", (app) => app.player.go(Infinity)],
  [" ", (app) => app.player.run()],
]);

/** @param {App} app */
function canJump(app) {
  return hasDifferences(app.model);
}

/** @param {App} app */
function hasAlike(app) {
  return app.model.eachBox.size > 0;
}

/**
 * @param {(app: App, number: number) => void} action
 * @returns {(app: App) => void} nothing happens where nothing is selected
 */
function withSelected(action) {
  return (app) => {
    if (app.state.selected !== null) action(app, app.state.selected);
  };
}

/** @param {App} app */
export function listenToKeys(app) {
  const actions = new Map(KEYS.map(({ key, action }) => [key, action]));
  document.addEventListener("keydown", (event) => {
    if (isMeantForOthers(event)) return;
    const action = (app.player.isOn && PLAYING.get(event.key)) || actions.get(event.key);
    if (!action) return;
    event.preventDefault();
    action(app);
  });
}

/** @param {KeyboardEvent} event */
function isMeantForOthers(event) {
  const target = targetOf(event);
  const isTyping = /^(SELECT|TEXTAREA)$/.test(target.tagName) || (target instanceof HTMLInputElement && target.type === "search");
  const isScrolling = event.key.startsWith("Arrow") && target.closest("#panel");
  return isTyping || isScrolling || event.ctrlKey || event.metaKey || event.altKey || byId("help-dialog").open;
}
