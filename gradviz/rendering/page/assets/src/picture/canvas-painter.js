/**
 * The picture on a canvas, for more things at once than a browser moves as elements fast enough: it takes 4 µs for every
 * part of an element to zoom it, and an item with its wires has 18.
 *
 * What is known of things as elements, their classes, is known of stand-ins, which are in no document; everything else
 * treats these as the elements that are there when less is in sight.
 *
 * @import { PageChip, PageLine } from "../document/types.js"
 * @import { Model } from "../graph/model.js"
 * @import { OpenRect, Point, Rect, Scene, SceneLine, SeenRect } from "../layout/types.js"
 * @import { Room } from "./box-titles.js"
 * @import { ItemElements, Layers, WireElements } from "./element-layers.js"
 * @import { Style } from "./computed-styles.js"
 *
 * @typedef {{front: Path2D, inner: Path2D, behind: Path2D[]}} Outline
 * @typedef {object} Shown
 * @property {Scene} scene
 * @property {ItemElements} items the stand-ins
 * @property {WireElements} wires
 * @property {string} colour
 */
import { lineTouches, touch } from "../layout/rectangles.js";
import { brushOf, byId, s } from "../shared/dom.js";
import { groupBy } from "../shared/group-by.js";
import { roomForTitles, TITLE_TOP, titleSize } from "./box-titles.js";
import { ComputedStyles } from "./computed-styles.js";
import { pillOfOpen, wordsOn } from "./pills.js";
import { CHIP, itemClass, shadeOf, wireKind } from "./svg-elements.js";
import { NEAR } from "./zoom-levels.js";

/** Items and wires. More are not painted for every frame: while the view moves, the painting moves as it is. */
const MAX_IN_MOTION = 15_000;
/** In milliseconds, until a view that does not move is taken to rest. */
const REST = 120;
/** In pixels of the screen. */
const THINNEST = 0.5;

export class CanvasPainter {
  /** @type {Shown|null} */
  #shown = null;
  #styles = new ComputedStyles(() => this.#drawAnew());
  /**
   * What looks alike, together; null where that has to be found out.
   *
   * @type {{lines: Map<Style, SceneLine[]>, items: Map<Style, [number, Rect][]>}|null}
   */
  #alike = null;
  /** @type {Map<number, Room>} of titles */
  #rooms = new Map();
  /** @type {Map<number, Outline>} */
  #outlines = new Map();
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  #rest;
  /**
   * What was painted: which part of the scene, and how many things.
   *
   * @type {{seen: SeenRect, count: number}|null}
   */
  #painted = null;
  /** Whose changes are seen. */
  #standIns = s("g");

