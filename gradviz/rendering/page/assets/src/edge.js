/** The edge between picture and panel, which can be moved: with the pointer, or with arrow keys. */
import { byId } from "./dom.js";

const LEAST = 240;
const STEP = 24;

export function listenToEdge() {
  const [edge, panel] = [byId("panel-edge"), byId("panel")];
  const moveTo = (width) => {
    panel.style.setProperty("--panel", `${Math.round(Math.min(Math.max(width, LEAST), innerWidth - LEAST))}px`);
  };
  edge.addEventListener("pointerdown", (event) => {
    edge.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  edge.addEventListener("pointermove", (event) => edge.hasPointerCapture(event.pointerId) && moveTo(innerWidth - event.clientX));
  edge.addEventListener("dblclick", () => panel.style.removeProperty("--panel"));
  edge.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (!way) return;
    event.stopPropagation();
    event.preventDefault();
    moveTo(panel.offsetWidth + way);
  });
}
