/**
 * Saves what is shown as a picture: all of it, or what is in sight, where not everything is drawn.
 *
 * @import { Rect } from "../layout/types.js"
 */
import { brushOf, byId, h, partOf, s } from "../shared/dom.js";

const SCALE = 2;
const MARGIN = 20;
/** Pixels of a PNG that browsers still make. */
const MAX_SIDE = 16_000;

/**
 * The name of a file for what a script recorded.
 *
 * @param {string} program the script, and maybe its arguments
 */
export const fileName = (program) =>
  (program.split(/[\\/]/).at(-1) ?? "").replace(/\.py\b.*/, "").replace(/[^\w.-]+/g, "_").slice(0, 80) || "graph";

/**
 * The picture as the text of an SVG file of its own, with the page's style and font inside.
 *
 * @param {Rect} area
 */
function svgText(area) {
  const { theme } = document.documentElement.dataset;
  const layers = /** @type {SVGGElement} */ (byId("scene").cloneNode(true));
  layers.removeAttribute("transform");
  for (const sign of layers.querySelectorAll(".toggle, .w, .grip")) sign.remove();
  const [x, y] = [Math.round(area.x - MARGIN), Math.round(area.y - MARGIN)];
  const [width, height] = [Math.round(area.width + 2 * MARGIN), Math.round(area.height + 2 * MARGIN)];
  const picture = s(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", viewBox: `${x} ${y} ${width} ${height}`, width, height, "data-theme": theme },
    s("style", {}, document.querySelector("style")?.textContent),
    partOf(byId("picture"), "defs").cloneNode(true),
    s("rect", { class: "page", x, y, width, height }),
    s("g", { "data-color": byId("stage").dataset.color, "data-weighed": byId("stage").hasAttribute("data-weighed") }, layers),
  );
  return new XMLSerializer().serializeToString(picture);
}

/**
 * @param {Rect} area
 * @param {string} name
 */
export function saveSvg(area, name) {
  download(new Blob([svgText(area)], { type: "image/svg+xml" }), `${name}.svg`);
}

/**
 * @param {Rect} area
 * @param {string} name
 */
export async function savePng(area, name) {
  const url = URL.createObjectURL(new Blob([svgText(area)], { type: "image/svg+xml" }));
  try {
    const image = h("img", { src: url });
    await image.decode();
    const scale = Math.min(SCALE, MAX_SIDE / Math.max(image.width, image.height));
    const canvas = h("canvas", { width: Math.round(image.width * scale), height: Math.round(image.height * scale) });
    brushOf(canvas).drawImage(image, 0, 0, canvas.width, canvas.height);
    download(await pngOf(canvas), `${name}.png`);
  } finally {
    URL.revokeObjectURL(url);
  }
}

/**
 * @param {HTMLCanvasElement} canvas
 * @returns {Promise<Blob>}
 */
function pngOf(canvas) {
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("this browser cannot make so large a picture"))), "image/png");
  });
}

/**
 * @param {Blob} content
 * @param {string} name
 */
function download(content, name) {
  const url = URL.createObjectURL(content);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
