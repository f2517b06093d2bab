/**
 * On paper there is the whole picture alone, as large as the page is wide, with its legend.
 *
 * @import { Rect } from "../layout/types.js"
 * @import { Picture } from "./picture.js"
 */
import { byId } from "../shared/dom.js";

const MARGIN = 12;

/** @param {{area: () => Rect, picture: Picture}} page */
export function printWhole({ area, picture }) {
  const svg = byId("picture");
  const scene = byId("scene");
  let putBack = () => {};
  let transform = "";
  addEventListener("beforeprint", () => {
    const { x, y, width, height } = area();
    putBack = picture.lendElements();
    svg.setAttribute("viewBox", [x - MARGIN, y - MARGIN, width + 2 * MARGIN, height + 2 * MARGIN].join(" "));
    transform = scene.getAttribute("transform") ?? "";
    scene.removeAttribute("transform");
  });
  addEventListener("afterprint", () => {
    svg.removeAttribute("viewBox");
    scene.setAttribute("transform", transform);
    putBack();
  });
}
