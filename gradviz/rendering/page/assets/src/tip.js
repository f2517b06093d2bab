/** Words beside the pointer, once it rests on an item or a wire. */
import { byId, h } from "./dom.js";
import { itemButton } from "./parts.js";

const DELAY = 350;

export class Tip {
  #timer = 0;

  /**
   * @param {import("./model.js").Model} model
   * @param {{picture: import("./picture.js").Picture, lineOf: (key: string) => object, colour: () => string}} page
   */
  constructor(model, page) {
    this.model = model;
    this.page = page;
    this.element = byId("tip");
    const svg = byId("picture");
    svg.addEventListener("pointerover", (event) => this.#hover(event));
    svg.addEventListener("pointermove", (event) => page.picture.isCrowd && this.#hover(event));
    for (const leaving of ["pointerleave", "pointerdown"]) svg.addEventListener(leaving, () => this.hide());
  }

  hide() {
    clearTimeout(this.#timer);
    this.element.hidden = true;
  }

  #hover(event) {
    this.hide();
    const item = this.page.picture.numberAt(event);
    const key = event.target.closest("[data-line]")?.dataset.line;
    const line = key && this.page.lineOf(key);
    if (event.buttons || (item === null && !line)) return;
    const { clientX, clientY } = event;
    this.#timer = setTimeout(() => this.#show(line ? this.#aboutLine(line) : this.#aboutItem(item), clientX, clientY), DELAY);
  }

  #show(words, x, y) {
    this.element.replaceChildren(...words);
    this.element.hidden = false;
    const { width, height } = this.element.getBoundingClientRect();
    this.element.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - width - 10))}px`;
    this.element.style.top = `${Math.max(6, Math.min(y + 18, innerHeight - height - 10))}px`;
  }

  #aboutItem(number) {
    const item = this.model.items[number];
    const more = [item.path, item.line, item.figures?.[this.page.colour()]].filter(Boolean);
    return [itemButton(this.model, number, () => {}), ...more.map((words) => h("div", {}, words))];
  }

  #aboutLine(line) {
    const to = line.target === null ? "" : this.model.nameOf(line.target);
    return [h("b", {}, `${this.model.nameOf(line.source)} → ${to}`), ...(line.flow?.words ?? []).map((words) => h("div", {}, words))];
  }
}
