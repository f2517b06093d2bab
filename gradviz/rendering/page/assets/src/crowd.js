/**
 * The picture on a canvas, for more things at once than a browser moves as elements fast enough: it takes 4 µs for every
 * part of an element to zoom it, and an item with its wires has 18.
 *
 * What is known of things as elements, their classes, is known of stand-ins, which are in no document; everything else
 * treats these as the elements that are there when less is in sight.
 */
import { byId, s } from "./dom.js";
import { grouped } from "./grouping.js";
import { Looks } from "./looks.js";
import { boundsOf, touch } from "./rects.js";
import { CHIP, itemClass, shadeOf, wireKind } from "./shapes.js";

/** Nearer than this words can be read, and outlines be told from one another: as the style says of elements. */
export const NEAR = 0.3;
/** Items and wires. More are not painted for every frame: while the view moves, the painting moves as it is. */
const MOST_IN_MOTION = 15_000;
/** In milliseconds, until a view that does not move is taken to rest. */
const REST = 120;
/** In pixels of the screen. */
const THINNEST = 0.5;
const TITLE_SIZE = 11;
const TITLE_ROOM = { width: 46, height: 26 };

export class Crowd {
  #scene = null;
  #looks = new Looks(() => this.#drawAnew());
  /** What looks alike, together; null where that has to be found out. */
  #alike = null;
  #outlines = new Map();
  #rest = 0;
  /** What was painted: which part of the scene, and how many things. */
  #painted = { count: 0 };
  /** Whose changes are seen. */
  #standIns = s("g");

  /**
   * @param {import("./model.js").Model} model
   * @param {{back: Element, wires: Element, items: Element}} layers where the elements would be
   * @param {() => import("./composition.js").Rect & {scale: number}} seen
   */
  constructor(model, layers, seen) {
    this.model = model;
    this.layers = layers;
    this.seen = seen;
    this.canvas = byId("crowd");
    new MutationObserver(() => this.#drawAnew()).observe(this.#standIns, { subtree: true, attributeFilter: ["class"] });
  }

  /**
   * Shows a scene.
   *
   * @returns {{items: Map<number, Element>, wires: Map<string, Element>}} the stand-ins
   */
  show(scene, colour) {
    this.#scene = scene;
    const items = new Map();
    for (const number of scene.open.keys()) items.set(number, s("g", { class: "h item" }));
    for (const number of scene.items.keys()) items.set(number, s("g", { class: itemClass(this.model.items[number], colour) }));
    const wires = new Map(scene.lines.map((line) => [line.key, s("g", { class: "wire", "data-kind": wireKind(this.model, line) })]));
    this.#standIns.replaceChildren(...items.values(), ...wires.values());
    this.items = items;
    this.wires = wires;
    this.#drawAnew();
    return { items, wires };
  }

  hide() {
    clearTimeout(this.#rest);
    this.#scene = null;
    this.#standIns.replaceChildren();
  }

  /** The item at a place of the scene, of several the innermost; null for none. */
  numberAt(point) {
    const place = { ...point, width: 0, height: 0 };
    const at = (rects) => [...rects].findLast(([, rect]) => touch(rect, place))?.[0];
    return at(this.#scene.items) ?? at(this.#scene.open) ?? null;
  }

  /** After the view was moved. */
  look() {
    if (this.#painted.count <= MOST_IN_MOTION) return this.draw();
    const { x, y, scale } = this.seen();
    const was = this.#painted.seen;
    this.canvas.style.transform = `translate(${(was.x - x) * scale}px, ${(was.y - y) * scale}px) scale(${scale / was.scale})`;
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => this.draw(), REST);
    return undefined;
  }

  /** Paints what is in sight. */
  draw() {
    if (!this.#scene) return;
    const seen = this.seen();
    let count = 0;
    const brush = this.#brush(seen);
    const isNear = seen.scale >= NEAR;
    const open = [...this.#scene.open].filter(([, rect]) => touch(rect, seen));
    this.#alike ??= { lines: this.#linesByLook(), items: this.#itemsByLook() };
    for (const [number, rect] of open) this.#drawBack(brush, number, rect, seen.scale);
    for (const [look, lines] of this.#alike.lines) {
      this.#dip(brush, look, seen.scale);
      count += drawLines(brush, lines, seen);
    }
    for (const [look, items] of this.#alike.items) {
      this.#dip(brush, look, seen.scale);
      for (const [number, rect] of items) {
        if (!touch(rect, seen)) continue;
        count++;
        if (isNear) this.#drawOutline(brush, number, rect);
        else drawRect(brush, rect);
      }
    }
    if (isNear) for (const [number, rect] of this.#scene.items) if (touch(rect, seen)) this.#drawWords(brush, number, rect);
    for (const [number, rect] of open) this.#drawTitle(brush, number, rect, seen.scale);
    this.canvas.style.transform = "";
    this.#painted = { seen, count };
  }

  #drawAnew() {
    this.#alike = null;
    this.draw();
  }

  /** Of a canvas that is as large as what is seen, in coordinates of the scene. */
  #brush(seen) {
    const ratio = devicePixelRatio || 1;
    const width = Math.round(seen.width * seen.scale * ratio);
    const height = Math.round(seen.height * seen.scale * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const brush = this.canvas.getContext("2d");
    brush.setTransform(1, 0, 0, 1, 0, 0);
    brush.clearRect(0, 0, width, height);
    const scale = seen.scale * ratio;
    brush.setTransform(scale, 0, 0, scale, -seen.x * scale, -seen.y * scale);
    brush.lineJoin = "round";
    return brush;
  }

  #dip(brush, look, scale) {
    brush.globalAlpha = look.opacity;
    brush.fillStyle = look.fill;
    brush.strokeStyle = look.stroke;
    brush.lineWidth = Math.max(look.width, THINNEST / scale);
    brush.setLineDash(scale >= NEAR ? look.dash : []);
  }

  #itemsByLook() {
    return grouped(this.#scene.items, ([number]) =>
      this.#looks.of(this.layers.items, this.items.get(number).getAttribute("class"), "path", "s"));
  }

  #linesByLook() {
    return grouped(this.#scene.lines, ({ key }) => {
      const standIn = this.wires.get(key);
      return this.#looks.of(this.layers.wires, standIn.getAttribute("class"), "path", standIn.dataset.kind ?? "");
    });
  }

  #drawBack(brush, number, { x, y, width, height, depth }, scale) {
    const failed = this.model.items[number].is_failed ? " failed" : "";
    this.#dip(brush, this.#looks.of(this.layers.back, null, "rect", `o ${shadeOf(depth)}${failed}`), scale);
    brush.beginPath();
    brush.roundRect(x, y, width, height, 9);
    brush.fill();
    brush.stroke();
  }

  #drawOutline(brush, number, { x, y }) {
    const { shape } = this.model.items[number];
    if (!this.#outlines.has(shape)) this.#outlines.set(shape, this.model.document.shapes[shape].map((path) => new Path2D(path)));
    const [front, inner, ...behind] = this.#outlines.get(shape);
    brush.translate(x, y);
    for (const outline of [...behind, front]) {
      brush.fill(outline);
      brush.stroke(outline);
    }
    brush.stroke(inner);
    brush.translate(-x, -y);
  }

  #drawWords(brush, number, rect) {
    const group = this.items.get(number).getAttribute("class");
    const { lines = [], chips = [] } = this.model.items[number];
    for (const line of lines) this.#drawLine(brush, group, line, rect);
    for (const chip of chips) this.#drawChip(brush, `${group} ${chip.level ?? ""}`, chip, rect);
  }

