/**
 * The picture: shows scenes, as elements that move from one to the next, or on a canvas where too much is in sight.
 *
 * @import { Model } from "../graph/model.js"
 * @import { Rect, Scene, SeenRect } from "../layout/types.js"
 * @import { Room } from "./box-titles.js"
 * @import { ItemElements, Move, WireElements } from "./element-layers.js"
 */
import { isWithin, lineTouches, touch, widened } from "../layout/rectangles.js";
import { byId, s, targetOf } from "../shared/dom.js";
import { placeTitles, roomForTitles } from "./box-titles.js";
import { CanvasPainter } from "./canvas-painter.js";
import { ElementLayers } from "./element-layers.js";
import { showLabels } from "./wire-labels.js";

const DURATION = 220;
/** So many elements are moved step by step; more jump at once. */
const MAX_MOVED = 600;
/** Of a picture with more, only what is in sight has elements. */
const MAX_KEPT = 1200;
/** With more items in sight nothing has elements: all is painted; until so much fewer are in sight again. */
const MAX_IN_SIGHT = 400;
const FEWER = 0.8;
const PAINTED_HINT = "arrow keys go from one thing to the next and say which; zoom in or fold boxes to go through all with the tab key";
/** Windows around what is in sight, at each side, that have elements as well. */
const AROUND = 0.25;
/** Elements are left behind once they fill so many windows more than they were made for: nearing would move them all. */
const MAX_WINDOWS = 5;

const EMPTY = { items: new Map(), open: new Map(), lines: [], x: 0, y: 0, width: 0, height: 0 };

export class Picture {
  /** @type {Scene|null} */
  #scene = null;
  #frame = 0;
  /** @type {Scene|null} what of the scene has elements */
  #drawn = null;
  /** @type {Rect|null} where not everything has elements, the part of the scene that has */
  #covered = null;
  /** @type {Map<number, Room>} of titles of open boxes */
  #rooms = new Map();
  /** @type {{items: ItemElements, wires: WireElements}|null} stand-ins for elements while everything is painted */
  #painted = null;

  /**
   * @param {Model} model
   * @param {() => SeenRect} seen what part of the scene is in sight
   * @param {() => void} onDrawn called when other things have come into sight
   */
  constructor(model, seen, onDrawn) {
    this.model = model;
    this.seen = seen;
    this.onDrawn = onDrawn;
    this.elements = new ElementLayers(model);
    /** Words beside wires, and words over everything. */
    this.labels = s("g", { class: "y", "aria-hidden": "true" });
    this.words = s("g", { class: "play-words", "aria-hidden": "true" });
    const { layers } = this.elements;
    this.painter = new CanvasPainter(model, layers, seen);
    byId("scene").append(...Object.values(layers), this.labels, this.words);
    this.colour = "none";
    this.isPainted = false;
  }

  /** What is shown: nothing at first. */
  get scene() {
    return this.#scene ?? EMPTY;
  }

  /** False where only what is in sight is drawn. */
  get isWhole() {
    return this.#covered === null;
  }

  /**
   * The item in which something happened; null for none.
   *
   * @param {MouseEvent|KeyboardEvent} event
   * @returns {number|null}
   */
  numberAt(event) {
    const element = targetOf(event).closest(/** @type {"g"} */ ("[data-item]"));
    if (element) return Number(element.dataset.item);
    if (!this.isPainted || event.target !== byId("picture") || !(event instanceof MouseEvent)) return null;
    return this.painter.numberAt(this.#pointOf(event));
  }

  /** @param {MouseEvent} event */
  #pointOf({ clientX, clientY }) {
    const { x, y, scale } = this.seen();
    const { left, top } = byId("picture").getBoundingClientRect();
    return { x: x + (clientX - left) / scale, y: y + (clientY - top) / scale };
  }

  /**
   * Gives elements to what is in sight, and titles their own positions, for who saves or prints.
   *
   * @returns {() => void} puts everything back
   */
  lendElements() {
    if (!this.isPainted) {
      this.#placeTitles({ ...this.scene, scale: 1 });
      return () => this.#placeTitles();
    }
    this.#turn(false);
    this.#drawAnew(this.scene);
    this.onDrawn();
    return () => {
      this.#turn(true);
      this.#paint();
      this.onDrawn();
    };
  }

  /**
   * The element of an item that is shown.
   *
   * @param {number} number
   */
  elementOf(number) {
    return this.elementsOfItems().get(number);
  }

