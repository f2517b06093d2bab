/** The edge between picture and panel, which can be moved: with the pointer, or with arrow keys. */
import { byId } from "../shared/dom.js";

const MIN_WIDTH = 240;
const STEP = 24;
const KEYS = new Map([["ArrowLeft", STEP], ["ArrowRight", -STEP]]);

export function listenToEdge() {
  const [edge, panel] = [byId("panel-edge"), byId("panel")];
  /** @param {number} width */
  const resize = (width) => {
    panel.style.setProperty("--panel", `${Math.round(Math.min(Math.max(width, MIN_WIDTH), innerWidth - MIN_WIDTH))}px`);
  };
  edge.addEventListener("pointerdown", (event) => {
    edge.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  edge.addEventListener("pointermove", (event) => edge.hasPointerCapture(event.pointerId) && resize(innerWidth - event.clientX));
  edge.addEventListener("dblclick", () => panel.style.removeProperty("--panel"));
  edge.addEventListener("keydown", (event) => {
    const wider = KEYS.get(event.key);
    if (wider === undefined) return;
    event.stopPropagation();
    event.preventDefault();
    resize(panel.offsetWidth + wider);
  });
}
