/**
 * A small picture of everything, with what is seen of it; a click or a drag goes there.
 *
 * @import { Scene } from "../layout/types.js"
 * @import { Viewport } from "./viewport.js"
 *
 * @typedef {{scene: Scene, scale: number, left: number, top: number}} Miniature
 */
import { isWithin } from "../layout/rectangles.js";
import { brushOf, byId } from "../shared/dom.js";

const WIDTH = 150;
const HEIGHT = 170;

export class Minimap {
  /** Everything, painted once: what is seen of it changes with every frame. */
  #whole = document.createElement("canvas");
  #frame = 0;
  /** @type {Miniature|null} */
  #miniature = null;
  #isPainted = false;

  /** @param {Viewport} viewport */
  constructor(viewport) {
    this.viewport = viewport;
    this.canvas = byId("minimap");
    viewport.onChange(() => this.#schedule());
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.#go(event);
    });
    this.canvas.addEventListener("pointermove", (event) => event.buttons && this.#go(event));
  }

  /** @param {Scene} scene */
  show(scene) {
    const scale = Math.min(WIDTH / scene.width, HEIGHT / scene.height);
    const ratio = devicePixelRatio || 1;
    const width = Math.max(24, Math.round(scene.width * scale));
    const height = Math.max(24, Math.round(scene.height * scale));
    this.#miniature = { scene, scale, left: (width - scene.width * scale) / 2, top: (height - scene.height * scale) / 2 };
    for (const canvas of [this.canvas, this.#whole]) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
    }
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.#isPainted = false;
    this.#schedule();
  }

  #schedule() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    if (!this.#miniature) return;
    const { scene, scale } = this.#miniature;
    const { seen } = this.viewport;
    const isAllSeen = isWithin(scene, seen);
    byId("minimap-frame").hidden = isAllSeen;
    if (isAllSeen) return;
    const style = getComputedStyle(document.documentElement);
    /** @param {string} name */
    const colour = (name) => style.getPropertyValue(name).trim();
    if (!this.#isPainted) this.#paintWhole(this.#miniature, colour);
    const brush = brushOf(this.canvas);
    brush.setTransform(1, 0, 0, 1, 0, 0);
    brush.clearRect(0, 0, this.canvas.width, this.canvas.height);
    brush.drawImage(this.#whole, 0, 0);
    toScene(brush, this.#miniature);
    brush.strokeStyle = colour("--accent");
    brush.lineWidth = 2 / scale;
    brush.globalAlpha = 0.12;
    brush.fillStyle = colour("--accent");
    brush.fillRect(seen.x, seen.y, seen.width, seen.height);
    brush.globalAlpha = 1;
    brush.strokeRect(seen.x, seen.y, seen.width, seen.height);
  }

  /**
   * @param {Miniature} miniature
   * @param {(name: string) => string} colour
   */
  #paintWhole(miniature, colour) {
    const { scene, scale } = miniature;
    const brush = brushOf(this.#whole);
    toScene(brush, miniature);
    brush.lineWidth = 1 / scale;
    brush.strokeStyle = colour("--line");
    brush.fillStyle = colour("--raised");
    for (const rect of scene.open.values()) {
      brush.fillRect(rect.x, rect.y, rect.width, rect.height);
      brush.strokeRect(rect.x, rect.y, rect.width, rect.height);
    }
    brush.fillStyle = colour("--faint");
    for (const rect of scene.items.values()) brush.fillRect(rect.x, rect.y, rect.width, Math.max(rect.height, 1.5 / scale));
    this.#isPainted = true;
  }

  /** @param {PointerEvent} event */
  #go(event) {
    if (!this.#miniature) return;
    const { scene, scale, left: marginLeft, top: marginTop } = this.#miniature;
    const { left, top } = this.canvas.getBoundingClientRect();
    const x = (event.clientX - left - marginLeft) / scale + scene.x;
    const y = (event.clientY - top - marginTop) / scale + scene.y;
    this.viewport.centre(x, y);
  }
}

/**
 * What is painted then has its position in the scene.
 *
 * @param {CanvasRenderingContext2D} brush
 * @param {Miniature} miniature
 */
function toScene(brush, { scene, scale, left, top }) {
  const ratio = devicePixelRatio || 1;
  brush.setTransform(scale * ratio, 0, 0, scale * ratio, left * ratio, top * ratio);
  brush.translate(-scene.x, -scene.y);
}
