/** What is kept for backward: a map whose areas are bytes, and a list, by module or by line. */
import { h } from "./dom.js";
import { bar, bytes } from "./parts.js";
import { treemap } from "./treemap.js";

const MOST_ROWS = 200;
const WAYS = { by_module: "by module", by_line: "by line" };

export class Memory {
  /**
   * @param {import("./model.js").Model} model
   * @param {{select: (number: number) => void, light: (numbers: number[], words: string) => void}} actions
   * @param {() => void} onTurn
   */
  constructor(model, actions, onTurn) {
    this.model = model;
    this.actions = actions;
    this.onTurn = onTurn;
    this.way = "by_module";
    /** The cell that fills the map, by its place. */
    this.zoomed = 0;
  }

  /** @param {number|null} selected an item */
  parts(selected) {
    const { bytes: whole, parameter_bytes: parameters, recomputed_bytes: recomputed, unknown } = this.model.document.memory;
    const all = this.#cells(selected);
    const cells = within(all, this.zoomed);
    const more = [
      parameters ? `${bytes(parameters)} of parameters and buffers are kept as well, and not counted` : "",
      recomputed ? `${bytes(recomputed)} were given up by checkpointing, which computes them again` : "",
      unknown ? "some saved tensors could not be sized" : "",
    ];
    return [
      h("p", {}, h("b", {}, bytes(whole)), " kept for backward, every storage counted once"),
      h("p", { class: "quiet" }, more.filter(Boolean).join("; ")),
      ...(whole ? this.#map(all, cells) : []),
      h("div", { class: "bytes-list" }, this.#rows(cells, whole)),
    ];
  }

  #map(all, cells) {
    const input = cells.some(({ kind }) => kind === "input") ? ", yellow is input that was there before" : "";
    return [
      h("div", { class: "ways", role: "group", "aria-label": "what areas are told apart by" }, Object.entries(WAYS).map(([way, words]) => this.#switch(way, words))),
      this.zoomed ? this.#way(all) : null,
      treemap(cells, (cell) => this.#go(cell)),
      h("p", { class: "quiet" }, `areas are bytes${input}; a click shows where it is`),
    ];
  }

  #switch(way, words) {
    const turn = () => {
      this.way = way;
      this.zoomed = 0;
      this.onTurn();
    };
    return h("button", { type: "button", "data-focus": way, "aria-pressed": String(way === this.way), onclick: turn }, words);
  }

  /** Every cell with the items that it leads to: a module's own box, or all that keep something there. */
  #cells(selected) {
    const modules = this.way === "by_module" ? this.#modules() : new Map();
    const own = new Set(selected === null ? [] : this.model.items[selected].nodes);
    const cells = this.model.document.memory[this.way].map(([around, size, title, name = "", kind = "box", storages = 0, file = "", line = 0, nodes = []], place) => ({
      place, around, size, title, name, kind, storages, file, line,
      items: new Set(nodes.flatMap((node) => this.model.itemOfNode(node) ?? [])), isCurrent: nodes.some((node) => own.has(node)),
    }));
    for (const cell of [...cells].reverse()) if (cell.around !== null) cell.items.forEach((item) => cells[cell.around].items.add(item));
    for (const cell of cells) {
      const module = cell.kind === "box" ? modules.get(cell.name) : undefined;
      if (module === undefined) continue;
      cell.items = new Set([module]);
      cell.isCurrent = module === selected;
    }
    return cells;
  }

  /** Boxes by the paths of all that they stand for. */
  #modules() {
    const boxes = [...this.model.boxes.keys()].reverse();
    return new Map(boxes.flatMap((box) => (this.model.items[box].names ?? []).map((path) => [path, box])));
  }

  /** From the whole map to the cell that fills it. */
  #way(cells) {
    const around = [];
    for (let cell = cells[this.zoomed]; cell; cell = cells[cell.around]) around.unshift(cell);
    const step = ({ place, title }) => h("button", { type: "button", "data-focus": `zoom-${place}`, onclick: () => this.#zoom(place) }, title || "all");
    return h("div", { class: "way" }, around.map((cell, at) => [at ? " › " : "", step(cell)]).flat());
  }

  #zoom(place) {
    this.zoomed = place;
    this.onTurn();
  }

  /** To where it is in the picture; a box fills the map besides. */
  #go({ items, name, kind, place }) {
    if (kind === "box") this.zoomed = place;
    this.#lead(items, name);
    if (kind === "box") this.onTurn();
  }

  #lead(items, name) {
    if (items.size === 1) this.actions.select([...items][0]);
    else if (items.size) this.actions.light([...items], name);
  }

  #rows(cells, whole) {
    const shown = cells.filter(({ kind, around, line }) => kind === "box" && around !== null && (this.way === "by_module" || line))
      .filter(({ place }) => place !== this.zoomed).sort((one, other) => other.size - one.size);
    const rows = shown.slice(0, MOST_ROWS).map((cell) => {
      const words = [h("span", { class: "cost" }, bar(cell.size, whole), bytes(cell.size)), h("span", {}, cell.name)];
      return h("button", { type: "button", "data-focus": `cell-${cell.name}`, "aria-current": cell.isCurrent ? "true" : null, onclick: () => this.#go(cell) }, words);
    });
    if (shown.length > MOST_ROWS) rows.push(h("p", { class: "quiet" }, `and ${(shown.length - MOST_ROWS).toLocaleString("en")} more`));
    return rows;
  }
}

/** A cell and everything in it; those in it stand behind it. */
function within(cells, place) {
  const own = new Set([place]);
  return cells.filter((cell) => cell.place === place || (own.has(cell.around) && own.add(cell.place)));
}
