/**
 * The panel: everything that is known of what is selected, and lists of what the whole graph has, under tabs.
 *
 * @import { Model } from "../graph/model.js"
 * @import { Child } from "../shared/dom.js"
 *
 * @typedef {object} PanelActions what its buttons do
 * @property {(number: number) => void} toggle
 * @property {(number: number) => void} unfoldAll
 * @property {(number: number) => void} showEach
 * @property {() => void} askForWay
 * @property {(number: number) => void} reveal
 * @property {() => void} only
 * @property {(number: number) => void} select
 * @property {(kind: "svg"|"png") => void} save
 * @property {(index: number, tab: string) => void} graph
 * @property {(numbers: number[], words: string) => void} light
 *
 * @typedef {object} Surroundings of what is selected
 * @property {number[]} from its neighbours in the picture
 * @property {number[]} to
 * @property {boolean} isOpen
 * @property {boolean} isEach
 * @property {boolean} isOnly
 *
 * @typedef {{key: string, words: string, parts: () => Child[]}} Tab
 */
import { DetailsReader } from "../document/read-document.js";
import { copy, textOf } from "../shared/clipboard.js";
import { byId, h, isThere } from "../shared/dom.js";
import { callParts } from "./backward-calls.js";
import { differenceList, differenceSummary } from "./differences.js";
import { findingList } from "./findings.js";
import { itemDetails } from "./item-details.js";
import { Memory } from "./memory.js";
import { listenToEdge } from "./panel-resizing.js";
import { Parameters } from "./parameters.js";
import { lines, section } from "./sections.js";
import { sourceParts } from "./source-code.js";

/**
 * The tab that an address names: that of a graph which was turned to in the list of all of them.
 *
 * @param {string} hash
 */
