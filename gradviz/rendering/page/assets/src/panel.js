/** The panel: everything that is known of what is selected, and lists of what the whole graph has, under tabs. */
import { aboutItem } from "./about.js";
import { callParts } from "./calls.js";
import { Details } from "./data.js";
import { byId, h } from "./dom.js";
import { listenToEdge } from "./edge.js";
import { findingList } from "./findings.js";
import { Memory } from "./memory.js";
import { Parameters } from "./parameters.js";
import { copy, lines, section, textOf } from "./parts.js";
import { sourceParts } from "./source.js";

/** The tab that an address names: that of a graph which was turned to in the list of all of them. */
const tabOf = (hash) => /(?:^#|&)tab=(\w+)(?:&|$)/.exec(hash)?.[1] ?? "about";

export class Panel {
  /**
   * @param {import("./model.js").Model} model
   * @param {object} actions what its buttons do, with the number of an item
   */
  constructor(model, actions) {
    this.model = model;
    this.actions = actions;
    this.element = byId("panel-content");
    this.details = new Details(model.document);
    listenToEdge();
    new ResizeObserver(() => this.#fitMap()).observe(byId("panel"));
    this.tab = tabOf(location.hash);
    this.number = null;
    this.around = null;
    const select = (number) => this.#goFromList(number);
    this.parameters = new Parameters(model, select, () => this.#draw());
    this.memory = new Memory(model, { select, light: actions.light }, () => this.#draw());
  }

  /** Unpacks what is shown first, so that a click is answered at once. */
  async prepare() {
    if (this.model.items.length) await this.details.load(0);
  }

  /** @param {{from: number[], to: number[], isOpen: boolean, isEach: boolean, isOnly: boolean}} around */
  show(number, around) {
    // Who looks at the source sees the line of what was clicked; who clicks in a list goes on with the list.
    if (number !== null && number !== this.number && this.tab !== "source" && !this.isGoing) this.tab = "about";
    this.number = number;
    this.around = around;
    this.#draw();
  }

  /** @param {(Node|null)[]} parts */
  fill(parts) {
    const focused = document.activeElement?.dataset?.focus;
    const { scrollTop } = byId("panel");
    this.element.replaceChildren(...parts.filter(Boolean));
    byId("panel").scrollTop = this.tab === "about" ? 0 : scrollTop;
    if (focused) [...this.element.querySelectorAll("[data-focus]")].find((each) => each.dataset.focus === focused)?.focus({ preventScroll: true });
  }

  /** Selects an item from a list, which stays. */
  #goFromList(number) {
    this.isGoing = true;
    this.actions.select(number);
    this.isGoing = false;
  }

  /** A map is as wide as the panel. */
  #fitMap() {
    const { offsetWidth } = byId("panel");
    if (offsetWidth !== this.width && this.element.querySelector(".treemap")) this.#draw();
    this.width = offsetWidth;
  }

  #draw() {
    const tabs = this.#tabs();
    if (!tabs.some(([key]) => key === this.tab)) this.tab = "about";
    byId("panel").dataset.tab = this.tab;
    const [, , parts] = tabs.find(([key]) => key === this.tab);
    this.fill([...this.#head(), tabs.length > 1 ? this.#tabRow(tabs) : null, ...parts()]);
    this.element.querySelector(".source [aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  #head() {
    if (this.number === null) {
      const { name, facts } = this.model.document;
      return [h("h2", { tabindex: -1 }, name), h("p", { class: "subtitle" }, facts)];
    }
    const item = this.model.items[this.number];
    return [
      h("p", { class: "kind" }, h("span", { class: `swatch ${item.role}` }), this.model.document.roles[item.role][0]),
      h("h2", { tabindex: -1 }, item.title, item.repeat > 1 ? h("span", { class: "times" }, ` ×${item.repeat.toLocaleString("en")}`) : null),
      h("p", { class: "subtitle" }, [item.subtitle, item.shape_words].filter(Boolean).join(" · ")),
      item.path && item.path !== item.title ? h("p", { class: "path" }, item.path) : null,
    ];
  }

  /** Only those that have something to show. */
  #tabs() {
    const { calls, findings, memory, parameters, sources } = this.model.document;
    const go = (number) => this.#goFromList(number);
    const tabs = [["about", "About", () => (this.number === null ? this.#aboutGraph() : this.#aboutItem())]];
    if (findings.length) tabs.push(["findings", "Findings", () => findingList(this.model, go, this.number)]);
    if (calls.length) tabs.push(["calls", "Calls", () => callParts(this.model, (place) => this.actions.graph(place, this.tab), go)]);
    if (parameters.length) tabs.push(["parameters", "Parameters", () => this.parameters.parts(this.number)]);
    if (memory?.bytes || memory?.unknown) tabs.push(["memory", "Memory", () => this.memory.parts(this.number)]);
    if (Object.keys(sources).length) tabs.push(["source", "Source", () => sourceParts(this.model, this.actions.light, this.number)]);
    return tabs;
  }

  #tabRow(tabs) {
    const buttons = tabs.map(([key, words]) => h("button", { type: "button", role: "tab", "aria-selected": String(key === this.tab),
      "data-focus": `tab-${key}`, onclick: () => this.#turnTo(key) }, words));
    return h("div", { class: "tabs", role: "tablist" }, buttons);
  }

  #turnTo(tab) {
    this.tab = tab;
    byId("panel").dataset.tab = tab; // The panel may be wider for it, which a map has to know.
    this.#draw();
    if (this.number !== null) this.actions.reveal(this.number);
  }

  #aboutItem() {
    const number = this.around.isEach ? this.model.eachBox.get(this.number) : this.number;
    const details = this.details.of(number);
    if (!details) this.#fetch(number);
    return [this.#buttons(), ...aboutItem(this.model, number, details, this.around, this.actions)];
  }

  async #fetch(number) {
    await this.details.load(number);
    if (this.number !== null && this.model.shownAs(number) === this.number && this.tab === "about") this.#draw();
  }

  #buttons() {
    const { number, around: { isOpen, isEach, isOnly } } = this;
    const button = (words, action, title) =>
      h("button", { type: "button", title, "data-focus": words, onclick: () => action(number) }, words);
    const opens = this.model.canOpen(number);
    const holdsMore = opens && this.model.boxesWithin(number).length > 1;
    const { repeat } = this.model.items[number];
    return h("div", { class: "buttons" },
      opens ? button(isOpen ? "Fold" : "Unfold", this.actions.toggle, "e") : null,
      holdsMore ? button(isOpen ? "Unfold all inside" : "Unfold all", this.actions.unfoldAll, "Shift+E") : null,
      this.model.eachBox.has(number) ? button(isEach ? `Show one of ${repeat}` : `Show each of ${repeat}`, this.actions.showEach, "a") : null,
      button("Centre", this.actions.reveal, "c"),
      button("Way to …", this.actions.askForWay, "the shortest way to what is clicked next; Shift + click"),
      button(isOnly ? "Show everything" : "Show only this", this.actions.only, "o"),
      button("Copy", () => copy(this.#asText()), "everything below as text"));
  }

  /** What stands in the panel, without buttons and tabs. */
  #asText() {
    const parts = this.element.querySelectorAll("h2, h2 + .subtitle, .path, .figures, section");
    return [...parts].map(textOf).join("\n\n");
  }

  #aboutGraph() {
    const { error, notes } = this.model.document;
    const save = (kind, words) => h("button", { type: "button", onclick: () => this.actions.save(kind) }, words);
    return [
      error ? h("p", { class: "error" }, error) : null,
      notes.length ? section("notes", lines(notes)) : null,
      h("div", { class: "buttons" }, save("svg", "Save as SVG"), save("png", "Save as PNG")),
      h("p", { class: "hint" }, "Click something to see all that is known of it; what its gradient flows to and came from lights up. ",
        h("kbd", {}, "?"), " lists the keys."),
    ];
  }
}
