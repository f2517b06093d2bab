/** Copies what stands in the panel. */
import { announce } from "./announce.js";
import { h } from "./dom.js";

/**
 * As it is read; formulas in a line of plain letters, not in the pieces that they are drawn of.
 *
 * @param {HTMLElement} element
 * @returns {string}
 */
export function textOf(element) {
  const formulas = [...element.querySelectorAll("math")];
  const plain = formulas.map((math) => document.createTextNode(math.getAttribute("alttext") ?? ""));
  formulas.forEach((math, at) => math.replaceWith(plain[at]));
  const text = element.innerText;
  formulas.forEach((math, at) => plain[at].replaceWith(math));
  return text;
}

/**
 * @param {string} text
 * @param {string} [said] afterwards
 */
export async function copy(text, said = "copied") {
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
  announce(said);
}
