/** The search field: finds as one types, lists what it found, and jumps to it. */
import { byId, h } from "./dom.js";
import { NearWords } from "./near.js";
import { entriesOf, parse } from "./query.js";

const MOST_LISTED = 200;
const MOST_NEAR = 3;

/** Of an entry of the list. */
const idOf = (at) => `found-${at}`;

export class Search {
  #entries = null;
  #nearWords = null;
  #found = [];
  #at = -1;

  /**
   * @param {import("./model.js").Model} model
   * @param {{isMeant: (number: number) => boolean, onFound: (numbers: number[]|null) => void, onGo: (number: number) => void}} page
   *   what is not meant is not found
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
    if (this.#entries) return;
    this.#entries = entriesOf(this.model);
    this.#nearWords = new NearWords(this.#entries);
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  clear() {
    this.field.value = "";
    this.#find();
  }

  /** To the next of what was found, or the one before. */
  step(by) {
    if (!this.#found.length) return;
    this.#at = (this.#at + by + this.#found.length) % this.#found.length;
    this.#tell();
    this.onGo(this.#found[this.#at]);
    byId("search-list").children[this.#at]?.scrollIntoView({ block: "nearest" });
  }

  /** As if `words` had been typed, and these items found. */
  show(words, numbers) {
    this.field.value = words;
    this.#take(numbers, "");
  }

  /** Once what is meant has changed. */
  again() {
    if (this.field.value) this.#find();
  }

  #find() {
    const typed = this.field.value.trim();
    this.prepare();
    const { problem } = parse(typed);
    this.#take(typed && !problem ? this.#fitting(typed) : null, problem);
  }

  /** The items that what is typed means. */
  #fitting(typed) {
    const { fits } = parse(typed);
    return this.#entries.filter((entry) => fits(entry) && this.isMeant(entry.number)).map(({ number }) => number);
  }

  /** @param {number[]|null} numbers null where nothing is searched for, or cannot be */
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
    [...byId("search-list").children].forEach((entry, at) => entry.setAttribute("aria-selected", at === this.#at));
    if (this.#at < 0 || this.#at >= MOST_LISTED) this.field.removeAttribute("aria-activedescendant");
    else this.field.setAttribute("aria-activedescendant", idOf(this.#at));
  }

  #list(problem) {
    const rows = this.#found.slice(0, MOST_LISTED).map((number, at) => this.#row(number, at));
    const rest = this.#found.length - MOST_LISTED;
    if (rest > 0) rows.push(h("li", { class: "rest" }, `and ${rest.toLocaleString("en")} more`));
    if (!rows.length && !problem) rows.push(...this.#near().map((words) => this.#nearRow(words)));
    byId("search-list").replaceChildren(...rows);
    byId("search-list").hidden = !rows.length || Boolean(problem);
    this.field.setAttribute("aria-expanded", !byId("search-list").hidden);
  }

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
  #near() {
    const typed = this.field.value.trim();
    const near = typed ? this.#nearWords?.to(typed) ?? [] : [];
    return near.slice(0, MOST_NEAR).filter((words) => this.#fitting(words).length);
  }

  #nearRow(words) {
    const type = () => {
      this.field.value = words;
      this.#find();
      this.field.focus();
    };
    return h("li", { role: "option", class: "near", "aria-selected": "false", onclick: type }, h("span", { class: "quiet" }, "like it: "), h("b", {}, words));
  }

  #key(event) {
    if (event.key === "Enter" && !this.#found.length) byId("search-list").querySelector(".near")?.click();
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
