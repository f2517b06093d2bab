/** Saves what is shown as a picture: all of it, or what is in sight, where not everything is drawn. */
import { byId, h, s } from "./dom.js";

const SCALE = 2;
const MARGIN = 20;
/** Pixels of a PNG that browsers still make. */
const LARGEST_SIDE = 16_000;

/** The picture as the text of an SVG file of its own, with the page's style and font inside. */
function svgText({ x, y, width, height }) {
  const { theme } = document.documentElement.dataset;
  const layers = byId("scene").cloneNode(true);
  layers.removeAttribute("transform");
  for (const sign of layers.querySelectorAll(".toggle, .w, .grip")) sign.remove();
  const box = [x - MARGIN, y - MARGIN, width + 2 * MARGIN, height + 2 * MARGIN].map(Math.round);
  const style = s("style");
  style.textContent = document.querySelector("style").textContent;
  const picture = s(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", viewBox: box.join(" "), width: box[2], height: box[3], "data-theme": theme },
    style,
    byId("picture").querySelector("defs").cloneNode(true),
    s("rect", { class: "page", x: box[0], y: box[1], width: box[2], height: box[3] }),
    s("g", { "data-color": byId("stage").dataset.color, "data-weighed": byId("stage").hasAttribute("data-weighed") }, layers),
  );
  return new XMLSerializer().serializeToString(picture);
}

export function saveSvg(area, name) {
  download(new Blob([svgText(area)], { type: "image/svg+xml" }), `${name}.svg`);
}

export async function savePng(area, name) {
  const url = URL.createObjectURL(new Blob([svgText(area)], { type: "image/svg+xml" }));
  try {
    const image = h("img", { src: url });
    await image.decode();
    const scale = Math.min(SCALE, LARGEST_SIDE / Math.max(image.width, image.height));
    const canvas = h("canvas", { width: Math.round(image.width * scale), height: Math.round(image.height * scale) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    download(await new Promise((done) => canvas.toBlob(done, "image/png")), `${name}.png`);
  } finally {
    URL.revokeObjectURL(url);
  }
}

function download(content, name) {
  const url = URL.createObjectURL(content);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