  /**
   * @param {Model} model
   * @param {Layers} layers where the elements would be
   * @param {() => SeenRect} seen
   */
  constructor(model, layers, seen) {
    this.model = model;
    this.layers = layers;
    this.seen = seen;
    this.canvas = byId("picture-canvas");
    new MutationObserver(() => this.#drawAnew()).observe(this.#standIns, { subtree: true, attributeFilter: ["class"] });
  }

  /**
   * Shows a scene.
   *
   * @param {Scene} scene
   * @param {string} colour
   * @returns {Shown} with the stand-ins
   */
  show(scene, colour) {
    /** @type {ItemElements} */
    const items = new Map();
    for (const number of scene.open.keys()) items.set(number, s("g", { class: "h item" }));
    for (const number of scene.items.keys()) items.set(number, s("g", { class: itemClass(this.model, this.model.items[number], colour) }));
    const wires = new Map(scene.lines.map((line) => [line.key, s("g", { class: "wire", "data-kind": wireKind(this.model, line) })]));
    this.#standIns.replaceChildren(...items.values(), ...wires.values());
    this.#shown = { scene, items, wires, colour };
    this.#rooms = roomForTitles(scene);
    this.#drawAnew();
    return this.#shown;
  }

  hide() {
    clearTimeout(this.#rest);
    this.#shown = null;
    this.#standIns.replaceChildren();
  }

  /**
   * The item at a point of the scene, of several the innermost; null for none.
   *
   * @param {Point} point
   * @returns {number|null}
   */
  numberAt(point) {
    if (!this.#shown) return null;
    const { items, open } = this.#shown.scene;
    const spot = { ...point, width: 0, height: 0 };
    /** @param {Map<number, Rect>} rects */
    const at = (rects) => [...rects.keys()].findLast((number) => {
      const rect = rects.get(number);
      return rect && touch(rect, spot);
    });
    return at(items) ?? at(open) ?? null;
  }

  /** After the view was moved. */
  look() {
    if (!this.#painted || this.#painted.count <= MAX_IN_MOTION) {
      this.draw();
      return;
    }
    const { x, y, scale } = this.seen();
    const was = this.#painted.seen;
    this.canvas.style.transform = `translate(${(was.x - x) * scale}px, ${(was.y - y) * scale}px) scale(${scale / was.scale})`;
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => this.draw(), REST);
  }

  /** Paints what is in sight. */
  draw() {
    if (!this.#shown) return;
    const { scene } = this.#shown;
    const seen = this.seen();
    let count = 0;
    const brush = this.#brush(seen);
    const isNear = seen.scale >= NEAR;
    const open = [...scene.open].filter(([, rect]) => touch(rect, seen));
    this.#alike ??= { lines: this.#linesByStyle(this.#shown), items: this.#itemsByStyle(this.#shown) };
    for (const [number, rect] of open) this.#drawBack(brush, number, rect, seen.scale);
    for (const [style, lines] of this.#alike.lines) {
      dip(brush, style, seen.scale);
      count += drawLines(brush, lines, seen);
    }
    for (const [style, items] of this.#alike.items) {
      dip(brush, style, seen.scale);
      for (const [number, rect] of items) {
        if (!touch(rect, seen)) continue;
        count++;
        if (isNear) this.#drawOutline(brush, number, rect);
        else drawRect(brush, rect);
      }
    }
    if (isNear) for (const [number, rect] of scene.items) if (touch(rect, seen)) this.#drawWords(brush, number, rect);
    for (const [number, rect] of open) this.#drawTitle(brush, number, rect, seen.scale);
    this.canvas.style.transform = "";
    this.#painted = { seen, count };
  }

  #drawAnew() {
    this.#alike = null;
    this.draw();
  }

  /**
   * Of a canvas that is as large as what is seen, in coordinates of the scene.
   *
   * @param {SeenRect} seen
   */
  #brush(seen) {
    const ratio = devicePixelRatio || 1;
    const width = Math.round(seen.width * seen.scale * ratio);
    const height = Math.round(seen.height * seen.scale * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const brush = brushOf(this.canvas);
    brush.setTransform(1, 0, 0, 1, 0, 0);
    brush.clearRect(0, 0, width, height);
    const scale = seen.scale * ratio;
    brush.setTransform(scale, 0, 0, scale, -seen.x * scale, -seen.y * scale);
    brush.lineJoin = "round";
    return brush;
  }

  /** @param {Shown} shown */
  #itemsByStyle({ scene, items }) {
    return groupBy(scene.items, ([number]) => this.#styles.of(this.layers.items, classOf(items.get(number)), "path", "s"));
  }

  /** @param {Shown} shown */
  #linesByStyle({ scene, wires }) {
    return groupBy(scene.lines, ({ key }) => {
      const standIn = wires.get(key);
      return this.#styles.of(this.layers.wires, classOf(standIn), "path", standIn?.dataset.kind ?? "");
    });
  }

  /**
   * @param {CanvasRenderingContext2D} brush
   * @param {number} number
   * @param {OpenRect} rect
   * @param {number} scale
   */
  #drawBack(brush, number, { x, y, width, height, depth }, scale) {
    const failed = this.model.items[number].is_failed ? " failed" : "";
    dip(brush, this.#styles.of(this.layers.back, null, "rect", `o ${shadeOf(depth)}${failed}`), scale);
    brush.beginPath();
    brush.roundRect(x, y, width, height, 9);
    brush.fill();
    brush.stroke();
  }

  /**
   * @param {CanvasRenderingContext2D} brush
   * @param {number} number
   * @param {Rect} rect
   */
  #drawOutline(brush, number, { x, y }) {
    const { front, inner, behind } = this.#outline(this.model.items[number].shape);
    brush.translate(x, y);
    for (const outline of [...behind, front]) {
      brush.fill(outline);
      brush.stroke(outline);
    }
    brush.stroke(inner);
    brush.translate(-x, -y);
  }

