/**
 * The table of parameters: which gradient each of them got. A click on a heading sorts, one on a row goes to the leaf.
 *
 * @import { PageParameter } from "../document/types.js"
 * @import { Model } from "../graph/model.js"
 * @import { Go } from "./sections.js"
 *
 * @typedef {"name"|"norm"|"ratio"|"status"} Column
 */
import { h } from "../shared/dom.js";
import { figure } from "../shared/number-words.js";
import { breakable } from "./sections.js";

const MAX_ROWS = 400;
/** @type {{key: Column, words: string}[]} */
const COLUMNS = [{ key: "name", words: "parameter" }, { key: "norm", words: "gradient" }, { key: "ratio", words: "÷ weight" }];

export class Parameters {
  /**
   * @param {Model} model
   * @param {Go} go
   * @param {() => void} onSort
   */
  constructor(model, go, onSort) {
    this.model = model;
    this.go = go;
    this.onSort = onSort;
    /** @type {{by: Column|null, down: boolean}} */
    this.sorted = { by: null, down: true };
  }

  /** @param {number|null} selected an item */
  parts(selected) {
    const rows = inOrder(this.model.document.parameters, this.sorted);
    const lost = rows.filter((row) => row.is_lost).length;
    const summary = `${rows.length.toLocaleString("en")} in all${lost ? `; ${lost.toLocaleString("en")} with nothing, zeros, NaN or Inf` : ""}`;
    return [
      h("p", { class: "quiet" }, summary),
      h("table", { class: "parameters" },
        h("thead", {}, h("tr", {}, COLUMNS.map(({ key, words }) => h("th", { "aria-sort": this.#orderOf(key) }, this.#sorter(key, words),
          key === "name" ? this.#sorter("status", "status") : null)))),
        h("tbody", {}, rows.slice(0, MAX_ROWS).map((row) => this.#row(row, selected)))),
      rows.length > MAX_ROWS ? h("p", { class: "quiet" }, `and ${(rows.length - MAX_ROWS).toLocaleString("en")} more: search finds them`) : null,
    ];
  }

  /** @param {Column} key */
  #orderOf(key) {
    const isSorted = this.sorted.by === key || (key === "name" && this.sorted.by === "status");
    return isSorted ? (this.sorted.down ? "descending" : "ascending") : "none";
  }

  /**
   * @param {Column} key
   * @param {string} words
   */
  #sorter(key, words) {
    const isSorted = this.sorted.by === key;
    const sort = () => {
      this.sorted = { by: key, down: isSorted ? !this.sorted.down : key !== "name" };
      this.onSort();
    };
    return h("button", { type: "button", "data-focus": `sort-${key}`, onclick: sort }, words, isSorted ? (this.sorted.down ? " ↓" : " ↑") : "");
  }

  /**
   * @param {PageParameter} row
   * @param {number|null} selected
   */
  #row(row, selected) {
    const item = this.model.itemOfNode(row.node);
    const isCurrent = selected !== null && row.node !== null && (this.model.items[selected].nodes ?? []).includes(row.node);
    const name = item === undefined ? breakable(row.name)
      : h("button", { type: "button", "data-focus": `parameter-${row.name}`, "aria-current": isCurrent ? "true" : null, onclick: () => this.go(item) }, breakable(row.name));
    return h("tr", { class: row.is_lost ? "lost-row" : null },
      h("td", {}, name, h("div", { class: "quiet" }, [row.shape, row.status].filter(Boolean).join(" · "))),
      h("td", { class: "figure" }, figure(row.norm)), h("td", { class: "figure" }, figure(row.ratio)));
  }
}

/**
 * @param {PageParameter[]} parameters
 * @param {{by: Column|null, down: boolean}} sorted
 */
export function inOrder(parameters, { by, down }) {
  const rows = [...parameters];
  const sign = down ? -1 : 1;
  if (by === null) return rows;
  if (by === "name") return rows.sort((one, other) => sign * one.name.localeCompare(other.name, "en", { numeric: true }));
  // What is lost first, then whatever else there is to say.
  if (by === "status") return rows.sort((one, other) => sign * (urgency(one) - urgency(other)) || one.status.localeCompare(other.status));
  return rows.sort((one, other) => {
    const [left, right] = [one[by], other[by]];
    // What was not measured stands last, whichever way.
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    return sign * (left - right);
  });
}

/** @param {PageParameter} row */
const urgency = (row) => 2 * Number(row.is_lost) + Number(Boolean(row.status));