  #drawLine(brush, group, line, { x, y }) {
    this.#write(brush, group, line.style, line.text, x + line.x, y + line.y);
    if (line.aside) this.#write(brush, group, "q", line.aside, x + line.aside_x, y + line.y);
  }

  /** A count, or a mark, from the corner of what it stands on. */
  #drawChip(brush, group, chip, { x, y }) {
    const look = this.#looks.of(this.layers.items, group, "rect", "c");
    this.#dip(brush, look, NEAR);
    brush.beginPath();
    brush.roundRect(x + chip.x, y + chip.y - CHIP.rise, chip.width, CHIP.height, CHIP.height / 2);
    if (look.fill !== "none") brush.fill();
    brush.stroke();
    this.#write(brush, group, "b", chip.text, x + chip.x + CHIP.side, y + chip.y - CHIP.sink);
  }

  #write(brush, group, style, text, x, y) {
    const look = this.#looks.of(this.layers.items, group, "text", style);
    brush.globalAlpha = look.opacity;
    brush.fillStyle = look.fill;
    brush.font = look.font;
    brush.fillText(text, x, y);
  }

  /** From afar as large as it can be read, where there is room. */
  #drawTitle(brush, number, rect, scale) {
    const { header, chip } = rect.box;
    const group = this.items.get(number).getAttribute("class");
    if (scale >= NEAR) {
      const corner = { x: rect.x + rect.titleFrom, y: rect.y };
      if (chip) this.#drawChip(brush, `${group} box`, chip, corner);
      return this.#drawLine(brush, group, { ...header, style: `t ${shadeOf(rect.depth)}` }, corner);
    }
    if (rect.width * scale < TITLE_ROOM.width || rect.height * scale < TITLE_ROOM.height) return undefined;
    const look = this.#looks.of(this.layers.items, group, "text", "t");
    brush.save();
    brush.beginPath();
    brush.rect(rect.x, rect.y, rect.width, rect.height);
    brush.clip();
    brush.globalAlpha = look.opacity;
    brush.fillStyle = look.fill;
    brush.font = look.font.replace(/[\d.]+px/, `${TITLE_SIZE / scale}px`);
    brush.fillText(header.text, rect.x + 4 / scale, rect.y + (TITLE_SIZE + 2) / scale);
    return brush.restore();
  }
}

/** @returns {number} how many were in sight */
function drawLines(brush, lines, seen) {
  let count = 0;
  brush.beginPath();
  for (const line of lines) {
    if (!touch((line.bounds ??= boundsOf(line.points)), seen)) continue;
    line.points.forEach(({ x, y }, at) => (at ? brush.lineTo(x, y) : brush.moveTo(x, y)));
    count++;
  }
  brush.stroke();
  return count;
}

function drawRect(brush, { x, y, width, height }) {
  brush.fillRect(x, y, width, height);
  brush.strokeRect(x, y, width, height);
}
