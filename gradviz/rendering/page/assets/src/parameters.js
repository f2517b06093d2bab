/** The table of parameters: which gradient each of them got. A click on a heading sorts, one on a row goes to the leaf. */
import { h } from "./dom.js";
import { breakable, figure } from "./parts.js";

const MOST_ROWS = 400;
const COLUMNS = [["name", "parameter"], ["norm", "gradient"], ["ratio", "÷ weight"]];

export class Parameters {
  /** @param {import("./model.js").Model} model @param {(number: number) => void} go @param {() => void} onSort */
  constructor(model, go, onSort) {
    this.model = model;
    this.go = go;
    this.onSort = onSort;
    this.sorted = { by: null, down: true };
  }

  /** @param {number|null} selected an item */
  parts(selected) {
    const rows = this.#inOrder();
    const lost = rows.filter((row) => row.is_lost).length;
    const summary = `${rows.length.toLocaleString("en")} in all${lost ? `; ${lost.toLocaleString("en")} with nothing, zeros, NaN or Inf` : ""}`;
    return [
      h("p", { class: "quiet" }, summary),
      h("table", { class: "parameters" },
        h("thead", {}, h("tr", {}, COLUMNS.map(([key, words]) => h("th", { "aria-sort": this.#orderOf(key) }, this.#sorter(key, words),
          key === "name" ? this.#sorter("status", "status") : null)))),
        h("tbody", {}, rows.slice(0, MOST_ROWS).map((row) => this.#row(row, selected)))),
      rows.length > MOST_ROWS ? h("p", { class: "quiet" }, `and ${(rows.length - MOST_ROWS).toLocaleString("en")} more: search finds them`) : null,
    ];
  }

  #orderOf(key) {
    const isSorted = this.sorted.by === key || (key === "name" && this.sorted.by === "status");
    return isSorted ? (this.sorted.down ? "descending" : "ascending") : "none";
  }

  #sorter(key, words) {
    const isSorted = this.sorted.by === key;
    const sort = () => {
      this.sorted = { by: key, down: isSorted ? !this.sorted.down : key !== "name" };
      this.onSort();
    };
    return h("button", { type: "button", "data-focus": `sort-${key}`, onclick: sort }, words, isSorted ? (this.sorted.down ? " ↓" : " ↑") : "");
  }

  #inOrder() {
    const { by, down } = this.sorted;
    const rows = [...this.model.document.parameters];
    if (!by) return rows;
    const sign = down ? -1 : 1;
    const compare = {
      name: (one, other) => sign * one.name.localeCompare(other.name, "en", { numeric: true }),
      // What is lost first, then whatever else there is to say.
      status: (one, other) => sign * (one.is_lost - other.is_lost || Boolean(one.status) - Boolean(other.status)) || one.status.localeCompare(other.status),
    }[by];
    // What was not measured stands last, whichever way.
    return rows.sort(compare ?? ((one, other) =>
      (one[by] === null || other[by] === null ? (one[by] === null) - (other[by] === null) : sign * (one[by] - other[by]))));
  }

  #row(row, selected) {
    const item = row.node === null ? undefined : this.model.itemOfNode(row.node);
    const isCurrent = selected !== null && (this.model.items[selected].nodes ?? []).includes(row.node);
    const name = item === undefined ? breakable(row.name)
      : h("button", { type: "button", "data-focus": `parameter-${row.name}`, "aria-current": isCurrent ? "true" : null, onclick: () => this.go(item) }, breakable(row.name));
    return h("tr", { class: row.is_lost ? "lost-row" : null },
      h("td", {}, name, h("div", { class: "quiet" }, [row.shape, row.status].filter(Boolean).join(" · "))),
      h("td", { class: "figure" }, figure(row.norm)), h("td", { class: "figure" }, figure(row.ratio)));
  }
}
