/** A map whose areas are bytes, in the colours of the picture. Whoever cannot see it has the list below it. */
import { stratify, treemap as mapOf } from "d3-hierarchy";
import { byId, s } from "./dom.js";
import { bytes, counted } from "./parts.js";
import { shadeOf } from "./shapes.js";

const LINE = 14;
const TITLE = 17;
const PADDING = 3;
const LEAST_SIDE = 3;
/** A box that is smaller says what it is, and not what is in it. */
const LEAST_OPEN = { width: 96, height: 60 };
const ROLES = { input: "input", intermediate: "operation" };
const pen = document.createElement("canvas").getContext("2d");

/**
 * @param {object[]} cells the outermost first; `around` is the place of the one in which a cell lies
 * @param {(cell: object) => void} go
 */
export function treemap(cells, go) {
  const width = byId("panel").clientWidth - 34;
  const height = Math.round(Math.min(width, Math.max(260, innerHeight - 340)));
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const map = s("svg", { class: "treemap", width, height, role: "img", "aria-label": "areas are bytes; the list below says the same in words" });
  for (const node of placed(cells, width, height)) map.append(cellElement(node, go));
  return map;
}

/** Those that can be seen, the outer before those in them. */
function placed(cells, width, height) {
  const root = stratify().id(({ place }) => String(place)).parentId((cell) => (cell === cells[0] ? "" : String(cell.around)))(cells);
  // What is left out of a cell keeps its area.
  root.eachAfter((node) => { node.value = node.data.size; });
  mapOf().size([width, height]).paddingInner(1).paddingTop(roomAbove)
    .paddingRight(roomBeside).paddingBottom(roomBeside).paddingLeft(roomBeside)(root);
  root.each((node) => { node.isShown = !node.parent || (node.parent.isShown && isOpen(node.parent)); });
  return root.descendants().slice(1).filter((node) => node.isShown && node.x1 - node.x0 >= LEAST_SIDE && node.y1 - node.y0 >= LEAST_SIDE);
}

const isOpen = (node) => !node.parent || (Boolean(node.children) && node.x1 - node.x0 >= LEAST_OPEN.width && node.y1 - node.y0 >= LEAST_OPEN.height);
const roomAbove = (node) => (node.depth ? TITLE : 0);
const roomBeside = (node) => (node.depth ? PADDING : 0);

function cellElement(node, go) {
  const { data: cell, x0: x, y0: y, x1, y1, depth } = node;
  const isAround = isOpen(node);
  const words = isAround ? titleWords(cell, x1 - x) : leafWords(cell, x1 - x, y1 - y);
  const css = cell.kind === "box" ? `o ${shadeOf(depth - 1)}` : "s";
  const element = s("g", { class: ["cell", ROLES[cell.kind] ?? "", cell.isCurrent ? "current" : ""].join(" "), transform: `translate(${x} ${y})` },
    s("title", {}, told(cell)),
    s("rect", { class: css, width: x1 - x, height: y1 - y, rx: cell.kind === "box" ? 3 : 1 }),
    s("g", { class: cell.kind === "box" ? "h" : "" }, words.map(([text, style], row) => s("text", { class: style, x: 5, y: LINE * (row + 1) - 2 }, text))));
  element.addEventListener("click", () => go(cell));
  return element;
}

function told({ name, size, storages, file, line }) {
  const place = file && line ? `${file.split(/[\\/]/).at(-1)}:${line}` : "";
  return [name, `${bytes(size)} in ${counted(storages, "storage")}`, place].filter(Boolean).join(", ");
}

/** The title, and its size where there is room for all of it: a figure that was cut says something else. */
function titleWords({ title, size }, room) {
  const whole = `${title}  ${bytes(size)}`;
  return [[fits(whole, room) ? whole : shortened(title, room), "name"]];
}

function leafWords({ title, size, kind }, width, height) {
  if (width < 34 || height < LINE + 4) return [];
  // A module's last name says more than its first, an operation's more than its slot.
  const name = fits(title, width) || kind === "box" ? title : title.split(".")[0];
  const rows = [[shortened(name, width), kind === "box" ? "name" : ""]];
  if (height >= 2 * LINE + 4 && fits(bytes(size), width)) rows.push([bytes(size), "q"]);
  return rows;
}

const fits = (words, room) => pen.measureText(words).width <= room - 9;

function shortened(words, room) {
  if (fits(words, room)) return words;
  let kept = words.slice(0, Math.ceil(room / 2)); // however long a name is
  while (kept && !fits(`${kept}…`, room)) kept = kept.slice(0, -1);
  return kept ? `${kept}…` : "";
}