  /** @returns {WireElements} */
  elementsOfLines() {
    return (this.#painted ?? this.elements).wires;
  }

  /** @returns {ItemElements} */
  elementsOfItems() {
    return (this.#painted ?? this.elements).items;
  }

  /**
   * Everything again, in other colours.
   *
   * @param {string} colour
   */
  recolour(colour) {
    this.colour = colour;
    byId("view").dataset.color = colour;
    if (this.isPainted) this.#paint();
    else if (this.#drawn) this.elements.recolour(this.#drawn, colour);
  }

  /**
   * Shows another scene, moving what both have.
   *
   * @param {Scene} scene
   */
  show(scene) {
    cancelAnimationFrame(this.#frame);
    this.#scene = scene;
    this.#turn(this.#isTooMuch(scene));
    if (this.isPainted) {
      this.#paint();
      return;
    }
    const before = this.#drawn;
    this.#drawn = this.#inSight(scene);
    this.#rooms = roomForTitles(this.#drawn);
    const moves = this.elements.update(this.#drawn, before, this.colour);
    const isStill = !before || moves.length > MAX_MOVED || matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (isStill) this.#jump(moves);
    else this.#animate(moves);
  }

  /** @param {Move[]} moves */
  #jump(moves) {
    moves.forEach((move) => move(1));
    this.#placeTitles();
    this.#settle();
  }

  /** @param {Move[]} moves */
  #animate(moves) {
    byId("picture").removeAttribute("data-settled");
    const start = performance.now();
    /** @param {number} now */
    const step = (now) => {
      const part = Math.min(1, Math.max(0, (now - start) / DURATION));
      const eased = 1 - (1 - part) ** 3;
      moves.forEach((move) => move(eased));
      this.#placeTitles();
      if (part < 1) this.#frame = requestAnimationFrame(step);
      else this.#settle();
    };
    moves.forEach((move) => move(0));
    this.#frame = requestAnimationFrame(step);
  }

  /** After the view was moved: draws what has come into sight, where not everything is drawn. */
  look() {
    const wasPainted = this.isPainted;
    this.#turn(this.#isTooMuch(this.scene));
    if (this.isPainted && wasPainted) {
      this.painter.look();
      return;
    }
    if (this.isPainted) this.#paint();
    else if (wasPainted || this.#isOutgrown()) this.#drawAnew(this.scene);
    else {
      this.#placeTitles();
      return;
    }
    this.onDrawn();
  }

  #placeTitles(seen = this.seen()) {
    if (!this.isPainted && this.#drawn) placeTitles(this.#drawn.open, this.#rooms, this.elements.items, seen);
  }

  /**
   * Whether so much is in sight that it has to be painted.
   *
   * @param {Scene} scene
   */
  #isTooMuch(scene) {
    const max = MAX_IN_SIGHT * (this.isPainted ? FEWER : 1);
    if (scene.items.size <= max) return false;
    const seen = this.seen();
    let count = 0;
    for (const rect of scene.items.values()) if (touch(rect, seen) && ++count > max) return true;
    return false;
  }

  /**
   * Goes over from elements to paint, or back.
   *
   * @param {boolean} isPainted
   */
  #turn(isPainted) {
    if (isPainted === this.isPainted) return;
    cancelAnimationFrame(this.#frame);
    this.isPainted = isPainted;
    byId("stage").toggleAttribute("data-painted", isPainted);
    sayWhetherPainted(isPainted);
    if (!isPainted) this.painter.hide();
    this.elements.clear();
    this.#painted = null;
    this.#drawn = null;
  }

  #paint() {
    this.#covered = this.seen();
    this.#painted = this.painter.show(this.scene, this.colour);
    this.#settle();
  }

  /** @param {Scene} scene */
  #drawAnew(scene) {
    cancelAnimationFrame(this.#frame);
    this.#drawn = this.#inSight(scene);
    this.#rooms = roomForTitles(this.#drawn);
    this.#jump(this.elements.update(this.#drawn, null, this.colour));
  }

  /** Whether something has come into sight that has no element, or elements fill much more than what is seen. */
  #isOutgrown() {
    if (!this.#covered) return false;
    const seen = this.seen();
    return !isWithin(seen, this.#covered) || this.#covered.width * this.#covered.height > MAX_WINDOWS * seen.width * seen.height;
  }

  /**
   * The part of a scene that has elements.
   *
   * @param {Scene} scene
   * @returns {Scene}
   */
  #inSight(scene) {
    this.#covered = null;
    if (scene.items.size + scene.lines.length <= MAX_KEPT) return scene;
    const covered = widened(this.seen(), AROUND);
    this.#covered = covered;
    return {
      ...scene,
      items: new Map([...scene.items].filter(([, rect]) => touch(rect, covered))),
      open: new Map([...scene.open].filter(([, rect]) => touch(rect, covered))),
      lines: scene.lines.filter((line) => lineTouches(line, covered)),
    };
  }

  #settle() {
    if (this.isPainted || !this.#drawn) this.labels.replaceChildren();
    else showLabels(this.labels, this.#drawn);
    byId("picture").setAttribute("data-settled", "");
  }
}

/**
 * Of what is painted the keyboard reaches only the whole, which says so.
 *
 * @param {boolean} isPainted
 */
function sayWhetherPainted(isPainted) {
  const svg = byId("picture");
  svg.setAttribute("aria-label", isPainted ? `graph, with so much in sight that it is painted: ${PAINTED_HINT}` : "graph");
  if (isPainted) svg.setAttribute("tabindex", "0");
  else svg.removeAttribute("tabindex");
}
