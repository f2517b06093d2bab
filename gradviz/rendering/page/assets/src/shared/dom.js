/**
 * Makes elements. Whatever comes from the graph becomes text or an attribute, never markup.
 *
 * @import { PageElements } from "./page-elements.js"
 *
 * @typedef {Node|string|null|undefined} Child nothing is added for the last two
 * @typedef {Record<string, string|number|boolean|null|undefined|(() => unknown)>} Attributes
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {Element} E
 * @param {E} element
 * @param {Attributes} attributes
 * @param {(Child|Child[])[]} children
 * @returns {E}
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter(isThere));
  return element;
}

/**
 * @param {Child} child
 * @returns {child is Node|string}
 */
export const isThere = (child) => child !== null && child !== undefined && child !== "";

/**
 * An element of the page; attributes that begin with ``on`` are listeners.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...(Child|Child[])} children
 */
export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/**
 * An element of a picture.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...(Child|Child[])} children
 */
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/**
 * An element that page.html has.
 *
 * @template {keyof PageElements} Id
 * @param {Id} id
 * @returns {PageElements[Id]}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`page.html has no #${id}`);
  return /** @type {PageElements[Id]} */ (/** @type {Element} */ (element));
}

/**
 * What is inside an element that the script itself made.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Element} element
 * @param {Tag|`.${string}`} selector
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function partOf(element, selector) {
  const part = element.querySelector(selector);
  if (!part) throw new Error(`there is no ${selector}`);
  return /** @type {SVGElementTagNameMap[Tag]} */ (part);
}

/**
 * What an event happened in.
 *
 * @param {Event} event
 * @returns {Element}
 */
export function targetOf({ target }) {
  if (!(target instanceof Element)) throw new Error("this is no event of an element");
  return target;
}

/**
 * The means to draw on a canvas.
 *
 * @param {HTMLCanvasElement} canvas
 */
export function brushOf(canvas) {
  const brush = canvas.getContext("2d");
  if (!brush) throw new Error("this browser cannot draw on a canvas");
  return brush;
}

/**
 * What clicks on buttons do, by the ids of these.
 *
 * @param {Partial<Record<keyof PageElements, () => void>>} actions
 */
export function listenToButtons(actions) {
  for (const [id, action] of Object.entries(actions)) byId(/** @type {keyof PageElements} */ (id)).addEventListener("click", action);
}
