/**
 * Words beside the pointer, once it rests on an item or a wire.
 *
 * @import { Model } from "../graph/model.js"
 * @import { SceneLine } from "../layout/types.js"
 * @import { Picture } from "./picture.js"
 */
import { itemButton } from "../panel/sections.js";
import { byId, h, targetOf } from "../shared/dom.js";

const DELAY = 350;

export class Tooltip {
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  #timer;

  /**
   * @param {Model} model
   * @param {{picture: Picture, lineOf: (key: string) => SceneLine|undefined, colour: () => string}} page
   */
  constructor(model, page) {
    this.model = model;
    this.page = page;
    this.element = byId("tip");
    const svg = byId("picture");
    svg.addEventListener("pointerover", (event) => this.#hover(event));
    svg.addEventListener("pointermove", (event) => page.picture.isPainted && this.#hover(event));
    svg.addEventListener("pointerleave", () => this.hide());
    svg.addEventListener("pointerdown", () => this.hide());
  }

  hide() {
    clearTimeout(this.#timer);
    this.element.hidden = true;
  }

  /** @param {PointerEvent} event */
  #hover(event) {
    this.hide();
    const item = this.page.picture.numberAt(event);
    const key = targetOf(event).closest(/** @type {"g"} */ ("[data-line]"))?.dataset.line;
    const line = key === undefined ? undefined : this.page.lineOf(key);
    if (event.buttons) return;
    const { clientX, clientY } = event;
    if (line) this.#showLater(() => this.#aboutLine(line), clientX, clientY);
    else if (item !== null) this.#showLater(() => this.#aboutItem(item), clientX, clientY);
  }

  /**
   * @param {() => HTMLElement[]} words
   * @param {number} x
   * @param {number} y
   */
  #showLater(words, x, y) {
    this.#timer = setTimeout(() => this.#show(words(), x, y), DELAY);
  }

  /**
   * @param {HTMLElement[]} words
   * @param {number} x
   * @param {number} y
   */
  #show(words, x, y) {
    this.element.replaceChildren(...words);
    this.element.hidden = false;
    const { width, height } = this.element.getBoundingClientRect();
    this.element.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - width - 10))}px`;
    this.element.style.top = `${Math.max(6, Math.min(y + 18, innerHeight - height - 10))}px`;
  }

  /** @param {number} number */
  #aboutItem(number) {
    const item = this.model.items[number];
    const more = [item.path, item.line, item.figures?.[this.page.colour()]].filter(Boolean);
    return [itemButton(this.model, number, () => {}), ...more.map((words) => h("div", {}, words))];
  }

  /** @param {SceneLine} line */
  #aboutLine(line) {
    const to = line.target === null ? "" : this.model.nameOf(line.target);
    return [h("b", {}, `${this.model.nameOf(line.source)} → ${to}`), ...(line.flow?.words ?? []).map((words) => h("div", {}, words))];
  }
}
