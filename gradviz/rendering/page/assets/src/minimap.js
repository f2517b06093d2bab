/** A small picture of everything, with what is seen of it; a click or a drag goes there. */
import { byId } from "./dom.js";
import { isWithin } from "./rects.js";

const WIDTH = 150;
const HEIGHT = 170;

export class Minimap {
  /** Everything, painted once: what is seen of it changes with every frame. */
  #whole = document.createElement("canvas");
  #frame = 0;

  /** @param {import("./viewport.js").Viewport} viewport */
  constructor(viewport) {
    this.viewport = viewport;
    this.canvas = byId("minimap");
    this.scene = null;
    viewport.onChange(() => this.#schedule());
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.#go(event);
    });
    this.canvas.addEventListener("pointermove", (event) => event.buttons && this.#go(event));
  }

  show(scene) {
    this.scene = scene;
    this.scale = Math.min(WIDTH / scene.width, HEIGHT / scene.height);
    const ratio = devicePixelRatio || 1;
    const width = Math.max(24, Math.round(scene.width * this.scale));
    const height = Math.max(24, Math.round(scene.height * this.scale));
    this.left = (width - scene.width * this.scale) / 2;
    this.top = (height - scene.height * this.scale) / 2;
    for (const canvas of [this.canvas, this.#whole]) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
    }
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.isPainted = false;
    this.#schedule();
  }

  #schedule() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    if (!this.scene) return;
    const { seen } = this.viewport;
    const isAllSeen = isWithin(this.scene, seen);
    byId("minimap-frame").hidden = isAllSeen;
    if (isAllSeen) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    if (!this.isPainted) this.#paintWhole(colour);
    const brush = this.canvas.getContext("2d");
    brush.setTransform(1, 0, 0, 1, 0, 0);
    brush.clearRect(0, 0, this.canvas.width, this.canvas.height);
    brush.drawImage(this.#whole, 0, 0);
    this.#toScene(brush);
    brush.strokeStyle = colour("--accent");
    brush.lineWidth = 2 / this.scale;
    brush.globalAlpha = 0.12;
    brush.fillStyle = colour("--accent");
    brush.fillRect(seen.x, seen.y, seen.width, seen.height);
    brush.globalAlpha = 1;
    brush.strokeRect(seen.x, seen.y, seen.width, seen.height);
  }

  #paintWhole(colour) {
    const brush = this.#whole.getContext("2d");
    this.#toScene(brush);
    brush.lineWidth = 1 / this.scale;
    brush.strokeStyle = colour("--line");
    brush.fillStyle = colour("--raised");
    for (const rect of this.scene.open.values()) {
      brush.fillRect(rect.x, rect.y, rect.width, rect.height);
      brush.strokeRect(rect.x, rect.y, rect.width, rect.height);
    }
    brush.fillStyle = colour("--faint");
    for (const rect of this.scene.items.values()) brush.fillRect(rect.x, rect.y, rect.width, Math.max(rect.height, 1.5 / this.scale));
    this.isPainted = true;
  }

  /** What is painted then has its place in the scene. */
  #toScene(brush) {
    const ratio = devicePixelRatio || 1;
    brush.setTransform(this.scale * ratio, 0, 0, this.scale * ratio, this.left * ratio, this.top * ratio);
    brush.translate(-this.scene.x, -this.scene.y);
  }

  #go(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const x = (event.clientX - left - this.left) / this.scale + this.scene.x;
    const y = (event.clientY - top - this.top) / this.scale + this.scene.y;
    this.viewport.centre(x, y);
  }
}
