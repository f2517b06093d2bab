/**
 * What is kept for backward: a map whose areas are bytes, and a list, by module or by line.
 *
 * @import { PageCell } from "../document/types.js"
 * @import { PageMemory } from "../document/wire-types.js"
 * @import { Model } from "../graph/model.js"
 * @import { LightUp } from "./source-code.js"
 * @import { Go } from "./sections.js"
 *
 * @typedef {Omit<PageCell, "nodes"> & {index: number, items: Set<number>, isCurrent: boolean}} Cell with the items that it leads
 *   to: a module's own box, or all that keep something there
 */
import { decodeCells } from "../document/decode-document.js";
import { h } from "../shared/dom.js";
import { bytes } from "../shared/number-words.js";
import { treemap } from "./memory-treemap.js";
import { bar } from "./sections.js";

const MAX_ROWS = 200;
/** @type {{by: "by_module"|"by_line", words: string}[]} */
const WAYS = [{ by: "by_module", words: "by module" }, { by: "by_line", words: "by line" }];

export class Memory {
  /** @type {"by_module"|"by_line"} */
  #by = "by_module";
  /** The cell that fills the map, by its index. */
  #zoomed = 0;

  /**
   * @param {Model} model
   * @param {{select: Go, light: LightUp}} actions
   * @param {() => void} onTurn
   */
  constructor(model, actions, onTurn) {
    this.model = model;
    this.actions = actions;
    this.onTurn = onTurn;
  }

  /**
   * @param {PageMemory} memory
   * @param {number|null} selected an item
   */
  parts(memory, selected) {
    const { bytes: whole, parameter_bytes: parameters, recomputed_bytes: recomputed, unknown } = memory;
    const all = this.#cells(memory, selected);
    const cells = within(all, this.#zoomed);
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

  /**
   * @param {Cell[]} all
   * @param {Cell[]} cells
   */
  #map(all, cells) {
    const input = cells.some(({ kind }) => kind === "input") ? ", yellow is input that was there before" : "";
    return [
      h("div", { class: "ways", role: "group", "aria-label": "what areas are told apart by" }, WAYS.map(({ by, words }) => this.#switch(by, words))),
      this.#zoomed ? this.#wayIn(all) : null,
      treemap(cells, (cell) => this.#go(cell)),
      h("p", { class: "quiet" }, `areas are bytes${input}; a click shows where it is`),
    ];
  }

  /**
   * @param {"by_module"|"by_line"} by
   * @param {string} words
   */
  #switch(by, words) {
    const turn = () => {
      this.#by = by;
      this.#zoomed = 0;
      this.onTurn();
    };
    return h("button", { type: "button", "data-focus": by, "aria-pressed": String(by === this.#by), onclick: turn }, words);
  }

  /**
   * @param {PageMemory} memory
   * @param {number|null} selected
   * @returns {Cell[]}
   */
  #cells(memory, selected) {
    const modules = this.#by === "by_module" ? this.#modules() : new Map();
    const own = new Set(selected === null ? [] : this.model.items[selected].nodes);
    const cells = decodeCells(memory, this.#by).map(({ nodes, ...cell }, index) => ({
      ...cell, index, items: new Set(nodes.flatMap((node) => this.model.itemOfNode(node) ?? [])), isCurrent: nodes.some((node) => own.has(node)),
    }));
    for (const { around, items } of [...cells].reverse()) if (around !== null) items.forEach((item) => cells[around].items.add(item));
    for (const cell of cells) {
      const module = cell.kind === "box" ? modules.get(cell.name) : undefined;
      if (module === undefined) continue;
      cell.items = new Set([module]);
      cell.isCurrent = module === selected;
    }
    return cells;
  }

  /**
   * Boxes by the paths of all that they stand for.
   *
   * @returns {Map<string, number>}
   */
  #modules() {
    const found = new Map();
    for (const box of [...this.model.boxes.keys()].reverse()) {
      for (const path of this.model.items[box].names ?? []) found.set(path, box);
    }
    return found;
  }

  /**
   * From the whole map to the cell that fills it.
   *
   * @param {Cell[]} cells
   */
  #wayIn(cells) {
    const around = [cells[this.#zoomed]];
    for (let outer = around[0].around; outer !== null; outer = cells[outer].around) around.unshift(cells[outer]);
    /** @param {Cell} cell */
    const step = ({ index, title }) => h("button", { type: "button", "data-focus": `zoom-${index}`, onclick: () => this.#zoom(index) }, title || "all");
    return h("div", { class: "way" }, around.flatMap((cell, at) => [at ? " › " : "", step(cell)]));
  }

  /** @param {number} index */
  #zoom(index) {
    this.#zoomed = index;
    this.onTurn();
  }

  /**
   * To where it is in the picture; a box fills the map besides.
   *
   * @param {Cell} cell
   */
  #go({ items, name, kind, index }) {
    if (kind === "box") this.#zoomed = index;
    if (items.size === 1) for (const item of items) this.actions.select(item);
    else if (items.size) this.actions.light([...items], name);
    if (kind === "box") this.onTurn();
  }

  /**
   * @param {Cell[]} cells
   * @param {number} whole
   */
  #rows(cells, whole) {
    const shown = cells.filter(({ kind, around, line }) => kind === "box" && around !== null && (this.#by === "by_module" || line))
      .filter(({ index }) => index !== this.#zoomed).sort((one, other) => other.bytes - one.bytes);
    /** @type {HTMLElement[]} */
    const rows = shown.slice(0, MAX_ROWS).map((cell) => {
      const words = [h("span", { class: "cost" }, bar(cell.bytes, whole), bytes(cell.bytes)), h("span", {}, cell.name)];
      return h("button", { type: "button", "data-focus": `cell-${cell.name}`, "aria-current": cell.isCurrent ? "true" : null, onclick: () => this.#go(cell) }, words);
    });
    if (shown.length > MAX_ROWS) rows.push(h("p", { class: "quiet" }, `and ${(shown.length - MAX_ROWS).toLocaleString("en")} more`));
    return rows;
  }
}

/**
 * A cell and everything in it; those in it stand behind it.
 *
 * @param {Cell[]} cells
 * @param {number} index
 */
function within(cells, index) {
  const own = new Set([index]);
  return cells.filter((cell) => {
    const isIn = cell.index === index || (cell.around !== null && own.has(cell.around));
    if (isIn) own.add(cell.index);
    return isIn;
  });
}