  /**
   * @param {number} shape
   * @returns {Outline}
   */
  #outline(shape) {
    const { front, inner, behind } = this.model.document.shapes[shape];
    const outline = this.#outlines.get(shape)
      ?? { front: new Path2D(front), inner: new Path2D(inner), behind: behind.map((path) => new Path2D(path)) };
    this.#outlines.set(shape, outline);
    return outline;
  }

  /** @param {number} number */
  #classOf(number) {
    return classOf(this.#shown?.items.get(number));
  }

  /**
   * @param {CanvasRenderingContext2D} brush
   * @param {number} number
   * @param {Rect} rect
   */
  #drawWords(brush, number, rect) {
    const group = this.#classOf(number);
    const { lines, chips } = wordsOn(this.model.items[number], this.#shown?.colour ?? "");
    for (const line of lines) this.#drawLine(brush, group, line, rect);
    for (const chip of chips) this.#drawChip(brush, `${group} ${chip.level ?? ""}`, chip, rect);
  }

  /**
   * @param {CanvasRenderingContext2D} brush
   * @param {string} group
   * @param {PageLine} line
   * @param {Point} corner
   */
  #drawLine(brush, group, line, { x, y }) {
    this.#write(brush, group, line.style, line.text, { x: x + line.x, y: y + line.y });
    if (line.aside) this.#write(brush, group, "q", line.aside, { x: x + (line.aside_x ?? 0), y: y + line.y });
  }

  /**
   * A count, or a mark, from the corner of what it stands on.
   *
   * @param {CanvasRenderingContext2D} brush
   * @param {string} group
   * @param {PageChip} chip
   * @param {Point} corner
   */
  #drawChip(brush, group, chip, { x, y }) {
    const style = this.#styles.of(this.layers.items, group, "rect", "c");
    dip(brush, style, NEAR);
    brush.beginPath();
    brush.roundRect(x + chip.x, y + chip.y - CHIP.rise, chip.width, CHIP.height, CHIP.height / 2);
    if (style.fill !== "none") brush.fill();
    brush.stroke();
    this.#write(brush, group, "b", chip.text, { x: x + chip.x + CHIP.side, y: y + chip.y - CHIP.sink });
  }

  /**
   * @param {CanvasRenderingContext2D} brush
   * @param {string} group
   * @param {string} own its class
   * @param {string} text
   * @param {Point} start
   */
  #write(brush, group, own, text, { x, y }) {
    const style = this.#styles.of(this.layers.items, group, "text", own);
    brush.globalAlpha = style.opacity;
    brush.fillStyle = style.fill;
    brush.font = style.font;
    brush.fillText(text, x, y);
  }

  /**
   * As large on the screen as from near, where there is room.
   *
   * @param {CanvasRenderingContext2D} brush
   * @param {number} number
   * @param {OpenRect} rect
   * @param {number} scale
   */
  #drawTitle(brush, number, rect, scale) {
    const group = this.#classOf(number);
    const room = this.#rooms.get(number);
    if (!room) return;
    const { factor, isNameOnly } = titleSize(room, scale);
    const header = { ...rect.box.header, style: `t ${shadeOf(rect.depth)}` };
    const chip = pillOfOpen(this.model.items[number], rect.box.chip, this.#shown?.colour ?? "");
    brush.save();
    brush.translate(rect.x + rect.titleFrom, rect.y + TITLE_TOP * (1 - factor));
    brush.scale(factor, factor);
    if (chip && !isNameOnly) this.#drawChip(brush, `${group} box`, chip, { x: 0, y: 0 });
    this.#drawLine(brush, group, isNameOnly ? { ...header, aside: "" } : header, { x: 0, y: 0 });
    brush.restore();
  }
}

/** @param {Element|undefined} element */
const classOf = (element) => element?.getAttribute("class") ?? "";

/**
 * @param {CanvasRenderingContext2D} brush
 * @param {Style} style
 * @param {number} scale
 */
function dip(brush, style, scale) {
  brush.globalAlpha = style.opacity;
  brush.fillStyle = style.fill;
  brush.strokeStyle = style.stroke;
  brush.lineWidth = Math.max(style.width, THINNEST / scale);
  brush.setLineDash(scale >= NEAR ? style.dash : []);
}

/**
 * @param {CanvasRenderingContext2D} brush
 * @param {SceneLine[]} lines
 * @param {SeenRect} seen
 * @returns {number} how many were in sight
 */
function drawLines(brush, lines, seen) {
  let count = 0;
  brush.beginPath();
  for (const line of lines) {
    if (!lineTouches(line, seen)) continue;
    line.points.forEach(({ x, y }, at) => (at ? brush.lineTo(x, y) : brush.moveTo(x, y)));
    count++;
  }
  brush.stroke();
  return count;
}

/**
 * @param {CanvasRenderingContext2D} brush
 * @param {Rect} rect
 */
function drawRect(brush, { x, y, width, height }) {
  brush.fillRect(x, y, width, height);
  brush.strokeRect(x, y, width, height);
}
