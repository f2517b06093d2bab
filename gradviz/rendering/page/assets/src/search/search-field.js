/**
 * The search field: finds as one types, lists what it found, and jumps to it.
 *
 * @import { Model } from "../graph/model.js"
 * @import { SearchableItem } from "./searchable-items.js"
 *
 * @typedef {object} SearchedPage
 * @property {(number: number) => boolean} isMeant what is not meant is not found
 * @property {(numbers: number[]|null) => void} onFound null where nothing is searched for
 * @property {(number: number) => void} onGo
 */
import { byId, h } from "../shared/dom.js";
import { parse } from "./query.js";
import { searchableItems } from "./searchable-items.js";
import { SimilarWords } from "./similar-words.js";

const MAX_LISTED = 200;
const MAX_SIMILAR = 3;

/**
 * Of an entry of the list.
 *
 * @param {number} at
 */
const idOf = (at) => `found-${at}`;

export class SearchField {
  /** @type {{items: SearchableItem[], similar: SimilarWords}|null} */
  #prepared = null;
  /** @type {number[]} */
  #found = [];
  #at = -1;

  /**
   * @param {Model} model
   * @param {SearchedPage} page
   */
  constructor(model, { isMeant, onFound, onGo }) {
    this.model = model;
    this.isMeant = isMeant;
    this.onFound = onFound;
    this.onGo = onGo;
    this.field = byId("search");
    this.field.addEventListener("input", () => this.#find());
    this.field.addEventListener("keydown", (event) => this.#key(event));
    byId("search-clear").addEventListener("click", () => this.clear());
    byId("search-next").addEventListener("click", () => this.step(1));
    byId("search-previous").addEventListener("click", () => this.step(-1));
  }

  /** Gathers the words that can be found: done beforehand, so that the first letter that is typed finds at once. */
  prepare() {
    if (!this.#prepared) {
      const items = searchableItems(this.model);
      this.#prepared = { items, similar: new SimilarWords(items) };
    }
    return this.#prepared;
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  clear() {
    this.field.value = "";
    this.#find();
  }

  /**
   * To the next of what was found, or the one before.
   *
   * @param {number} by
   */
  step(by) {
    if (!this.#found.length) return;
    this.#at = (this.#at + by + this.#found.length) % this.#found.length;
    this.#tell();
    this.onGo(this.#found[this.#at]);
    byId("search-list").children[this.#at]?.scrollIntoView({ block: "nearest" });
  }

  /**
   * As if `words` had been typed, and these items found.
   *
   * @param {string} words
   * @param {number[]} numbers
   */
  show(words, numbers) {
    this.field.value = words;
    this.#take(numbers, "");
  }

  /** What is searched for. */
  get words() {
    return this.field.value.trim();
  }

  /**
   * As if somebody had typed it, without the list.
   *
   * @param {string} words
   */
  type(words) {
    if (words === this.words) return;
    this.field.value = words;
    this.#find();
  }

  /** Once what is meant has changed. */
  again() {
    if (this.field.value) this.#find();
  }

  #find() {
    const typed = this.field.value.trim();
    const { problem } = parse(typed);
    this.prepare();
    this.#take(typed && !problem ? this.#fitting(typed) : null, problem);
  }

  /**
   * The items that what is typed means.
   *
   * @param {string} typed
   */
  #fitting(typed) {
    const { fits } = parse(typed);
    return this.prepare().items.filter((item) => fits(item) && this.isMeant(item.number)).map(({ number }) => number);
  }

  /**
   * @param {number[]|null} numbers null where nothing is searched for, or cannot be
   * @param {string} problem
   */
  #take(numbers, problem) {
    this.#found = numbers ?? [];
    this.#at = -1;
    this.onFound(numbers);
    byId("search-box").toggleAttribute("data-active", Boolean(this.field.value.trim()));
    this.#list(problem);
    this.#tell(problem);
  }

  #tell(problem = "") {
    const typed = this.field.value.trim();
    const { length } = this.#found;
    const count = this.#at < 0 ? `${length.toLocaleString("en")} found` : `${this.#at + 1} of ${length.toLocaleString("en")}`;
    byId("search-count").textContent = problem || (typed ? (length ? count : "nothing found") : "");
    [...byId("search-list").children].forEach((entry, at) => entry.setAttribute("aria-selected", String(at === this.#at)));
    if (this.#at < 0 || this.#at >= MAX_LISTED) this.field.removeAttribute("aria-activedescendant");
    else this.field.setAttribute("aria-activedescendant", idOf(this.#at));
  }

  /** @param {string} problem */
  #list(problem) {
    const rows = this.#found.slice(0, MAX_LISTED).map((number, at) => this.#row(number, at));
    const rest = this.#found.length - MAX_LISTED;
    if (rest > 0) rows.push(h("li", { class: "rest" }, `and ${rest.toLocaleString("en")} more`));
    if (!rows.length && !problem) rows.push(...this.#similar().map((words) => this.#similarRow(words)));
    byId("search-list").replaceChildren(...rows);
    byId("search-list").hidden = !rows.length || Boolean(problem);
    this.field.setAttribute("aria-expanded", String(!byId("search-list").hidden));
  }

  /**
   * @param {number} number
   * @param {number} at
   */
  #row(number, at) {
    const item = this.model.items[number];
    const around = this.model.boxesAround(number).at(-1);
    const where = around === undefined ? "" : this.model.nameOf(around);
    return h(
      "li",
      { role: "option", id: idOf(at), "aria-selected": "false", onclick: () => this.step(at - this.#at) },
      h("span", { class: `swatch ${item.role}` }),
      h("b", {}, item.title),
      h("span", { class: "quiet" }, [item.shape_words, item.line].filter(Boolean).join(" · ")),
      h("span", { class: "quiet where" }, where),
    );
  }

  /** What could have been meant where nothing was found. */
  #similar() {
    const typed = this.field.value.trim();
    const similar = typed ? this.#prepared?.similar.to(typed) ?? [] : [];
    return similar.slice(0, MAX_SIMILAR).filter((words) => this.#fitting(words).length);
  }

  /** @param {string} words */
  #similarRow(words) {
    const type = () => {
      this.field.value = words;
      this.#find();
      this.field.focus();
    };
    return h("li", { role: "option", class: "near", "aria-selected": "false", onclick: type }, h("span", { class: "quiet" }, "like it: "), h("b", {}, words));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === "Enter" && !this.#found.length) byId("search-list").querySelector(/** @type {"li"} */ (".near"))?.click();
    else if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    else if (event.key === "ArrowDown") this.step(1);
    else if (event.key === "ArrowUp") this.step(-1);
    else if (event.key === "Escape") {
      this.clear();
      this.field.blur();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
