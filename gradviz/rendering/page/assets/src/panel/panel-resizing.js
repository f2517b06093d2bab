/**
 * The edge between picture and panel, which can be moved: with the pointer, or with arrow keys.
 *
 * On a phone the panel is a sheet below the picture: its edge is the upper one, and a tap opens or closes it.
 */
import { byId } from "../shared/dom.js";

const MIN_WIDTH = 240;
const MIN_HEIGHT = 64;
const STEP = 24;
const OPEN = 0.5;
/** In pixels: what moves less is a tap. */
const STILL = 4;
/** @type {Map<string, number>} */
const KEYS = new Map([["ArrowLeft", STEP], ["ArrowRight", -STEP], ["ArrowUp", STEP], ["ArrowDown", -STEP]]);
const narrow = matchMedia("(max-width: 620px)");

/** Opens the sheet, where the panel is one and is closed. */
export function openSheet() {
  if (narrow.matches && byId("panel").offsetHeight < 2 * MIN_HEIGHT) resizeSheet(innerHeight * OPEN);
}

/** @param {number} height */
function resizeSheet(height) {
  byId("panel").style.setProperty("--sheet", `${Math.round(Math.min(Math.max(height, MIN_HEIGHT), innerHeight * 0.8))}px`);
}

/** @param {number} width */
function resizePanel(width) {
  byId("panel").style.setProperty("--panel", `${Math.round(Math.min(Math.max(width, MIN_WIDTH), innerWidth - MIN_WIDTH))}px`);
}

export function listenToEdge() {
  const [edge, panel] = [byId("panel-edge"), byId("panel")];
  let start = 0;
  /** Of the edge, which says how it lies. */
  const turn = () => edge.setAttribute("aria-orientation", narrow.matches ? "horizontal" : "vertical");
  turn();
  new ResizeObserver(() => edge.setAttribute("aria-valuenow", String(narrow.matches ? panel.offsetHeight : panel.offsetWidth))).observe(panel);
  narrow.addEventListener("change", turn);
  edge.addEventListener("pointerdown", (event) => {
    start = event.clientY;
    edge.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  edge.addEventListener("pointermove", (event) => {
    if (!edge.hasPointerCapture(event.pointerId)) return;
    if (narrow.matches) resizeSheet(innerHeight - event.clientY);
    else resizePanel(innerWidth - event.clientX);
  });
  edge.addEventListener("pointerup", (event) => {
    if (!narrow.matches || Math.abs(event.clientY - start) > STILL) return;
    resizeSheet(panel.offsetHeight < 2 * MIN_HEIGHT ? innerHeight * OPEN : MIN_HEIGHT);
  });
  edge.addEventListener("dblclick", () => panel.style.removeProperty("--panel"));
  edge.addEventListener("keydown", (event) => {
    const larger = KEYS.get(event.key);
    if (larger === undefined) return;
    event.stopPropagation();
    event.preventDefault();
    if (narrow.matches) resizeSheet(panel.offsetHeight + larger);
    else resizePanel(panel.offsetWidth + larger);
  });
}
