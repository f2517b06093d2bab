/**
 * A map whose areas are bytes, in the colours of the picture. Whoever cannot see it has the list below it.
 *
 * @import { HierarchyRectangularNode } from "d3-hierarchy"
 * @import { Cell } from "./memory.js"
 *
 * @typedef {HierarchyRectangularNode<Cell>} Tile a cell with its corners
 * @typedef {{text: string, style: string}} Line
 */
import { stratify, treemap as mapOf } from "d3-hierarchy";
import { shadeOf } from "../picture/svg-elements.js";
import { brushOf, byId, s } from "../shared/dom.js";
import { bytes, counted } from "../shared/number-words.js";

const LINE = 14;
const TITLE = 17;
const PADDING = 3;
const MIN_SIDE = 3;
/** A box that is smaller says what it is, and not what is in it. */
const MIN_OPEN = { width: 96, height: 60 };
/** @type {Record<string, string>} */
const ROLES = { input: "input", intermediate: "operation" };
const pen = brushOf(document.createElement("canvas"));

/**
 * @param {Cell[]} cells the outermost first
 * @param {(cell: Cell) => void} go
 */
export function treemap(cells, go) {
  // A frame may be narrower than the margins of the panel.
  const width = Math.max(byId("panel").clientWidth - 34, 0);
  const height = Math.round(Math.min(width, Math.max(260, innerHeight - 340)));
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const map = s("svg", { class: "treemap", width, height, role: "img", "aria-label": "areas are bytes; the list below says the same in words" });
  for (const tile of tilesOf(cells, width, height)) map.append(tileElement(tile, go));
  return map;
}

/**
 * Those that can be seen, the outer before those in them.
 *
 * @param {Cell[]} cells
 * @param {number} width
 * @param {number} height
 * @returns {Tile[]}
 */
function tilesOf(cells, width, height) {
  /** @type {import("d3-hierarchy").StratifyOperator<Cell>} */
  const treeOf = stratify();
  const tree = treeOf.id(({ index }) => String(index)).parentId((cell) => (cell === cells[0] ? "" : String(cell.around)))(cells);
  // What is left out of a cell keeps its area: d3's own sums would lose it.
  tree.eachAfter((node) => Object.assign(node, { value: node.data.bytes }));
  /** @type {import("d3-hierarchy").TreemapLayout<Cell>} */
  const layout = mapOf();
  const root = layout.size([width, height]).paddingInner(1).paddingTop(roomAbove)
    .paddingRight(roomBeside).paddingBottom(roomBeside).paddingLeft(roomBeside)(tree);
  /** @type {Set<Tile>} */
  const shown = new Set();
  root.each((tile) => {
    if (!tile.parent || (shown.has(tile.parent) && isOpen(tile.parent))) shown.add(tile);
  });
  return root.descendants().slice(1).filter((tile) => shown.has(tile) && tile.x1 - tile.x0 >= MIN_SIDE && tile.y1 - tile.y0 >= MIN_SIDE);
}

/** @param {Tile} tile */
const isOpen = (tile) => !tile.parent || (Boolean(tile.children) && tile.x1 - tile.x0 >= MIN_OPEN.width && tile.y1 - tile.y0 >= MIN_OPEN.height);

/** @param {Tile} tile */
const roomAbove = (tile) => (tile.depth ? TITLE : 0);

/** @param {Tile} tile */
const roomBeside = (tile) => (tile.depth ? PADDING : 0);

/**
 * @param {Tile} tile
 * @param {(cell: Cell) => void} go
 */
function tileElement(tile, go) {
  const { data: cell, x0: x, y0: y, x1, y1, depth } = tile;
  const lines = isOpen(tile) ? [titleLine(cell, x1 - x)] : leafLines(cell, x1 - x, y1 - y);
  const css = cell.kind === "box" ? `o ${shadeOf(depth - 1)}` : "s";
  const element = s("g", { class: ["cell", ROLES[cell.kind] ?? "", cell.isCurrent ? "current" : ""].join(" "), transform: `translate(${x} ${y})` },
    s("title", {}, told(cell)),
    s("rect", { class: css, width: x1 - x, height: y1 - y, rx: cell.kind === "box" ? 3 : 1 }),
    s("g", { class: cell.kind === "box" ? "h" : "" }, lines.map(({ text, style }, row) => s("text", { class: style, x: 5, y: LINE * (row + 1) - 2 }, text))));
  element.addEventListener("click", () => go(cell));
  return element;
}

/** @param {Cell} cell */
function told({ name, bytes: size, storages, file, line }) {
  const where = file && line ? `${file.split(/[\\/]/).at(-1)}:${line}` : "";
  return [name, `${bytes(size)} in ${counted(storages, "storage")}`, where].filter(Boolean).join(", ");
}

/**
 * The title, and its size where there is room for all of it: a figure that was cut says something else.
 *
 * @param {Cell} cell
 * @param {number} room
 * @returns {Line}
 */
function titleLine({ title, bytes: size }, room) {
  const whole = `${title}  ${bytes(size)}`;
  return { text: fits(whole, room) ? whole : shortened(title, room), style: "name" };
}

/**
 * @param {Cell} cell
 * @param {number} width
 * @param {number} height
 * @returns {Line[]}
 */
function leafLines({ title, bytes: size, kind }, width, height) {
  if (width < 34 || height < LINE + 4) return [];
  // A module's last name says more than its first, an operation's more than its slot.
  const name = fits(title, width) || kind === "box" ? title : title.split(".")[0];
  const lines = [{ text: shortened(name, width), style: kind === "box" ? "name" : "" }];
  if (height >= 2 * LINE + 4 && fits(bytes(size), width)) lines.push({ text: bytes(size), style: "q" });
  return lines;
}

/**
 * @param {string} words
 * @param {number} room
 */
const fits = (words, room) => pen.measureText(words).width <= room - 9;

/**
 * @param {string} words
 * @param {number} room
 */
function shortened(words, room) {
  if (fits(words, room)) return words;
  let kept = words.slice(0, Math.ceil(room / 2)); // however long a name is
  while (kept && !fits(`${kept}…`, room)) kept = kept.slice(0, -1);
  return kept ? `${kept}…` : "";
}
