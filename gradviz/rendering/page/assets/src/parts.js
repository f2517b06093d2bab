/** What the panel is made of: sections that can be copied, buttons that lead to items, and words said for a moment. */
import { byId, h, s } from "./dom.js";

/** A heading with what it is about below it; the heading's button copies that. */
export function section(heading, body, { title, beside } = {}) {
  const words = h("div", {}, body);
  return h("section", {},
    heading ? h("h3", { title }, h("span", {}, heading), beside ?? null,
      h("button", { type: "button", class: "copy", title: "copy this", "aria-label": `copy ${heading}`, onclick: () => copy(textOf(words)) }, copySign())) : null,
    words);
}

const copySign = () => s("svg", { width: 12, height: 12, "aria-hidden": true }, s("path", { d: "M4.5 3.5h6v7h-6zM2.5 8.5h-1v-7h6v1" }));

export const lines = (words) => h("ul", { class: "lines" }, words.map((line) => h("li", {}, line)));

/** A button with an item's name and what it is. */
export function itemButton(model, number, action, { isCurrent = false } = {}) {
  const item = model.items[number];
  return h(
    "button",
    { type: "button", class: "item-button", "data-focus": `item-${number}`, "aria-current": isCurrent ? "true" : null, onclick: () => action(number) },
    h("span", { class: `swatch ${item.role}` }), h("b", {}, item.title),
    h("span", { class: "quiet" }, [item.subtitle, item.shape_words].filter(Boolean).join(" · ")),
  );
}

/** The same in a line of words. */
export function itemLink(model, number, action) {
  const item = model.items[number];
  return h("button", { type: "button", class: "item-link", title: [item.subtitle, item.line].filter(Boolean).join(" · "), onclick: () => action(number) },
    h("span", { class: `swatch ${item.role}` }), item.title);
}

/** As it is read; formulas in a line of plain letters, not in the pieces that they are drawn of. */
export function textOf(element) {
  const formulas = [...element.querySelectorAll("math")];
  const plain = formulas.map((math) => document.createTextNode(math.getAttribute("alttext")));
  formulas.forEach((math, at) => math.replaceWith(plain[at]));
  const text = element.innerText;
  formulas.forEach((math, at) => plain[at].replaceWith(math));
  return text;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = h("textarea", {});
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  announce("copied");
}

/** Says something to screen readers only. */
export function say(words) {
  byId("status").textContent = words;
}

/** Says something for a moment, also to screen readers. */
export function announce(words) {
  const status = byId("status");
  say(words);
  status.toggleAttribute("data-shown", true);
  setTimeout(() => status.removeAttribute("data-shown"), 1800);
}

/** A dotted name, which is best broken behind a dot. */
export const breakable = (name) => name.split(/(?<=\.)/).flatMap((part, at) => (at ? [h("wbr"), part] : [part]));

export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** Three digits. */
export const figure = (value) =>
  (value === null ? "–" : value === 0 ? "0" : value >= 1e-3 && value < 1e4 ? String(Number(value.toPrecision(3))) : value.toExponential(1));

export function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(size, 1)) / 10));
  return `${Number((size / 1024 ** at).toPrecision(3))} ${units[at]}`;
}

export function duration(seconds) {
  const [unit, factor] = seconds >= 1 ? ["s", 1] : seconds >= 1e-3 ? ["ms", 1e3] : ["µs", 1e6];
  return `${Number((seconds * factor).toPrecision(3))} ${unit}`;
}

/** As long as a part of the whole. */
export function bar(size, most) {
  const element = h("span", { class: "bar" });
  element.style.width = `${Math.round((40 * size) / most)}px`;
  return element;
}
