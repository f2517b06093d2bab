/**
 * What the page's style says of things that are painted by hand: read off a sample of each, so that nothing is said twice.
 *
 * @typedef {{fill: string, stroke: string, width: number, dash: number[], font: string, opacity: number}} Style
 */
import { byId, s } from "../shared/dom.js";

export class ComputedStyles {
  /** @type {Map<string, Style>} */
  #known = new Map();

  /** @param {() => void} onChange called once other colours, or other marks, may have changed any style */
  constructor(onChange) {
    const observer = new MutationObserver(() => {
      this.#known.clear();
      onChange();
    });
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    observer.observe(byId("stage"), { attributeFilter: ["data-color", "data-weighed"] });
    observer.observe(byId("picture"), { attributeFilter: ["class"] });
  }

  /**
   * @param {Element} layer where it lies
   * @param {string|null} group the classes of its group; null for what is in none
   * @param {"path"|"rect"|"text"} tag
   * @param {string} own its own classes
   * @returns {Style}
   */
  of(layer, group, tag, own) {
    const key = `${layer.classList}/${group}/${tag}/${own}`;
    const style = this.#known.get(key) ?? read(layer, group, tag, own);
    this.#known.set(key, style);
    return style;
  }
}

/**
 * @param {Element} layer
 * @param {string|null} group
 * @param {"path"|"rect"|"text"} tag
 * @param {string} own
 * @returns {Style}
 */
function read(layer, group, tag, own) {
  const part = s(tag, { class: own });
  const whole = group === null ? part : s("g", { class: group }, part);
  layer.append(whole);
  const style = getComputedStyle(part);
  const { opacity, visibility } = getComputedStyle(whole);
  const found = {
    fill: style.fill,
    stroke: style.stroke,
    width: parseFloat(style.strokeWidth),
    dash: style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(",").map(parseFloat),
    font: `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`,
    opacity: visibility === "hidden" ? 0 : Number(opacity),
  };
  whole.remove();
  return found;
}