const tabOf = (hash) => /(?:^#|&)tab=(?<tab>\w+)(?:&|$)/.exec(hash)?.groups?.tab ?? "about";

export class Panel {
  /** @type {number|null} what is selected */
  #number = null;
  /** @type {Surroundings} */
  #around = { from: [], to: [], isOpen: false, isEach: false, isOnly: false };
  #isGoing = false;
  #width = 0;

  /**
   * @param {Model} model
   * @param {PanelActions} actions
   */
  constructor(model, actions) {
    this.model = model;
    this.actions = actions;
    this.element = byId("panel-content");
    this.details = new DetailsReader(model.document);
    listenToEdge();
    new ResizeObserver(() => this.#fitMap()).observe(byId("panel"));
    this.tab = tabOf(location.hash);
    /** @param {number} number */
    const select = (number) => this.#goFromList(number);
    this.parameters = new Parameters(model, select, () => this.#draw());
    this.memory = new Memory(model, { select, light: actions.light }, () => this.#draw());
  }

  /** Unpacks what is shown first, so that a click is answered at once. */
  async prepare() {
    if (this.model.items.length) await this.details.load(0);
  }

  /**
   * @param {number|null} number
   * @param {Surroundings} around
   */
  show(number, around) {
    // Who looks at the source sees the line of what was clicked; who clicks in a list goes on with the list.
    if (number !== null && number !== this.#number && this.tab !== "source" && !this.#isGoing) this.tab = "about";
    this.#number = number;
    this.#around = around;
    this.#draw();
  }

  /** @param {Child[]} parts */
  fill(parts) {
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.focus : undefined;
    const { scrollTop } = byId("panel");
    this.element.replaceChildren(...parts.filter(isThere));
    byId("panel").scrollTop = this.tab === "about" ? 0 : scrollTop;
    if (focused) this.#focusable(focused)?.focus({ preventScroll: true });
  }

  /**
   * What had the focus before everything was made anew.
   *
   * @param {string} name
   */
  #focusable(name) {
    const found = [...this.element.querySelectorAll(/** @type {"button"} */ ("[data-focus]"))];
    return found.find((each) => each.dataset.focus === name);
  }

  /**
   * Selects an item from a list, which stays.
   *
   * @param {number} number
   */
  #goFromList(number) {
    this.#isGoing = true;
    this.actions.select(number);
    this.#isGoing = false;
  }

  /** A map is as wide as the panel. */
  #fitMap() {
    const { offsetWidth } = byId("panel");
    if (offsetWidth !== this.#width && this.element.querySelector(".treemap")) this.#draw();
    this.#width = offsetWidth;
  }

  #draw() {
    const tabs = this.#tabs();
    const shown = tabs.find(({ key }) => key === this.tab) ?? tabs[0];
    this.tab = shown.key;
    byId("panel").dataset.tab = this.tab;
    this.fill([...this.#head(), tabs.length > 1 ? this.#tabRow(tabs) : null, ...shown.parts()]);
    this.element.querySelector(".source [aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  /** @returns {Child[]} */
  #head() {
    if (this.#number === null) {
      const { name, facts } = this.model.document;
      return [h("h2", { tabindex: -1 }, name), h("p", { class: "subtitle" }, facts)];
    }
    const item = this.model.items[this.#number];
    const { repeat = 1 } = item;
    return [
      h("p", { class: "kind" }, h("span", { class: `swatch ${item.role}` }), this.model.document.roles[item.role].words),
      h("h2", { tabindex: -1 }, item.title, repeat > 1 ? h("span", { class: "times" }, ` ×${repeat.toLocaleString("en")}`) : null),
      h("p", { class: "subtitle" }, [item.subtitle, item.shape_words].filter(Boolean).join(" · ")),
      item.path && item.path !== item.title ? h("p", { class: "path" }, item.path) : null,
    ];
  }

  /**
   * Only those that have something to show.
   *
   * @returns {Tab[]}
   */
  #tabs() {
    const { calls, difference, findings, memory, parameters, sources } = this.model.document;
    /** @param {number} number */
    const go = (number) => this.#goFromList(number);
    const selected = this.#number;
    /** @type {Tab[]} */
    const tabs = [{ key: "about", words: "About", parts: () => (selected === null ? this.#aboutGraph() : this.#aboutItem(selected)) }];
    if (difference?.stops.length) tabs.push({ key: "differences", words: "Differences", parts: () => differenceList(this.model, go, selected) });
    if (findings.length) tabs.push({ key: "findings", words: "Findings", parts: () => findingList(this.model, go, selected) });
    if (calls.length) tabs.push({ key: "calls", words: "Calls", parts: () => callParts(this.model, (index) => this.actions.graph(index, this.tab), go) });
    if (parameters.length) tabs.push({ key: "parameters", words: "Parameters", parts: () => this.parameters.parts(selected) });
    if (memory?.bytes || memory?.unknown) tabs.push({ key: "memory", words: "Memory", parts: () => this.memory.parts(memory, selected) });
    if (Object.keys(sources).length) tabs.push({ key: "source", words: "Source", parts: () => sourceParts(this.model, this.actions.light, selected) });
    return tabs;
  }

  /** @param {Tab[]} tabs */
  #tabRow(tabs) {
    const buttons = tabs.map(({ key, words }) => h("button", { type: "button", role: "tab", "aria-selected": String(key === this.tab),
      "data-focus": `tab-${key}`, onclick: () => this.#turnTo(key) }, words));
    return h("div", { class: "tabs", role: "tablist" }, buttons);
  }

  /** @param {string} tab */
  #turnTo(tab) {
    this.tab = tab;
    byId("panel").dataset.tab = tab; // The panel may be wider for it, which a map has to know.
    this.#draw();
    if (this.#number !== null) this.actions.reveal(this.#number);
  }

  /**
   * @param {number} selected
   * @returns {Child[]}
   */
  #aboutItem(selected) {
    const number = (this.#around.isEach ? this.model.eachBox.get(selected) : undefined) ?? selected;
    const details = this.details.of(number);
    if (!details) this.#fetch(number);
    return [this.#buttons(selected), ...itemDetails(this.model, number, details, this.#around, this.actions.select)];
  }

  /** @param {number} number */
  async #fetch(number) {
    byId("panel").setAttribute("aria-busy", "true");
    await this.details.load(number);
    byId("panel").removeAttribute("aria-busy");
    if (this.#number !== null && this.model.shownAs(number) === this.#number && this.tab === "about") this.#draw();
  }

  /** @param {number} number */
  #buttons(number) {
    const { isOpen, isEach, isOnly } = this.#around;
    /**
     * @param {string} words
     * @param {(number: number) => void} action
     * @param {string} title
     */
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
    const parts = this.element.querySelectorAll(/** @type {"section"} */ ("h2, h2 + .subtitle, .path, .figures, section"));
    return [...parts].map(textOf).join("\n\n");
  }

  /** @returns {Child[]} */
  #aboutGraph() {
    const { error, notes } = this.model.document;
    /**
     * @param {"svg"|"png"} kind
     * @param {string} words
     */
    const save = (kind, words) => h("button", { type: "button", onclick: () => this.actions.save(kind) }, words);
    return [
      error ? h("p", { class: "error" }, error) : null,
      differenceSummary(this.model),
      notes.length ? section("notes", [lines(notes)]) : null,
      h("div", { class: "buttons" }, save("svg", "Save as SVG"), save("png", "Save as PNG")),
      h("p", { class: "hint" }, "Click something to see all that is known of it; what its gradient flows to and came from lights up. ",
        h("kbd", {}, "?"), " lists the keys."),
    ];
  }
}
