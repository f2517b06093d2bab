/**
 * What the panel is made of: sections that can be copied, and buttons that lead to items.
 *
 * @import { Model } from "../graph/model.js"
 * @import { Child } from "../shared/dom.js"
 *
 * @typedef {(number: number) => unknown} Go to an item
 */
import { copy, textOf } from "../shared/clipboard.js";
import { h, s } from "../shared/dom.js";

/**
 * A heading with what it is about below it; the heading's button copies that.
 *
 * @param {string} heading
 * @param {Child[]} body
 * @param {{title?: string, beside?: Child}} [more]
 */
export function section(heading, body, { title, beside } = {}) {
  const words = h("div", {}, body);
  return h("section", {},
    heading ? h("h3", { title }, h("span", {}, heading), beside ?? null,
      h("button", { type: "button", class: "copy", title: "copy this", "aria-label": `copy ${heading}`, onclick: () => copy(textOf(words)) }, copySign())) : null,
    words);
}

const copySign = () => s("svg", { width: 12, height: 12, "aria-hidden": true }, s("path", { d: "M4.5 3.5h6v7h-6zM2.5 8.5h-1v-7h6v1" }));

/** @param {Child[][]|string[]} words */
export const lines = (words) => h("ul", { class: "lines" }, words.map((line) => h("li", {}, line)));

/**
 * A button with an item's name and what it is.
 *
 * @param {Model} model
 * @param {number} number
 * @param {Go} go
 * @param {{isCurrent?: boolean}} [more]
 */
export function itemButton(model, number, go, { isCurrent = false } = {}) {
  const item = model.items[number];
  return h(
    "button",
    { type: "button", class: "item-button", "data-focus": `item-${number}`, "aria-current": isCurrent ? "true" : null, onclick: () => go(number) },
    h("span", { class: `swatch ${item.role}` }), h("b", {}, item.title),
    h("span", { class: "quiet" }, [item.subtitle, item.shape_words].filter(Boolean).join(" · ")),
  );
}

/**
 * The same in a line of words.
 *
 * @param {Model} model
 * @param {number} number
 * @param {Go} go
 */
export function itemLink(model, number, go) {
  const item = model.items[number];
  return h("button", { type: "button", class: "item-link", title: [item.subtitle, item.line].filter(Boolean).join(" · "), onclick: () => go(number) },
    h("span", { class: `swatch ${item.role}` }), item.title);
}

/**
 * A dotted name, which is best broken behind a dot.
 *
 * @param {string} name
 * @returns {Child[]}
 */
export const breakable = (name) => name.split(/(?<=\.)/).flatMap((part, at) => (at ? [h("wbr"), part] : [part]));

/**
 * As long as a part of the whole.
 *
 * @param {number} size
 * @param {number} whole
 */
export function bar(size, whole) {
  const element = h("span", { class: "bar" });
  element.style.width = `${Math.round((40 * size) / whole)}px`;
  return element;
}
