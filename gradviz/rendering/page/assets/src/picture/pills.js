/**
 * The words on items: what stands beside a title in a pill is the figure that colours show, or else what Python put there.
 *
 * @import { Item, PageChip, PageLine } from "../document/types.js"
 */
import { brushOf, byId } from "../shared/dom.js";

/** As in `gradviz.rendering.look.node_label`. */
const GAP = 7;
const PADDING = 6;
const FONT = "700 10px";

const brush = brushOf(document.createElement("canvas"));
/** @type {Map<string, number>} */
const widths = new Map();

/** @param {string} text */
function widthOf(text) {
  if (!widths.size) brush.font = `${FONT} ${getComputedStyle(byId("picture")).fontFamily}`;
  const width = widths.get(text) ?? brush.measureText(text).width + 2 * PADDING;
  widths.set(text, width);
  return width;
}

/**
 * ``×12 · 0.0312``; empty where nothing was measured, or a flag says it already.
 *
 * @param {Item} item
 * @param {string} colour
 */
export function pillWords({ figures, chips = [], repeat = 1 }, colour) {
  const figure = figures?.[colour];
  if (!figure || chips.some(({ text, level }) => level && text === figure)) return "";
  return repeat > 1 ? `×${repeat.toLocaleString("en")} · ${figure}` : figure;
}

/**
 * The lines and chips of a closed item. Labels are wide enough for each of their pills.
 *
 * @param {Item} item
 * @param {string} colour
 * @returns {{lines: PageLine[], chips: PageChip[]}}
 */
export function wordsOn(item, colour) {
  const { lines = [], chips = [] } = item;
  const text = pillWords(item, colour);
  const [title, ...others] = lines;
  if (!text || title?.style !== "t") return { lines, chips };
  const was = chips.find(({ level }) => !level);
  const width = widthOf(text);
  const by = ((was ? was.width + GAP : 0) - width - GAP) / 2;
  const moved = { ...title, x: title.x + by, aside_x: (title.aside_x ?? 0) + by };
  const titleWidth = item.width - 2 * (was ? title.x + (was.width + GAP) / 2 : title.x);
  const pill = { text, width, x: moved.x + titleWidth + GAP, y: title.y };
  return { lines: [moved, ...others], chips: [pill, ...chips.filter((chip) => chip !== was)] };
}

/**
 * The pill beside the title of an open box.
 *
 * @param {Item} item
 * @param {PageChip|null|undefined} chip
 * @param {string} colour
 * @returns {PageChip|null}
 */
export function pillOfOpen(item, chip, colour) {
  const text = pillWords(item, colour);
  return chip && text ? { ...chip, text, width: widthOf(text) } : chip ?? null;
}
