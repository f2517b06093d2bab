/** What the panel lists of the whole graph: parameters with their gradients, and source lines with what they cost. */
import { h } from "./dom.js";
import { coloured } from "./source.js";

const MOST_ROWS = 400;
const COLUMNS = [["name", "parameter"], ["norm", "gradient"], ["ratio", "÷ weight"]];

/** The table of parameters; a click on a heading sorts, one on a row goes to the leaf. */
export class Parameters {
  /** @param {import("./model.js").Model} model @param {(number: number) => void} go @param {() => void} onSort */
  constructor(model, go, onSort) {
    this.model = model;
    this.go = go;
    this.onSort = onSort;
    this.sorted = { by: null, down: true };
  }

  parts() {
    const rows = this.#inOrder();
    const lost = rows.filter((row) => row.is_lost).length;
    const summary = `${rows.length.toLocaleString("en")} in all${lost ? `; ${lost.toLocaleString("en")} with nothing, zeros, NaN or Inf` : ""}`;
    return [
      h("p", { class: "quiet" }, summary),
      h("table", { class: "parameters" },
        h("thead", {}, h("tr", {}, COLUMNS.map(([key, words]) => this.#heading(key, words)))),
        h("tbody", {}, rows.slice(0, MOST_ROWS).map((row) => this.#row(row)))),
      rows.length > MOST_ROWS ? h("p", { class: "quiet" }, `and ${(rows.length - MOST_ROWS).toLocaleString("en")} more: search finds them`) : null,
    ];
  }

  #heading(key, words) {
    const isSorted = this.sorted.by === key;
    const sort = () => {
      this.sorted = { by: key, down: isSorted ? !this.sorted.down : key !== "name" };
      this.onSort();
    };
    const order = isSorted ? (this.sorted.down ? "descending" : "ascending") : "none";
    return h("th", { "aria-sort": order }, h("button", { type: "button", onclick: sort }, words, isSorted ? (this.sorted.down ? " ↓" : " ↑") : ""));
  }

  #inOrder() {
    const { by, down } = this.sorted;
    const rows = [...this.model.document.parameters];
    if (!by) return rows;
    const sign = down ? -1 : 1;
    // What was not measured stands last, whichever way.
    return rows.sort((one, other) => {
      if (by === "name") return sign * one.name.localeCompare(other.name, "en", { numeric: true });
      if (one[by] === null || other[by] === null) return (one[by] === null) - (other[by] === null);
      return sign * (one[by] - other[by]);
    });
  }

  #row(row) {
    const item = row.node === null ? undefined : this.model.itemOfNode(row.node);
    const name = item === undefined ? row.name : h("button", { type: "button", onclick: () => this.go(item) }, row.name);
    return h("tr", { class: row.is_lost ? "lost-row" : null },
      h("td", {}, name, h("div", { class: "quiet" }, [row.shape, row.status].filter(Boolean).join(" · "))),
      h("td", { class: "figure" }, figure(row.norm)), h("td", { class: "figure" }, figure(row.ratio)));
  }
}

/** Lines of the program, with what each of them keeps first; a click lights up what it made. */
export function lineParts(model, onLine) {
  const { sources } = model.document;
  const made = itemsByLine(model);
  const kept = new Map((model.document.memory?.lines ?? []).map(({ file, line, bytes: size }) => [`${file}:${line}`, size]));
  const most = Math.max(...kept.values(), 1);
  return Object.keys(sources).filter((file) => made.has(file)).flatMap((file) => {
    const numbers = Object.keys(sources[file]).map(Number).sort((one, other) => one - other);
    const rows = numbers.map((line) =>
      lineRow(sources[file][line], line, made.get(file).get(line), { size: kept.get(`${file}:${line}`) ?? 0, most }, onLine));
    return [h("h3", {}, file.split(/[\\/]/).at(-1)), h("div", { class: "source lines-view" }, rows)];
  });
}

function lineRow(text, line, items, { size, most }, onLine) {
  const words = [h("span", { class: "number" }, String(line)), h("code", {}, coloured(text))];
  if (!items) return h("div", { class: "idle" }, words);
  const title = `${items.length === 1 ? "1 thing is" : `${items.length} things are`} made here${size ? `, and ${bytes(size)} kept for backward` : ""}`;
  return h("button", { type: "button", title, onclick: () => onLine(items, line) }, words, h("span", { class: "cost" }, bar(size, most), size ? bytes(size) : ""));
}

function bar(size, most) {
  const element = h("span", { class: "bar" });
  element.style.width = `${Math.round((40 * size) / most)}px`;
  return element;
}

/** By file and line, without boxes and roots: those hold what stands there already. */
function itemsByLine(model) {
  const made = new Map();
  model.items.forEach((item, number) => {
    if (item.role === "box" || item.role === "root" || !item.source) return;
    const [file, line] = item.source;
    if (!made.has(file)) made.set(file, new Map());
    const lines = made.get(file);
    lines.set(line, [...(lines.get(line) ?? []), number]);
  });
  return made;
}

/** What modules keep for backward; a click goes to the module. */
export function memoryParts(model, go) {
  const { bytes: whole, parameter_bytes: parameters, unknown, modules } = model.document.memory;
  const boxes = new Map([...model.boxes.keys()].reverse().flatMap((box) => (model.items[box].names ?? []).map((path) => [path, box])));
  const rows = modules.filter(({ path, bytes: size }) => path && size).slice(0, MOST_ROWS).map(({ path, class_name: name, bytes: size }) => {
    const words = [h("span", { class: "cost" }, bar(size, Math.max(whole, 1)), bytes(size)), h("span", {}, path, h("span", { class: "quiet" }, ` ${name}`))];
    const box = boxes.get(path);
    return box === undefined ? h("div", {}, words) : h("button", { type: "button", onclick: () => go(box) }, words);
  });
  const more = [`${bytes(parameters)} of parameters and buffers are kept as well, and not counted`, unknown ? "some saved tensors could not be sized" : ""];
  return [
    h("p", {}, h("b", {}, bytes(whole)), " kept for backward, every storage counted once"),
    h("p", { class: "quiet" }, more.filter(Boolean).join("; ")),
    rows.length ? h("h3", {}, "modules, with those inside them") : null,
    h("div", { class: "module-bytes" }, rows),
  ];
}

/** The graphs of the page; below the one that is shown, what differs from the one before it. */
export function callParts({ calls, place }, go) {
  return calls.flatMap(({ title, place: line, size, changes }, number) => {
    const isShown = number === place;
    const words = [h("b", {}, title), h("span", { class: "quiet" }, [line, size].filter(Boolean).join(" · "))];
    const row = h("button", { type: "button", class: "call", "aria-current": isShown ? "true" : null, onclick: () => !isShown && go(number) }, words);
    if (!isShown || !number) return [row];
    const told = changes.map(({ heading, lines }) => [h("h4", {}, heading), h("ul", { class: "lines" }, lines.map((change) => h("li", {}, change)))]);
    const before = calls[number - 1].title;
    return [row, h("div", { class: "changes" }, h("p", { class: "quiet" }, told.length ? `Unlike in ${before}:` : `The same operations and figures as in ${before}.`), told.flat())];
  });
}

const figure = (value) => (value === null ? "–" : value === 0 ? "0" : value >= 1e-3 && value < 1e4 ? String(Number(value.toPrecision(3))) : value.toExponential(1));

function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(size, 1)) / 10));
  return `${Number((size / 1024 ** at).toPrecision(3))} ${units[at]}`;
}
