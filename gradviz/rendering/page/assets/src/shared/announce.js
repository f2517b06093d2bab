/** Words said for a moment. */
import { byId } from "./dom.js";

/**
 * Says something to screen readers only.
 *
 * @param {string} words
 */
export function say(words) {
  byId("status").textContent = words;
}

/**
 * Says something for a moment, also to screen readers.
 *
 * @param {string} words
 */
export function announce(words) {
  const status = byId("status");
  say(words);
  status.toggleAttribute("data-shown", true);
  setTimeout(() => status.removeAttribute("data-shown"), 1800);
}
